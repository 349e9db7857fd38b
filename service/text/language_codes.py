"""Language codes: canonical spelling, match with an offered language, display names.

Codes are BCP 47 tags of language, script and region ("en", "pt-BR", "zh-Hant").
"""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache

from babel import Locale, UnknownLocaleError, localedata
from babel.core import get_global

# RFC 5646, section 4.4.1, advises this length for tags of language, script, region and variants.
MAX_CODE_CHARS = 35
MAX_ACCEPT_ENTRIES = 10

# This set is checked first, because Locale.parse searches the disk for each unknown tag. Each such
# search takes 0.2 ms.
_LOCALES = frozenset(localedata.locale_identifiers())

# Maps a code to another code of the same language. Each of these languages has two codes in BCP 47,
# or a code that only LibreTranslate uses.
OTHER_CODES = {
    "pb": "pt-BR",
    "zt": "zh-Hant",
    "tl": "fil",
    "fil": "tl",
    "no": "nb",
    "nb": "no",
    "iw": "he",
}

# A language range with its weight, such as "pt-BR;q=0.9" (RFC 9110 sections 12.4.2 and 12.5.4).
_ACCEPT_ENTRY = re.compile(
    r"\s*(?P<tag>[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3})\s*"
    r"(?:;\s*q\s*=\s*(?P<weight>0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\s*)?"
)


def normalize_code(code: str) -> str:
    """Returns the canonical spelling of a code: "pt-BR" for "PT_br", "zh-Hant" for "zh_hant".

    Casing follows RFC 5646 section 2.1.1. A code with a character outside ASCII is only trimmed.
    """
    trimmed = code.strip()
    if not trimmed.isascii():
        return trimmed
    primary, *subtags = trimmed.replace("_", "-").split("-")
    return "-".join([primary.lower(), *map(_cased, subtags)])


def match_language(code: str, offered: Collection[str]) -> str | None:
    """Finds the offered language that matches a code in any spelling. The function never raises.

    The first rule that applies decides:

    1. The same code is offered.
    2. The code without its last subtags is offered ("pt-BR" -> "pt", RFC 4647 section 3.4).
    3. Exactly one variant of the language is offered ("pt" or "pt-PT" -> "pt-BR"). If the code
       names a script, the variant must name the same script.
    4. Exactly one of several offered variants is in the script of the code. A code without a
       script has the likely script of CLDR ("zh" -> "zh-Hans", "zh-TW" -> "zh-Hant").
    5. Another code of the same language has a match by rules 1 to 4 ("tl" -> "fil",
       LibreTranslate's "zt" -> "zh-Hant").

    If no rule applies, the result is None, because any choice would be a guess.
    """
    wanted = normalize_code(code)
    if not 0 < len(wanted) <= MAX_CODE_CHARS:
        return None
    by_code, variants = _index(tuple(offered))
    found = _match(wanted, by_code, variants)
    primary, dash, rest = wanted.partition("-")
    other = f"{OTHER_CODES[primary]}{dash}{rest}" if primary in OTHER_CODES else ""
    return found or _match(other, by_code, variants)


@lru_cache(maxsize=64)
def _index(offered: tuple[str, ...]) -> tuple[Mapping[str, str], Mapping[str, list[str]]]:
    by_code = {normalize_code(entry): entry for entry in offered}
    variants: dict[str, list[str]] = {}
    for code in by_code:
        variants.setdefault(code.partition("-")[0], []).append(code)
    return by_code, variants


def _match(
    wanted: str, by_code: Mapping[str, str], variants: Mapping[str, list[str]]
) -> str | None:
    """Matches a canonical code by rules 1 to 4; an empty code has no match."""
    tag = wanted
    while tag:
        if tag in by_code:
            return by_code[tag]
        tag = tag.rpartition("-")[0]
    same_language = variants.get(wanted.partition("-")[0], []) if wanted else []
    script = _script(wanted)
    found = [entry for entry in same_language if script in (None, _script(entry))]
    if len(found) > 1:  # `zh` is mostly written in Hans, `zh-TW` in Hant
        script = script or _likely_script(wanted)
        found = [entry for entry in found if _script(entry) == script]
    return by_code[found[0]] if len(found) == 1 else None


def base_language(code: str) -> str:
    return normalize_code(code).partition("-")[0]


def display_name(code: str, accept_language: str | None = None) -> str:
    """Returns the name of a language in a client's own language, such as "Portugais" for "pt".

    The name begins with a capital letter. It is English if the client's locale has no name for the
    language, and the canonical code if English has none either. The function never raises.
    """
    canonical = normalize_code(code)
    locales = (_preferred_locale(accept_language or ""), Locale("en"))
    name = next(filter(None, (_name_in(locale, canonical) for locale in locales)), None)
    # Title case is right for all scripts; upper case gives the wrong Georgian letter.
    return canonical if name is None else name[:1].title() + name[1:]


def text_direction(code: str) -> str:
    """Returns `rtl` for a language that is written from right to left, else `ltr`."""
    locale = known_locale(normalize_code(code))
    return locale.text_direction if locale else "ltr"


def _cased(subtag: str) -> str:
    if len(subtag) == 2:
        return subtag.upper()
    if len(subtag) == 4 and subtag.isalpha():
        return subtag.capitalize()
    return subtag.lower()


def _script(tag: str) -> str | None:
    subtags = tag.split("-")[1:]
    return next((subtag for subtag in subtags if len(subtag) == 4 and subtag.isalpha()), None)


def _likely_script(tag: str) -> str | None:
    """Returns the script in which a language, or one of its regions, is mostly written."""
    known = get_global("likely_subtags")
    full = known.get(tag.replace("-", "_")) or known.get(tag.partition("-")[0], "")
    return _script(full.replace("_", "-"))


def _preferred_locale(accept_language: str) -> Locale:
    weights: dict[str, float] = {}
    for entry in accept_language.split(",", MAX_ACCEPT_ENTRIES)[:MAX_ACCEPT_ENTRIES]:
        if match := _ACCEPT_ENTRY.fullmatch(entry):
            weights.setdefault(normalize_code(match["tag"]), float(match["weight"] or 1))
    wanted = sorted((tag for tag in weights if weights[tag] > 0), key=lambda tag: -weights[tag])
    return next(filter(None, map(known_locale, wanted)), Locale("en"))


def known_locale(tag: str) -> Locale | None:
    """Returns the locale of a canonical code, or of its language; None if CLDR has none."""
    primary = tag.partition("-")[0]
    is_known = get_global("language_aliases").get(primary, primary) in _LOCALES
    for code in (tag, primary) if is_known else ():
        with suppress(ValueError, UnknownLocaleError):
            return Locale.parse(code, sep="-")
    return None


def _name_in(locale: Locale, code: str) -> str | None:
    """Returns a name such as "Portuguese (Angola)"; None if the locale has none."""
    names = locale.languages
    whole: str | None = names.get(code.replace("-", "_"))
    if whole is not None:
        return whole
    primary, *subtags = code.split("-")
    base: str | None = names.get(primary)
    if base is None:
        return None
    details = [locale.territories.get(tag) or locale.scripts.get(tag) or tag for tag in subtags]
    listed = ", ".join(filter(None, details))
    return f"{base} ({listed})" if listed else base
