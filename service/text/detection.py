"""Detects the language of a text among the languages that the server offers.

The detector is `lingua` in high accuracy mode, with the data of the offered languages only. The
function words of a text count too. These are the frequent words of a language, such as "und" and
"nicht". `lingua` mistakes Spanish for Portuguese on a server for English and Portuguese. Therefore
`lingua` in low accuracy mode also compares the offered languages with others.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import lingua

from service.text.characters import cleaned
from service.text.language_codes import OTHER_CODES, base_language

MAX_TEXT_CHARS = 2_000
MAX_DETECTIONS = 3
MIN_CONFIDENCE = 0.1

# Number of characters that are compared with languages that are not offered.
MAX_COMPARED_CHARS = 300

# Odds that a text is in an offered language, before it is read.
PRIOR_ODDS = 100

# Factor of a language's odds for each of its function words in the text.
WORD_ODDS = 10

# The offered languages are not compared with others if one of them has MORE_WORDS more function
# words than every other language.
MORE_WORDS = 2

# A language that is not offered is named if the offered ones together have at most MAX_PROBABILITY,
# in a text of MIN_LETTERS letters.
MAX_PROBABILITY = 0.01
MIN_LETTERS = 12

# Frequent words of languages in the Latin script, by ISO 639-1 code; Norwegian is Bokmål.
FUNCTION_WORDS = {
    "ca": "el la els les de del dels que en un una és amb per no es al són més com però ha "
    "aquest jo tu ell ella em et li ens us mi meu meva teu teva seu seva on què qui quan "
    "perquè si sí molt també era he has res aquesta això tot tots hi ni sobre sense quin",
    "cs": "se na je že do to jsem jako ale pro by si tak jsou byl není které jeho podle",
    "da": "og at det er en til af den på for med der de som ikke har han var et jeg fra hun men "
    "du vi mig dig sig hvad hvor hvem hvordan kan skal vil havde din min sin om så nu når "
    "eller meget alle ud op være denne dette",
    "de": "der die das und ist nicht ein eine zu den mit sich auf für von dem des im wir sie "
    "ich es wie er wer wo was wenn so nur noch nach bei aus am an in um zum zur oder aber "
    "auch man mein meine dein du mir dir mich dich uns ihr ihm ihn sein seine bin bist "
    "sind war waren hat habe haben hatte wird werden kann alle alles hier einen einem "
    "einer dass durch über vor bis",
    "en": "the of and to in a is that it for was on with as are be this by you not have from "
    "they at i he his she her we their had has will would but or an which who when been "
    "its more out up all about into than other can one said me my do if so no what there "
    "how your our just like",
    "es": "el la los las de que en un una es se no por con su para al del lo como más pero está "
    "cómo hola me te mi mis tu tus sus yo él ella ellos nos le les ya muy sin sobre entre "
    "hay ser son soy he ha has han fue era tiene tengo todo todos toda este esta estos "
    "esto eso cuando donde dónde qué quién porque también bien mucho hasta desde ni si sí "
    "todas estas estoy",
    "et": "ja on ei et see ta oli mis kui ka ning aga oma olid selle nii välja üks või kes siis",
    "fi": "ja on ei että oli se hän mutta ovat kun niin myös joka sen mukaan olla kuin tai jos "
    "mitä",
    "fr": "le la les de des et est un une du en que qui dans pour pas sur au il elle ce avec ne "
    "sont je tu ils elles nous vous on me te se mon ma mes ton tes son sa ses cet cette "
    "ces quoi où quand comment si oui non ou mais donc être suis es était ai as ont fait "
    "plus tout tous toute leur aux même bien très sans sous entre par après comme ici "
    "deux",
    "hr": "je na se da su za od ne što kao koji koja koje bi je su to ali iz sam ili",
    "hu": "az és hogy nem egy is van volt meg ez de csak már mint ha el még fel vagy ki azt kell",
    "id": "yang dan di untuk dengan dari ini itu pada tidak adalah akan dalam ke juga oleh mereka",
    "it": "il la le di che un una per non in con del della gli sono si da lo al dei nel più io "
    "tu lui lei noi voi mi ti ci vi me te se ne ma anche come quando dove chi cosa perché "
    "questo questa quello ho hai ha hanno era stato sei siamo fa molto bene tutto tutti "
    "mio mia tuo tua suo sua alla nella dal degli delle dalla sul sulla no sì ed nei due "
    "dopo senza",
    "lt": "ir yra kad iš su buvo ne tai bet kaip jo už apie ar dėl nuo jau taip pat po",
    "lv": "un ir ka no uz ar par kas tas bija ne viņš pie vai bet kā tika lai arī līdz",
    "nb": "og det er på en til som av for at med de ikke den har om et var men jeg fra han du "
    "vi meg deg seg hva hvor hvem hvordan kan skal vil hadde din min sin så nå når eller "
    "mye alle ut opp være denne dette",
    "nl": "de het een en van is in dat niet op te zijn met voor er aan die ik was ook maar naar "
    "wij hij zij ze we je jij mij me jou mijn jouw haar hun ons onze wat wie hoe waren "
    "heb hebt heeft had kan zal zou wordt worden of als dan nog wel geen om over uit bij "
    "tot door dit deze hier alles al",
    "pl": "na się nie do że jest to jak za po od ale przez jego był są dla już tylko który co "
    "tak przed ma mam masz mnie mi mój moja ty ja on ona my wy ich jej tu tam gdzie kiedy "
    "kto bardzo czy lub oraz ten ta tego być jestem jesteś bez może było",
    "pt": "o a os as de que e em um uma é não para com do da no na se por mais dos das como mas "
    "foi está são ser ele ela eu você seu sua este esta isso esse essa pelo pela até "
    "também sem já muito quando ou mesmo entre sobre nos nas ao aos à às tem ter era nem "
    "me minha meu bem aqui",
    "ro": "și în de la cu este nu pe că un din pentru mai care sunt fost să au ce dar lui prin",
    "sk": "sa na je že do to som ako ale pre by si tak sú bol nie ktoré jeho podľa",
    "sl": "je in na se da so za ki pa bi ne kot tudi po od bil ni to ali iz ko lahko",
    "sv": "och att det är en på som för av med den till inte har de om ett men jag var från han "
    "du vi hon mig dig sig vad vem hur kan ska vill hade din min sin så nu när eller "
    "mycket alla ut upp vara denna detta",
    "tl": "ang ng sa na mga ay at si ko hindi niya ito para kay may nang mo ako siya sila kung",
    "tr": "ve bir bu da de için ile çok ne ama daha gibi var olarak olan sonra kadar en değil",
    "vi": "và là của có không được trong cho một người với các những này đã khi để cũng như tôi",
}

# Languages without such words here. Rare ones, and Kazakh, for which `lingua` takes Ukrainian, are
# left out.
OTHERS = frozenset(
    "af ar az be bg bn cy el eu fa ga gu he hi hy is ja ka ko mk mn mr pa ru sq sr sw ta te th uk "
    "ur zh".split()
)
KNOWN = frozenset(each.iso_code_639_1.name.lower() for each in lingua.Language.all())
WORDS = {code: frozenset(words.split()) for code, words in FUNCTION_WORDS.items()}


@dataclass(frozen=True, slots=True)
class Detection:
    """A candidate for the language of a text."""

    language: str  # in the server's spelling

    confidence: float  # percentage with one decimal; 100 less their sum is for other languages

    # ISO 639-1 code of a language that is not a candidate, if the text is probably in this
    # language. Only the best detection has this code.
    unserved: str | None = None


class LanguageDetector:
    """Detects the language of texts. Several threads may use one instance at the same time.

    Without `preload`, `lingua` loads the data of a language when a text first needs them. These
    are 0.4 s and 28 MB for each offered language, and 0.8 s and 60 MB for all others. A language
    unknown to `lingua` is never detected. If several of the offered codes name one language ("pt",
    "pt-BR"), the shortest is returned.
    """

    def __init__(self, languages: Collection[str]) -> None:
        self.choose(languages)

    def choose(self, languages: Collection[str]) -> None:
        """Replaces the candidates. A detection in progress uses the old ones."""
        codes = _codes_by_iso(tuple(languages))
        detector = _builder(codes).build() if codes else None
        compared = _compared(codes).build() if codes and all(map(_iso, languages)) else None
        self._candidates = codes, detector, compared

    def preload(self) -> None:
        """Loads the data of all candidates, so that the first request does not wait for them."""
        codes, _, compared = self._candidates
        # All detectors of a process share the data, so any detector can load them.
        if codes:
            _builder(codes).with_preloaded_language_models().build()
        if compared:
            _compared(codes).with_preloaded_language_models().build()

    def detect(self, text: str, among: Collection[str] | None = None) -> list[Detection]:
        """Ranks the languages that a text may be written in. The method never raises.

        Args:
            among: Codes that may be returned, in this spelling; others than the detector's
                candidates are ignored. None stands for all candidates.

        Returns at most three detections, best first. The list is empty if the text has no letters
        or matches no candidate. A single candidate is returned for every text in its script. The
        confidences are the candidates' shares of the probability of an offered language. Other
        languages are left out of it if an offered one is unknown to `lingua`.
        """
        sample = cleaned(text[:MAX_TEXT_CHARS]).encode("utf-8", "ignore").decode("utf-8")
        candidates, detector, compared = self._candidates
        if detector is None or not any(map(str.isalpha, sample)):
            return []
        codes = candidates if among is None else _codes_by_iso(tuple(among))
        words = re.findall(r"[^\W\d_]{2,}", sample[:MAX_COMPARED_CHARS].lower())
        counts = {code: sum(map(each.__contains__, words)) for code, each in WORDS.items()}
        values = detector.compute_language_confidence_values(sample)
        shares = {value.language.iso_code_639_1.name.lower(): value.value for value in values}
        # No word counts against a language without known function words.
        most = max(counts.values())
        found = [
            (codes[iso], share * WORD_ODDS ** counts.get(iso, most))
            for iso, share in shares.items()
            if iso in codes and iso in candidates
        ]
        if not found or compared is None:
            return _rank(found)
        probability, unserved = _compare(sample, words, counts, candidates, compared)
        ranked = _rank(found, probability)
        return [replace(each, unserved=unserved) for each in ranked[:1]] + ranked[1:]


def _builder(codes: Collection[str]) -> lingua.LanguageDetectorBuilder:
    names = [*codes]
    if len(names) == 1:
        # With one candidate, `lingua` does not accept "hello" as English. With a second candidate
        # of another script, it accepts every text in the script of the first one.
        names.append("en" if names == ["el"] else "el")
    iso_codes = map(lingua.IsoCode639_1.from_str, names)
    return lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*iso_codes)


def _compared(codes: Collection[str]) -> lingua.LanguageDetectorBuilder:
    return _builder({*codes, *WORDS, *OTHERS}).with_low_accuracy_mode()


def _rank(shares: list[tuple[str, float]], probability: float = 1.0) -> list[Detection]:
    """Scales shares to a sum of 100 and keeps the first ones above zero.

    Args:
        probability: The factor of the kept shares; none of them becomes zero by it.
    """
    total = sum(share for _, share in shares) or 1.0
    ranked = sorted(shares, key=lambda each: -each[1])[:MAX_DETECTIONS]
    best = [(code, round(100 * share / total, 1)) for code, share in ranked]
    return [
        Detection(code, max(MIN_CONFIDENCE, round(probability * percentage, 1)))
        for code, percentage in best
        if percentage > 0
    ]


@lru_cache(maxsize=512)  # the sources of each target, as the served models have them
def _codes_by_iso(codes: tuple[str, ...]) -> Mapping[str, str]:
    """Maps the ISO 639-1 code of each language to the shortest of the given codes that name it.

    Languages that `lingua` does not know are left out.
    """
    by_iso: dict[str, str] = {}
    for code in sorted(codes, key=lambda code: (len(code), code)):
        if name := _iso(code):
            by_iso.setdefault(name, code)
    return by_iso


def _iso(code: str) -> str | None:
    primary = base_language(code)
    names = (primary, base_language(OTHER_CODES.get(primary, "")))
    return next((name for name in names if name in KNOWN), None)


def _compare(
    text: str,
    words: Sequence[str],
    counts: Mapping[str, int],
    offered: Collection[str],
    detector: lingua.LanguageDetector,
) -> tuple[float, str | None]:
    """Compares the offered languages with all languages of a detector.

    Args:
        words: Words at the start of the text.
        counts: Number of each language's function words among them.

    Returns the probability of all offered languages together. If it is very small, the ISO 639-1
    code of the most probable other language is returned too.
    """
    own = max((count for code, count in counts.items() if code in offered), default=0)
    most = max((count for code, count in counts.items() if code not in offered), default=0)
    if own >= most + MORE_WORDS:
        return 1.0, None
    odds = {}
    for value in detector.compute_language_confidence_values(text[:MAX_COMPARED_CHARS]):
        code = value.language.iso_code_639_1.name.lower()
        odds[code] = value.value * WORD_ODDS ** counts.get(code, 0)
    of_others = {code: each for code, each in odds.items() if code not in offered and each}
    if not of_others:
        return 1.0, None
    of_offered = PRIOR_ODDS * sum(each for code, each in odds.items() if code in offered)
    probability = of_offered / (of_offered + sum(of_others.values()))
    is_clear = probability <= MAX_PROBABILITY and sum(map(len, words)) >= MIN_LETTERS
    return probability, max(of_others, key=of_others.__getitem__) if is_clear else None
