"""Languages that a server does not offer are recognised by their frequent words."""

import pytest

from service.text.detection import FUNCTION_WORDS, LanguageDetector, unserved_language

OFFERED = {"en", "pt"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Die Kinder hatten Angst vor den Löwen, deshalb gingen sie sofort.", "de"),
        ("Le chat est assis sur le tapis.", "fr"),
        ("El gato se sentó en la alfombra.", "es"),
        ("Hola, ¿cómo estás?", "es"),
        ("Het is mooi weer vandaag.", "nl"),
        ("The kids were scared of the lions, so they left right away.", None),
        ("O gato sentou no tapete e dormiu.", None),
        ("Nadal's head to head record is 7-2.", None),
        ("I expect to return to the U.S. soon.", None),
        ("El Niño is in the news.", None),
        ("pool beats badminton", None),
        ("Regard", None),
        ("12345", None),
        ("", None),
    ],
)
def test_language_is_recognised_by_its_words(text: str, expected: str | None) -> None:
    assert unserved_language(text, OFFERED) == expected


def test_offered_language_is_never_unserved() -> None:
    for code, words in FUNCTION_WORDS.items():
        assert unserved_language(words, {code}) is None
        assert unserved_language(words, {"ru"}) == code


def test_offered_language_without_words_leaves_it_open() -> None:
    """Afrikaans has words of Dutch, and the table has none of Afrikaans."""
    assert unserved_language("Het is mooi weer vandaag.", {"en", "af"}) is None
    assert unserved_language("Het is mooi weer vandaag.", {"en", "zh"}) == "nl"


def test_best_detection_has_the_unserved_language() -> None:
    detector = LanguageDetector(["en", "pt-BR"])
    best, *others = detector.detect("Die Kinder hatten Angst vor den Löwen.")
    assert best.unserved == "de"
    assert {each.unserved for each in others} <= {None}
    assert detector.detect("O gato sentou no tapete.")[0].unserved is None
