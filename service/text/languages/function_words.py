"""Recognises a language that the server does not offer, by its most frequent words.

The language detector compares only the offered languages. On a server for English and Portuguese,
it therefore mistakes German for English. Function words are frequent words, such as "und" and
"nicht". They show the language if they outnumber the function words of every offered language.

With English among the offered languages, none of 997 English FLORES sentences is mistaken for
another language. The first words of each sentence were also tested alone. Two of these short texts,
which contain Spanish names, are mistaken. Without English among the offered languages, 95 % of the
sentences are recognised as English.
"""

import re
from collections.abc import Collection

MIN_WORDS = 2
"""Smallest number of function words that is enough to recognise a language."""

MIN_SHARE = 0.2
"""Smallest share of a text's words that must be function words of the language."""

LEAD = 2
"""Factor by which the function words must outnumber those of each offered language."""

MAX_CHARS = 2_000

MIN_LETTERS = 2
"""Smallest length of a word that counts for a language that is not offered. Shorter words, such as
"s" and "I" in English texts, count only for the offered languages."""

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
"""Frequent words of languages in the Latin script, by ISO 639-1 code; Norwegian is Bokmål."""

OTHER_SCRIPTS = frozenset(
    "am ar be bg bn el fa gu he hi hy ja ka kk ko mk mn mr pa ru sr ta te th uk ur zh".split()
)
"""Codes of languages in other scripts, whose words are never words of the table."""

WORDS = {code: frozenset(words.split()) for code, words in FUNCTION_WORDS.items()}


def unserved_language(text: str, offered: Collection[str]) -> str | None:
    """Returns the ISO 639-1 code of a text's language if this language is not offered.

    Otherwise the result is None. It is also None if too few function words show the language, or if
    an offered language is in neither FUNCTION_WORDS nor OTHER_SCRIPTS.

    Args:
        text: Any text; the first `MAX_CHARS` characters count.
        offered: ISO 639-1 codes of the offered languages.
    """
    if not WORDS.keys() | OTHER_SCRIPTS >= {*offered}:
        return None  # The function words of an offered language are unknown.
    words = re.findall(r"[^\W\d_]+", text[:MAX_CHARS].lower())
    long = [word for word in words if len(word) >= MIN_LETTERS]
    counts = {code: sum(map(each.__contains__, long)) for code, each in WORDS.items()}
    best = max(counts, key=lambda code: counts[code])
    known = [WORDS[code] for code in offered if code in WORDS]
    own = max((sum(map(each.__contains__, words)) for each in known), default=0)
    is_clear = counts[best] >= max(MIN_WORDS, LEAD * own, MIN_SHARE * len(words))
    return best if is_clear and best not in offered else None
