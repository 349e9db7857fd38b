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
    OTHERS,
    Detection,
    LanguageDetector,
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


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("an umbrella", "en"),
        ("it is", "en"),
        ("dos Estados Unidos", "pt"),
        ("isso aqui", "pt"),
        ("me gusta mi trabajo", "es"),
        ("hat er an mich gedacht", "de"),
        ("kasut dan baju", "ms"),  # Malay; the function words of Indonesian are Malay too
    ],
)
def test_function_words_decide_short_texts(text: str, language: str) -> None:
    detector = LanguageDetector(("de", "en", "es", "fr", "id", "ms", "pt"))
    assert detector.detect(text)[0].language == language


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
    assert sum(found.confidence for found in restricted) > sum(whole[code] for code in ("en", "pt"))
    assert restricted[0].confidence / restricted[1].confidence == pytest.approx(
        whole["en"] / whole["pt"], rel=0.05
    )


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
    (found,) = LanguageDetector(["en"]).detect(text)
    assert found == Detection("en", found.confidence)
    assert found.confidence > 50
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
    monkeypatch.setattr(detection, "_iso", looked_up.append)
    among = [f"x{number}" for number in range(200)]
    for _ in range(3):
        detector.detect(SENTENCES["en"], among)
    assert len(looked_up) == len(among)


EN_PT = ("en", "pt")


@pytest.mark.parametrize(
    ("languages", "text", "unserved"),
    [
        (EN_PT, "Die Kinder hatten Angst vor den Löwen, deshalb gingen sie sofort.", "de"),
        (EN_PT, "Le chat est assis sur le tapis.", "fr"),
        (EN_PT, "El gato se sentó en la alfombra.", "es"),
        (EN_PT, "Hola, ¿cómo estás?", "es"),
        (EN_PT, "Los niños volvieron a casa porque había empezado a llover mucho.", "es"),
        (EN_PT, "Els nens van tenir por dels lleons i van marxar.", "ca"),
        (EN_PT, "I bambini ebbero paura dei leoni e scapparono subito.", "it"),
        (EN_PT, "Copiii s-au speriat de lei și au plecat imediat.", "ro"),
        (EN_PT, "Het is mooi weer vandaag.", "nl"),
        (EN_PT, "Dzieci przestraszyły się lwów i natychmiast wyszły.", "pl"),
        (
            ("en", "nb"),
            "De var bange for de store løver og skyndte sig hjem fra arbejde uden at sige et ord.",
            "da",
        ),
        (("en", "cs"), "Deti sa báli levov, a preto ihneď odišli domov so svojimi rodičmi.", "sk"),
        (("en", "ru"), "Діти злякалися левів, тому вони одразу пішли.", "uk"),
        (("en", "zh"), "Het is mooi weer vandaag.", "nl"),
        (EN_PT, "The kids were scared of the lions, so they left right away.", None),
        (EN_PT, "O gato sentou no tapete e dormiu.", None),
        (EN_PT, "Na época, perto de 100 moradores foram evacuados da área.", None),
        (EN_PT, "Extensões para PostgreSQL", None),
        (EN_PT, "Nadal's head to head record is 7-2.", None),
        (EN_PT, "I expect to return to the U.S. soon.", None),
        (EN_PT, "El Niño is in the news.", None),
        (EN_PT, "Generate Random Password", None),
        (EN_PT, "pool beats badminton", None),
        (EN_PT, "Regard", None),
        (("en", "nb"), "Barna ble redde for løvene, så de gikk med en gang.", None),
        (("en", "da"), "Børnene blev bange for løverne, så de gik med det samme.", None),
        (("en", "id"), "Anak-anak takut pada singa, jadi mereka segera pergi.", None),
        (("en", "ms"), "Kanak-kanak itu takut akan singa, jadi mereka segera pergi.", None),
        (("en", "hr"), "Djeca su se uplašila lavova, pa su odmah otišla.", None),
        (("en", "bs"), "Djeca su se uplašila lavova, pa su odmah otišla.", None),
        (("en", "uk"), "Введіть той же пароль, що і раніше, для підтвердження.", None),
        (("en", "gl"), "El gato se sentó en la alfombra.", None),  # like Galician, not in `lingua`
    ],
)
def test_language_that_is_not_offered_is_named_if_clear(
    languages: tuple[str, ...], text: str, unserved: str | None
) -> None:
    best, *others = LanguageDetector(languages).detect(text)
    assert best.unserved == unserved
    assert {each.unserved for each in others} <= {None}
    assert unserved is None or best.confidence < 50


def test_nothing_is_unserved_if_all_languages_are_offered() -> None:
    detector = LanguageDetector([*FUNCTION_WORDS, *OTHERS])
    assert detector.detect(SENTENCES["el"]) == [Detection("el", 100.0)]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("hello", 40, 80),
        ("hola amigo", 40, 80),
        ("Save", 20, 80),
        ("Guten Tag", 0, 10),
        ("buenos días", 0, 20),
        ("The weather is lovely today, so we will walk.", 95, 100),
    ],
)
def test_confidence_counts_languages_that_are_not_offered(
    text: str, low: float, high: float
) -> None:
    assert low < LanguageDetector(EN_PT).detect(text)[0].confidence <= high
