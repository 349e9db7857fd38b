"""Detects the language of a text among the languages that the server offers.

The detector is `lingua` in high accuracy mode, with the data of the offered languages only. It
mistakes German for English on a server for English and Portuguese. Function words, the frequent
words of a language, such as "und" and "nicht", show a language that is not offered.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import lingua

from service.text.characters import cleaned
from service.text.language_codes import OTHER_NAMES, base_language

MAX_TEXT_CHARS = 2_000
MAX_DETECTIONS = 3

# A language that is not offered is recognised by at least MIN_WORDS function words. They must be at
# least MIN_SHARE of the text's words, and LEAD times as many as those of each offered language.
MIN_WORDS = 2
MIN_SHARE = 0.2
LEAD = 2

# Smallest length of a word that counts for a language that is not offered. Shorter words, such as
# "s" and "I" in English texts, count only for the offered languages.
MIN_LETTERS = 2

# Frequent words of languages in the Latin script, by ISO 639-1 code; Norwegian is Bokmål.
FUNCTION_WORDS = {
    "ca": "el la els les de del dels que en un una és amb per no es al són més com però ha aquest",
    "cs": "se na je že do to jsem jako ale pro by si tak jsou byl není které jeho podle",
    "da": "og at det er en til af den på for med der de som ikke har han var et jeg fra hun men",
    "de": "der die das und ist nicht ein eine zu den mit sich auf für von dem des im wir sie "
    "ich es wie",
    "en": "the of and to in a is that it for was on with as are be this by you not have from "
    "they at i he his she her we their had has will would but or an which who when been "
    "its more out up all about into than other can one said me my do if so no what there "
    "how your our just like",
    "es": "el la los las de que en un una es se no por con su para al del lo como más pero está "
    "cómo hola",
    "et": "ja on ei et see ta oli mis kui ka ning aga oma olid selle nii välja üks või kes siis",
    "fi": "ja on ei että oli se hän mutta ovat kun niin myös joka sen mukaan olla kuin tai jos "
    "mitä",
    "fr": "le la les de des et est un une du en que qui dans pour pas sur au il elle ce avec ne "
    "sont",
    "hr": "je na se da su za od ne što kao koji koja koje bi je su to ali iz sam ili",
    "hu": "az és hogy nem egy is van volt meg ez de csak már mint ha el még fel vagy ki azt kell",
    "id": "yang dan di untuk dengan dari ini itu pada tidak adalah akan dalam ke juga oleh mereka",
    "it": "il la le di che un una per non in con del della gli sono si da lo al dei nel più",
    "lt": "ir yra kad iš su buvo ne tai bet kaip jo už apie ar dėl nuo jau taip pat po",
    "lv": "un ir ka no uz ar par kas tas bija ne viņš pie vai bet kā tika lai arī līdz",
    "nb": "og det er på en til som av for at med de ikke den har om et var men jeg fra han",
    "nl": "de het een en van is in dat niet op te zijn met voor er aan die ik was ook maar naar "
    "wij",
    "pl": "na się nie do że jest to jak za po od ale przez jego był są dla już tylko który",
    "pt": "o a os as de que e em um uma é não para com do da no na se por mais dos das como mas "
    "foi está são ser ele ela eu você seu sua este esta isso esse essa pelo pela até "
    "também sem já muito quando ou mesmo entre sobre nos nas ao aos à às tem ter era nem "
    "me minha meu bem aqui",
    "ro": "și în de la cu este nu pe că un din pentru mai care sunt fost să au ce dar lui prin",
    "sk": "sa na je že do to som ako ale pre by si tak sú bol nie ktoré jeho podľa",
    "sl": "je in na se da so za ki pa bi ne kot tudi po od bil ni to ali iz ko lahko",
    "sv": "och att det är en på som för av med den till inte har de om ett men jag var från han",
    "tl": "ang ng sa na mga ay at si ko hindi niya ito para kay may nang mo ako siya sila kung",
    "tr": "ve bir bu da de için ile çok ne ama daha gibi var olarak olan sonra kadar en değil",
    "vi": "và là của có không được trong cho một người với các những này đã khi để cũng như tôi",
}

# Languages in other scripts, whose words are never words of the table.
OTHER_SCRIPTS = frozenset(
    "am ar be bg bn el fa gu he hi hy ja ka kk ko mk mn mr pa ru sr ta te th uk ur zh".split()
)
WORDS = {code: frozenset(words.split()) for code, words in FUNCTION_WORDS.items()}


@dataclass(frozen=True, slots=True)
class Detection:
    """A candidate for the language of a text."""

    language: str  # in the server's spelling

    confidence: float  # percentage with one decimal; those of all candidates add up to 100

    # ISO 639-1 code of a language that is not a candidate, if the text has many frequent words of
    # this language. Only the best detection has this code.
    unserved: str | None = None


class LanguageDetector:
    """Detects the language of texts. Several threads may use one instance at the same time.

    Without `preload`, `lingua` loads the data of a language when a text first needs them: 0.4 s
    and 28 MB for each language. A language unknown to `lingua` is never detected. If several of the
    offered codes name one language ("pt", "pt-BR"), the shortest is returned.
    """

    def __init__(self, languages: Collection[str]) -> None:
        self.choose(languages)

    def choose(self, languages: Collection[str]) -> None:
        """Replaces the candidates. A detection in progress uses the old ones."""
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
            among: Codes that may be returned, in this spelling; others than the detector's
                candidates are ignored. None stands for all candidates.

        Returns at most three detections, best first. The list is empty if the text has no letters
        or matches no candidate. A single candidate is returned for every text in its script.
        """
        sample = cleaned(text[:MAX_TEXT_CHARS]).encode("utf-8", "ignore").decode("utf-8")
        candidates, detector = self._candidates
        if detector is None or not any(map(str.isalpha, sample)):
            return []
        codes = candidates if among is None else _codes_by_iso(tuple(among))
        values = detector.compute_language_confidence_values(sample)
        shares = ((value.language.iso_code_639_1.name.lower(), value.value) for value in values)
        both = codes.keys() & candidates.keys()
        found = _rank([(codes[iso], share) for iso, share in shares if iso in both])
        if found and (unserved := unserved_language(sample, candidates)):
            found[0] = replace(found[0], unserved=unserved)
        return found


def _builder(codes: Collection[str]) -> lingua.LanguageDetectorBuilder:
    names = [*codes]
    if len(names) == 1:
        # With one candidate, `lingua` does not accept "hello" as English. With a second candidate
        # of another script, it accepts every text in the script of the first one.
        names.append("en" if names == ["el"] else "el")
    iso_codes = map(lingua.IsoCode639_1.from_str, names)
    return lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*iso_codes)


def _rank(shares: list[tuple[str, float]]) -> list[Detection]:
    """Scales shares to a sum of 100 and keeps the first ones above zero."""
    total = sum(share for _, share in shares) or 1.0
    best = [(code, round(100 * share / total, 1)) for code, share in shares[:MAX_DETECTIONS]]
    return [Detection(code, percentage) for code, percentage in best if percentage > 0]


@lru_cache(maxsize=512)  # the sources of each target, as the served models have them
def _codes_by_iso(codes: tuple[str, ...]) -> Mapping[str, str]:
    """Maps the ISO 639-1 code of each language to the shortest of the given codes that name it.

    Languages that `lingua` does not know are left out.
    """
    by_iso: dict[str, str] = {}
    for code in sorted(codes, key=lambda code: (len(code), code)):
        primary = base_language(code)
        for name in (primary, base_language(OTHER_NAMES.get(primary, ""))):
            if _is_known(name):
                by_iso.setdefault(name, code)
                break
    return by_iso


def _is_known(code: str) -> bool:
    try:
        lingua.IsoCode639_1.from_str(code)
    except ValueError:
        return False
    return True


def unserved_language(text: str, offered: Collection[str]) -> str | None:
    """Returns the ISO 639-1 code of a text's language if function words show one not offered.

    The result is None if an offered language is in neither FUNCTION_WORDS nor OTHER_SCRIPTS.
    """
    if not WORDS.keys() | OTHER_SCRIPTS >= {*offered}:
        return None
    words = re.findall(r"[^\W\d_]+", text[:MAX_TEXT_CHARS].lower())
    long = [word for word in words if len(word) >= MIN_LETTERS]
    counts = {code: sum(map(each.__contains__, long)) for code, each in WORDS.items()}
    best = max(counts, key=lambda code: counts[code])
    known = [WORDS[code] for code in offered if code in WORDS]
    own = max((sum(map(each.__contains__, words)) for each in known), default=0)
    is_clear = counts[best] >= max(MIN_WORDS, LEAD * own, MIN_SHARE * len(words))
    return best if is_clear and best not in offered else None
