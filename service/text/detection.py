"""Tells the language of a text among the languages the server offers.

The detector is `lingua` in high accuracy mode, with the models of the offered languages only.
Right answers on 1,000 sentences of FLORES, English or Portuguese, by the number of words shown:

=========  =====  =======  =======  ======
detector   full   5 words  2 words  1 word
=========  =====  =======  =======  ======
lingua     99.9%  98.0%    94.4%    93.0%
py3langid  100%   99.1%    94.6%    70.3%
=========  =====  =======  =======  ======

The short texts decide: a search word or a label is where detectors fail. `lingua` took 11 to 112 µs
a text. All 75 languages that it knows would need 957 MB; one that is left out also cannot be
mistaken for another.
"""

from collections.abc import Collection
from dataclasses import dataclass

import lingua

from service.text.language_codes import normalize_code

MAX_TEXT_CHARS = 2_000
MAX_DETECTIONS = 3


@dataclass(frozen=True, slots=True)
class Detection:
    """One language a text may be in.

    Attributes:
        language: The code, as the server spells it.
        confidence: Above 0, at most 100, one decimal; shared out over the candidates.
    """

    language: str
    confidence: float


class LanguageDetector:
    """Detects the language of texts. One instance may be used from many threads at once.

    Models load when a text first needs them, or by `preload()`: about 0.4 s and 28 MB a language.
    """

    def __init__(self, languages: Collection[str]) -> None:
        """Take the candidates.

        Args:
            languages: Codes the server offers. `lingua` knows them by their primary subtag (ISO
                639-1); those it does not know are never detected. Of several codes of one language
                ("pt", "pt-BR") the shortest is answered.
        """
        self.choose(languages)

    def choose(self, languages: Collection[str]) -> None:
        """Takes other candidates; who detects just now goes by the old or the new ones."""
        self._codes = _codes_by_iso(languages)
        self._detector = self._builder().build() if self._codes else None

    def preload(self) -> None:
        """Load the models of all candidates, so that the first request does not wait for them."""
        if self._codes:
            # All detectors of a process share their models, so this one serves to load them.
            self._builder().with_preloaded_language_models().build()

    def detect(self, text: str, among: Collection[str] | None = None) -> list[Detection]:
        """Rank the languages that a text may be in.

        Args:
            text: Any text. Only its first 2,000 characters are looked at, without lone surrogates.
            among: Codes that may be answered, in the spelling to answer with; languages that are
                no candidates of the detector are passed over. None means all candidates.

        Returns:
            At most three, best first. Empty if the text has no letters, or fits no candidate (Greek
            text, where English and Portuguese are the candidates). A single candidate is answered
            for all text in its script. Never raises.
        """
        sample = text[:MAX_TEXT_CHARS].encode("utf-8", "ignore").decode("utf-8")
        if self._detector is None or not any(map(str.isalpha, sample)):
            return []
        codes = self._codes if among is None else _codes_by_iso(among)
        candidates = codes.keys() & self._codes.keys()
        values = self._detector.compute_language_confidence_values(sample)
        shares = ((_iso_code(value.language), value.value) for value in values)
        return _rank([(codes[iso], share) for iso, share in shares if iso in candidates])

    def _builder(self) -> lingua.LanguageDetectorBuilder:
        names = [*self._codes]
        if len(names) == 1:
            # Alone, `lingua` takes neither "hello" nor "hello world" for English. Beside a language
            # of another script, it takes all text in the script of the candidate for it.
            names.append("en" if names == ["el"] else "el")
        iso_codes = map(lingua.IsoCode639_1.from_str, names)
        return lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*iso_codes)


def _rank(shares: list[tuple[str, float]]) -> list[Detection]:
    """Scale shares, which come best first, to a sum of 100 and keep the best that are not zero."""
    total = sum(share for _, share in shares)
    if total <= 0:
        return []
    best = [
        Detection(code, round(100 * share / total, 1)) for code, share in shares[:MAX_DETECTIONS]
    ]
    return [detection for detection in best if detection.confidence > 0]


def _codes_by_iso(codes: Collection[str]) -> dict[str, str]:
    """Map the ISO 639-1 code of each language that `lingua` knows to its shortest given code."""
    by_iso: dict[str, str] = {}
    for code in sorted(codes, key=lambda code: (len(code), code)):
        primary = normalize_code(code).partition("-")[0]
        try:
            lingua.IsoCode639_1.from_str(primary)
        except ValueError:
            continue
        by_iso.setdefault(primary, code)
    return by_iso


def _iso_code(language: lingua.Language) -> str:
    return language.iso_code_639_1.name.lower()
