"""Detects the language of a text among the languages that the server offers.

The detector is `lingua` in high accuracy mode, with the data of the offered languages only.
The table compares its accuracy with that of `py3langid` on 1,000 sentences of FLORES in English or
Portuguese. The texts were the whole sentences, and then only their first words:

=========  =====  =======  =======  ======
detector   full   5 words  2 words  1 word
=========  =====  =======  =======  ======
lingua     99.9%  98.0%    94.4%    93.0%
py3langid  100%   99.1%    94.6%    70.3%
=========  =====  =======  =======  ======

We chose `lingua` for its accuracy on single words, such as search words and labels, where the
detectors differ most. `lingua` took 11 to 112 µs for each text. With all of its 75 languages it
would need 957 MB. A language that is left out can never be detected by mistake. To find texts in
such languages, `service.text.languages.function_words` counts frequent words.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import lingua

from service.text.language_codes import OTHER_NAMES, normalize_code
from service.text.languages.function_words import unserved_language

MAX_TEXT_CHARS = 2_000
MAX_DETECTIONS = 3


@dataclass(frozen=True, slots=True)
class Detection:
    """A candidate for the language of a text.

    Attributes:
        language: Language code in the server's spelling.
        confidence: Percentage with one decimal. The confidences of all candidates add up to 100,
            and the detector returns no candidate with 0.
        unserved: ISO 639-1 code of a language that is not a candidate, if the text has many
            frequent words of this language. Only the best detection has this code.
    """

    language: str
    confidence: float
    unserved: str | None = None


class LanguageDetector:
    """Detects the language of texts. Several threads may use one instance at the same time.

    `lingua` has data for each language. `preload` loads the data of all candidates. Without
    `preload`, `lingua` loads data when a text first needs them. Loading takes about 0.4 s
    and 28 MB for each language.
    """

    def __init__(self, languages: Collection[str]) -> None:
        """Sets the candidates.

        Args:
            languages: Codes of the offered languages. `lingua` knows a language by its primary
                subtag (ISO 639-1). A language unknown to `lingua` is never detected. If several
                codes name one language ("pt", "pt-BR"), the shortest is returned.
        """
        self.choose(languages)

    def choose(self, languages: Collection[str]) -> None:
        """Replaces the candidates.

        A detection in progress uses the old candidates.
        """
        codes = _codes_by_iso(tuple(languages))
        self._candidates = codes, _builder(codes).build() if codes else None

    def preload(self) -> None:
        """Loads the data of all candidates, so that the first request does not wait for them."""
        codes, _ = self._candidates
        if codes:
            # All detectors of a process share the data, so any detector can load them.
            _builder(codes).with_preloaded_language_models().build()

    def detect(self, text: str, among: Collection[str] | None = None) -> list[Detection]:
        """Ranks the languages that a text may be written in. The method never raises.

        Args:
            text: Any text. The detector reads the first 2,000 characters, without lone surrogates.
            among: Codes that may be returned. The result uses the spelling of these codes. Codes of
                languages outside the detector's candidates are ignored. None stands for all
                candidates.

        Returns:
            At most three detections, best first. The list is empty if the text has no letters or
            matches no candidate, such as Greek text with candidates English and Portuguese. If
            there is only one candidate, it is returned for every text in its script.
        """
        sample = text[:MAX_TEXT_CHARS].encode("utf-8", "ignore").decode("utf-8")
        candidates, detector = self._candidates
        if detector is None or not any(map(str.isalpha, sample)):
            return []
        codes = candidates if among is None else _codes_by_iso(tuple(among))
        values = detector.compute_language_confidence_values(sample)
        shares = ((_iso_code(value.language), value.value) for value in values)
        both = codes.keys() & candidates.keys()
        found = _rank([(codes[iso], share) for iso, share in shares if iso in both])
        if found and (unserved := unserved_language(sample, candidates)):
            found[0] = replace(found[0], unserved=unserved)
        return found


def _builder(codes: Collection[str]) -> lingua.LanguageDetectorBuilder:
    """Returns a builder of detectors for ISO 639-1 codes."""
    names = [*codes]
    if len(names) == 1:
        # With one candidate, `lingua` accepts neither "hello" nor "hello world" as English. With a
        # second candidate of another script, it accepts every text in the script of the first
        # candidate.
        names.append("en" if names == ["el"] else "el")
    iso_codes = map(lingua.IsoCode639_1.from_str, names)
    return lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*iso_codes)


def _rank(shares: list[tuple[str, float]]) -> list[Detection]:
    """Scales shares to a sum of 100 and keeps the best ones above zero.

    Args:
        shares: Language codes with their shares, best first.
    """
    total = sum(share for _, share in shares)
    if total <= 0:
        return []
    best = [
        Detection(code, round(100 * share / total, 1)) for code, share in shares[:MAX_DETECTIONS]
    ]
    return [detection for detection in best if detection.confidence > 0]


@lru_cache(maxsize=512)  # the sources of each target, as the served models have them
def _codes_by_iso(codes: tuple[str, ...]) -> Mapping[str, str]:
    """Maps the ISO 639-1 code of each language to the shortest of the given codes that name it.

    Languages that `lingua` does not know are left out.
    """
    by_iso: dict[str, str] = {}
    for code in sorted(codes, key=lambda code: (len(code), code)):
        primary = normalize_code(code).partition("-")[0]
        for name in (primary, OTHER_NAMES.get(primary, "").partition("-")[0]):
            if _is_known(name):
                by_iso.setdefault(name, code)
                break
    return by_iso


def _is_known(code: str) -> bool:
    """Returns whether `lingua` knows an ISO 639-1 code."""
    try:
        lingua.IsoCode639_1.from_str(code)
    except ValueError:
        return False
    return True


def _iso_code(language: lingua.Language) -> str:
    return language.iso_code_639_1.name.lower()
