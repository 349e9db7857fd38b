"""Short phrases come back without invented words, from the built-in models."""

import pytest

from tests.api.conftest import ServeAny

pytestmark = pytest.mark.checkpoint

PHRASES = {
    "Thank you": "Obrigado",
    "Thank you!": "Obrigado!",
    "Thanks": "Obrigado",
    "Bye": "Bye",
    "README": "README",
    "AT&T": "AT&T",
    "changelog": "changelog",
    "Open directory": "Abrir diretório",
    "Harry Potter": "Harry Potter",
    "OPEN DIRECTORY": "ABRIR DIRETÓRIO",
}
TO_ENGLISH = {
    "Olá": "Hello",
    "S. Paulo": "S. Paul",
    "Obrigada!": "Thank you!",
    "Ótimo!": "Great!",
    "Índice": "Index",
    "Últimas notícias": "Latest news",
    "OPÇÕES": "OPTIONS",
    "CAMARÃO": "SHRIMP",
    "não, não, não": "no, no, no",
    "quase quase": "almost almost",
}


REPEATED = {
    "thank you thank you": "obrigado obrigado",
    "Thank you, thank you!": "Obrigado, obrigado!",
    "THANK YOU, THANK YOU!": "OBRIGADO, OBRIGADO!",
    "Thank you... thank you.": "Obrigado... obrigado.",
    "I like it. Thank you thank you": "Eu gosto disso. Obrigado obrigado",
    "let's go let's go": "vamos lá vamos lá",
    "New York New York": "Nova Iorque Nova Iorque",
    "yes sir yes sir": "sim senhor sim senhor",
    "please please please please": "por favor por favor por favor por favor",
    "one two one two": "um dois um dois",
}
REPEATED_TO_ENGLISH = {
    "muito obrigado muito obrigado": "thank you very much thank you very much",
    "por favor por favor": "please please",
    "Por favor, por favor, por favor": "Please, please, please",
    "não sei, não sei": "I do not know, I do not know",
    "MUITO BOM, MUITO BOM": "VERY GOOD, VERY GOOD",
    "boa noite, boa noite": "good night, good night",
}


def test_phrases_have_no_invented_words(serve_real: ServeAny) -> None:
    server = serve_real(phrase_beam_size=4, guard_beam_size=2)
    body = server.translated([*PHRASES])
    assert body == {"translatedText": [*PHRASES.values()]}
    body = server.translated([*TO_ENGLISH], source="pt", target="en")
    assert body == {"translatedText": [*TO_ENGLISH.values()]}
    for text, expected in PHRASES.items():
        assert server.translate(text).json() == {"translatedText": expected}
    body = server.translated(["Excuse me"])
    assert body["warnings"] == [[{"sentence": 0, "guard": "unsure"}]]


def test_repeated_phrase_has_all_its_parts(serve_real: ServeAny) -> None:
    """The models add words to such texts, or lose half of them."""
    server = serve_real(phrase_beam_size=4)
    body = server.translated([*REPEATED])
    assert body == {"translatedText": [*REPEATED.values()]}
    body = server.translated([*REPEATED_TO_ENGLISH], source="pt", target="en")
    assert body == {"translatedText": [*REPEATED_TO_ENGLISH.values()]}
    body = server.translated(["<b>Thank you</b>, thank you!"], format="html")
    assert body == {"translatedText": ["<b>Obrigado</b>, obrigado!"]}
    body = server.translated(["Thank you, thank you!"], return_alignment=True)
    assert [each["source_words"] for each in body["alignment"][0]] == [
        [[0, 5], [6, 9]],
        [[11, 16], [17, 20]],
    ]
    # Alternatives, scores and alignment are of the same translation.
    more = {"alternatives": 2, "return_scores": True}
    body = server.translated(["Open directory", "Thank you."], **more)
    assert body["translatedText"] == ["Abrir diretório", "Obrigado."]
    assert "Abrir o diretório" in body["alternatives"][0]
    first, second = (scores[0]["tokens"] for scores in body["scores"])
    assert [each["token"] for each in first] == ["▁Abrir", "▁diretório", "</s>"]
    assert second[0]["token"] == "▁Obrigado"
    body = server.translated(["Open directory"], return_alignment=True)
    assert body["translatedText"] == ["Abrir diretório"]
    (alignment,) = body["alignment"][0]
    assert alignment["target_words"] == [[0, 5], [6, 15]]
    assert alignment["pairs"]
    html = server.translate("<b>Open</b> directory", format="html").json()
    assert html["translatedText"] == "<b>Abrir</b> diretório"


def test_phrase_of_a_server_without_beams_has_scores(serve_real: ServeAny) -> None:
    server = serve_real(phrase_beam_size=4, max_beam_size=1)
    body = server.translated(["Open directory"], return_scores=True)
    assert body["translatedText"] == ["Abrir diretório"]
    assert [each["token"] for each in body["scores"][0][0]["tokens"]][-1] == "</s>"
