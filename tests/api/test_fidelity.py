"""What a vocabulary cannot represent comes back unchanged, in every translation."""

import re

import pytest

from service.text.protection import protect
from tests import protected_spans
from tests.api.servers import AnyServer

KEPT = {
    "If 5 < 6, then 6 > 5.": ["<"],
    "I <3 you": ["<3"],
    "{x} $y %s %(name)s": ["{x}", "$y", "%s", "%(name)s"],
    "It is cold today 🎉": ["🎉"],
    "🎉🎉": ["🎉🎉"],
    "The 🐈 sat on the mat.": ["🐈"],
    "President Erdoğan paid €50 in Łódź.": ["Erdoğan", "€50", "Łódź"],
    "• first\n• second": ["•"],
}


@pytest.mark.parametrize("text", KEPT)
def test_spans_come_back(real_server: AnyServer, text: str) -> None:
    translated = real_server.translated(text)["translatedText"]
    for span in KEPT[text]:
        assert translated.count(span) == text.count(span), translated
    assert not any(word in translated for word in ("XYZ", "A1B", "(1)"))


def test_spans_of_each_syntax_come_back(real_server: AnyServer) -> None:
    marked = [
        text.replace("⟧⟦", "")
        for texts in protected_spans.KEPT.values()
        for text in texts
        if ", plural," not in text  # its branches are translated
    ]
    there = {re.sub("[⟦⟧]", "", text): re.findall("⟦(.*?)⟧", text) for text in marked}
    back = {f"O texto {span} foi lido.": [span] for spans in there.values() for span in spans}
    back = {text: spans for text, spans in back.items() if protect(text).spans == tuple(spans)}
    for source, target, examples in (("en", "pt", there), ("pt", "en", back)):
        body = real_server.translated([*examples], source=source, target=target)
        for text, translated in zip(examples, body["translatedText"], strict=True):
            lost = [each for each in examples[text] if translated.count(each) != text.count(each)]
            assert not lost, translated


TRANSLATED = {
    "If a <b and c> d, then stop.": ("<b e c>", "pare"),
    "She said: <<stop right there>> and left.": ("Ela disse: <<", ">> e"),
    "The set {red, green and blue} is finite.": ("{vermelho, verde e azul}",),
    "Take {the old house} and go.": ("{a antiga casa}",),
    "The [red house] and the [green house] are old.": ("casa vermelha", "casa verde"),
    "See <the red house> now.": ("<a casa vermelha>",),
    "The rule {the cat is black} is old.": ("gato", "preto"),
    "The “quick” ‘brown’ fox—jumps… over": ("“", "”", "‘marrom’", "raposa —"),
    "She said “hello” — and left.": ("“olá”", " — ", "saiu"),
    "She read «the book» in 1914–1918.": ("«o livro»", "1914–1918"),
    "The cat sat… then it slept.": ("…", "gato"),
    "3. **Belt School**": ("3. **Escola", "**"),
    "Read **this important note** today.": ("**esta nota importante**",),
    "Open the ~~old~~ door and *leave*.": ("~~", "porta", "*"),
    "\\NGo away, said the man.": ("\\N", "disse o homem"),
    "Name\tAge\tThe old house": ("Nome\tIdade\t", "casa"),
    "From $10–$20, or 5%–10% of it.": ("$10–$20", "5%–10%"),
    "The 1st, the 2nd and the 5th floor.": ("1º", "2º", "5º"),
    "He lives in apartment 2a.": ("apartamento 2a",),
    "It is 10\u00a0km from Mr.\u00a0Smith.": ("10\u00a0km", "Sr.\u00a0Smith"),
}


@pytest.mark.parametrize("text", TRANSLATED)
def test_words_beside_signs_are_translated(real_server: AnyServer, text: str) -> None:
    translated = real_server.translate(text).json()["translatedText"]
    assert [part for part in TRANSLATED[text] if part not in translated] == [], translated


CAPITALS = {
    "Às vezes chove.": "Sometimes it rains.",
    "NÃO SEI": "I DO NOT KNOW",
    "ATENÇÃO: NÃO ABRA": "ATTENTION: DO NOT OPEN",
    "Um Ótimo Filme": "A Great Movie",
    "Ângela saiu.": "Ângela left.",
}


def test_words_whose_capital_letter_is_unknown_are_translated(real_server: AnyServer) -> None:
    """The vocabulary has no `Ó`. Names such as `Ângela` are not lowered, but kept."""
    response = real_server.translate([*CAPITALS], source="pt", target="en")
    assert response.json() == {"translatedText": [*CAPITALS.values()]}


@pytest.mark.parametrize("text", ["“123”", "−5 km²", "— 5 —", "“{name}”", "10–12"])
def test_text_without_words_keeps_its_signs(real_server: AnyServer, text: str) -> None:
    assert real_server.translate(text).json()["translatedText"] == text


HTML = [
    "<p>The cat sat on the <b>mat</b>.</p>\n<ul><li>One dog</li><li>Two dogs</li></ul>",
    'Read <a href="https://example.com/?a=1&amp;b=2">the page</a> <br> now',
    "It is <i>very</i> <b>cold <u>today</u></b>!",
    'Run <code>make test</code>, then <span translate="no">Regard</span> starts.',
    "<script>var a = 1 < 2;</script><p>Hello {name}</p><!-- end -->",
]


@pytest.mark.parametrize("text", HTML)
def test_html_keeps_its_tags(real_server: AnyServer, text: str) -> None:
    body = real_server.translated([text, "Good morning."], format="html", source="auto")
    translated, other = body["translatedText"]
    assert other == "Bom dia."
    assert sorted(tags(translated)) == sorted(tags(text))
    assert translated != text
    for kept in ("make test", ">Regard<", "var a = 1 < 2;", "{name}", "<!-- end -->"):
        assert (kept in translated) == (kept in text)


MOVED = {
    "<b>The cat</b> is in the <i>red car</i>.": "<b>O gato</b> está no <i>carro vermelho</i>.",
    "John was born in <b>1994</b>.": "John nasceu em <b>1994</b>.",
}


@pytest.mark.parametrize("text", MOVED)
@pytest.mark.parametrize("options", [{}, {"beam_size": 2}, {"alternatives": 1}])
def test_tags_surround_the_translations_of_their_words(
    real_server: AnyServer, text: str, options: dict[str, int]
) -> None:
    response = real_server.translate(text, format="html", **options)
    assert response.json()["translatedText"] == MOVED[text]


def tags(text: str) -> list[str]:
    return re.findall(r"</?[a-z]+[^>]*>", text)


@pytest.mark.parametrize("number", ["12.", "531.", "831.", "1031."])
def test_number_before_a_sentence_is_not_translated(real_server: AnyServer, number: str) -> None:
    text = f"{number} The cat sat on the mat."
    translated = real_server.translate([text, number, "3.5 - 4"]).json()["translatedText"]
    assert translated[0].startswith(f"{number} O gato"), translated
    assert translated[1:] == [number, "3.5 - 4"]
