"""Finds the code of a language by its name: "Portuguese", "português" and "葡萄牙语" are pt."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from babel import Locale

from service.text.language_codes import known_locale, match_language, normalize_code

CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,4}){0,2}")
MAX_NAME_CHARS = 100
DETAILED = re.compile(r"(?P<base>[^()（）]+?)\s*[(（](?P<detail>[^()（）]+)[)）]")

OTHER_NAMES = {"farsi": "fa", "mandarin": "zh", "castilian": "es", "繁體中文": "zh-Hant"}
"""Common names that CLDR does not have."""


def code_of(name: str, offered: Collection[str]) -> str | None:
    """Returns the code for a name in English, in Chinese or in the language itself.

    "Portuguese (Brazil)" is pt-BR. A code in any spelling is its own name. The result may be a
    language that is not offered.
    """
    if len(name) > MAX_NAME_CHARS:  # DETAILED takes long for a name of many spaces
        return None
    key = name.strip().casefold()
    names = _names(tuple(offered))
    if key in names:
        return names[key]
    if CODE.fullmatch(key):
        code = normalize_code(key)
        is_known = match_language(code, offered) or code.partition("-")[0] in _codes()
        return code if is_known else None
    if (found := DETAILED.fullmatch(key)) and (base := names.get(found["base"])):
        detail = _details().get(found["detail"])
        return base if detail is None else f"{base.partition('-')[0]}-{detail}"
    return None


@lru_cache(maxsize=8)
def _names(offered: tuple[str, ...]) -> Mapping[str, str]:
    names = dict(_native_names(offered)) | OTHER_NAMES
    for locale in (Locale("zh"), Locale("en")):
        for code, name in locale.languages.items():
            names[name.casefold()] = normalize_code(code)
    return names


def _native_names(offered: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for code in offered:
        locale = known_locale(normalize_code(code))
        names = locale.languages if locale else {}
        for known in (code.partition("-")[0], code):
            if name := names.get(known.replace("-", "_")):
                yield name.casefold(), known


@lru_cache(maxsize=1)
def _codes() -> frozenset[str]:
    return frozenset(str(code).partition("_")[0] for code in Locale("en").languages)


@lru_cache(maxsize=1)
def _details() -> Mapping[str, str]:
    """Returns the codes of regions and scripts by their names in English and in Chinese."""
    details = {"简体": "Hans", "繁体": "Hant"}
    for locale in (Locale("zh"), Locale("en")):
        for names in (locale.territories, locale.scripts):
            details |= {name.casefold(): code for code, name in names.items()}
    return details
