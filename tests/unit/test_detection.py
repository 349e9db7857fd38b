"""Languages are detected among the offered ones; others are recognised by their frequent words."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.text import detection
from service.text.detection import (
    FUNCTION_WORDS,
    MAX_TEXT_CHARS,
    Detection,
    LanguageDetector,
    unserved_language,
)

SENTENCES = {
    "en": "The weather is lovely today, so we will walk to the market.",
    "pt": "O tempo está bom hoje, por isso vamos a pé ao mercado.",
    "de": "Das Wetter ist heute schön, deshalb gehen wir zu Fuß zum Markt.",
    "el": "Ο καιρός είναι ωραίος σήμερα.",
}
NO_LETTERS = ["", "   \n", "123 456", "🎉🎉", "...!?", "\0", "\ud800"]


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector(tuple(SENTENCES))


@pytest.mark.parametrize(("language", "text"), SENTENCES.items())
def test_detects_the_language_of_a_sentence(
    detector: LanguageDetector, language: str, text: str
) -> None:
    best, *others = detector.detect(text)
    assert best.language == language
    assert best.confidence > 60
    assert len(others) <= 2


@given(
    text=st.text(st.characters()) | st.text("aãßω 1"), among=st.sampled_from([None, ["en", "de"]])
)
@example(text="a\ud800b", among=None)
@example(text="ª", among=None)
def test_ranking_is_well_formed(
    detector: LanguageDetector, text: str, among: list[str] | None
) -> None:
    detections = detector.detect(text, among)
    confidences = [detection.confidence for detection in detections]
    assert len(detections) <= 3
    assert confidences == sorted(confidences, reverse=True)
    assert all(0 < confidence == round(confidence, 1) for confidence in confidences)
    assert sum(confidences) <= 100.2
    assert {detection.language for detection in detections} <= set(among or SENTENCES)


@pytest.mark.parametrize("text", NO_LETTERS)
def test_text_without_letters_has_no_language(detector: LanguageDetector, text: str) -> None:
    assert detector.detect(text) == []
    assert LanguageDetector(["en"]).detect(text) == []


def test_digits_of_a_script_are_no_letters() -> None:
    """`lingua` is certain that Devanagari digits are Hindi."""
    assert LanguageDetector(["hi", "en"]).detect("१२३") == []


def test_among_restricts_the_candidates_and_shares_out_their_confidence(
    detector: LanguageDetector,
) -> None:
    text = "real animal"
    whole = {found.language: found.confidence for found in detector.detect(text)}
    restricted = detector.detect(text, among=["en", "pt"])
    assert {found.language for found in restricted} == {"en", "pt"}
    assert sum(found.confidence for found in restricted) == pytest.approx(100, abs=0.15)
    scale = 100 / (whole["en"] + whole["pt"])
    for found in restricted:
        assert found.confidence == pytest.approx(whole[found.language] * scale, abs=0.3)


def test_among_one_candidate_answers_it_unless_the_text_rules_it_out(
    detector: LanguageDetector,
) -> None:
    assert detector.detect(SENTENCES["de"], among=["de"]) == [Detection("de", 100.0)]
    assert detector.detect(SENTENCES["el"], among=["en", "pt"]) == []


@pytest.mark.parametrize("among", [[], ["xx"], ["fr"]])
def test_among_no_candidate_finds_nothing(detector: LanguageDetector, among: list[str]) -> None:
    assert detector.detect(SENTENCES["en"], among) == []


def test_among_answers_in_its_own_spelling(detector: LanguageDetector) -> None:
    assert detector.detect(SENTENCES["pt"], among=["pt_br", "xx"]) == [Detection("pt_br", 100.0)]


def test_regional_codes_are_candidates_by_their_language() -> None:
    detector = LanguageDetector(["zh-Hans", "EN", "pt-BR"])
    assert detector.detect("你好，世界") == [Detection("zh-Hans", 100.0)]
    assert detector.detect(SENTENCES["pt"])[0].language == "pt-BR"
    assert detector.detect(SENTENCES["en"])[0].language == "EN"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("no", "Været er fint i dag, så vi skal gå til markedet."),
        ("fil", "Maganda ang panahon ngayon, kaya maglalakad kami papunta sa palengke."),
        ("iw", "מזג האוויר יפה היום ולכן נלך ברגל לשוק."),
    ],
)
def test_other_code_of_a_language_is_found(code: str, text: str) -> None:
    assert LanguageDetector(["en", code]).detect(text)[0].language == code


def test_shortest_code_stands_for_several_of_one_language() -> None:
    detector = LanguageDetector(["PT-PT", "pt", "pt-BR"])
    assert detector.detect(SENTENCES["pt"]) == [Detection("pt", 100.0)]


@pytest.mark.parametrize("unknown", ["xx", "tlh", "", "é", "\ud800", "english"])
def test_unknown_codes_are_left_out(unknown: str) -> None:
    detector = LanguageDetector([unknown, "en", "de"])
    assert [found.language for found in detector.detect("hello")] == ["en", "de"]
    assert detector.detect("hello", among=[unknown]) == []


@pytest.mark.parametrize("text", ["hello", "hello world", SENTENCES["en"]])
def test_single_candidate_is_found_in_text_of_its_script(text: str) -> None:
    """`lingua` with one language gives "hello" no confidence at all."""
    assert LanguageDetector(["en"]).detect(text) == [Detection("en", 100.0)]
    assert LanguageDetector(["en", "xx"]).detect(text) == [Detection("en", 100.0)]


def test_single_candidate_is_not_found_in_text_of_another_script() -> None:
    assert LanguageDetector(["en"]).detect(SENTENCES["el"]) == []
    assert LanguageDetector(["en"]).detect(SENTENCES["el"], among=["el"]) == []
    assert LanguageDetector(["el"]).detect(SENTENCES["en"]) == []
    assert LanguageDetector(["el"]).detect(SENTENCES["el"]) == [Detection("el", 100.0)]


@pytest.mark.parametrize("languages", [[], ["xx"]])
def test_no_known_language_detects_nothing(languages: list[str]) -> None:
    detector = LanguageDetector(languages)
    detector.preload()
    assert detector.detect(SENTENCES["en"]) == []


def test_only_the_start_of_a_long_text_is_looked_at(detector: LanguageDetector) -> None:
    start = (SENTENCES["en"] + " ") * 100
    assert len(start) > MAX_TEXT_CHARS
    assert detector.detect(start + SENTENCES["el"] * 1_000) == detector.detect(
        start[:MAX_TEXT_CHARS]
    )
    assert detector.detect(" " * MAX_TEXT_CHARS + SENTENCES["en"]) == []


def test_threads_get_the_same_answers_as_one_thread(detector: LanguageDetector) -> None:
    texts = [f"{text} {i}" for i in range(50) for text in SENTENCES.values()]
    expected = [detector.detect(text) for text in texts]
    with ThreadPoolExecutor(max_workers=8) as pool:
        assert list(pool.map(detector.detect, texts)) == expected


MEMORY_SCRIPT = """
import pathlib
from service.text.detection import LanguageDetector

def resident_pages():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1])

detector = LanguageDetector(["en", "de"])
before = resident_pages()
detector.preload()
loaded = resident_pages()
detector.detect("hello Welt")
print(loaded - before, resident_pages() - loaded)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_preload_leaves_no_model_for_the_first_request() -> None:
    """In its own process, as detectors of one process share their models."""
    child = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT], capture_output=True, text=True, check=True
    )
    by_preload, by_request = map(int, child.stdout.split())
    assert by_preload > 20 * max(by_request, 1)


def test_languages_are_looked_up_once(
    detector: LanguageDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 200 languages, each request with `auto` once took 0.3 ms to look up the candidates."""
    looked_up: list[str] = []
    monkeypatch.setattr(detection, "_is_known", looked_up.append)
    among = [f"x{number}" for number in range(200)]
    for _ in range(3):
        detector.detect(SENTENCES["en"], among)
    assert len(looked_up) == 2 * len(among)  # each code, and its other name


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
