"""Tables of the values that a model must copy exactly: amounts, ids, coordinates, times, exponents.

Models localise short numbers well: `1,500` becomes `1.500`. In long ones they lose digits, and they
replace `R$ 50` by `$50`. So amounts of money are values. A number of at least five digits is a
value if all languages share its form, such as a hash or an IBAN. Other numbers, and amounts such as
`$1.5 million`, are left to the model.
"""

import re

from service.text.signs import MEASURES, SCRIPTS
from service.text.syntaxes import Group

_CURRENCIES = "$€£¥₹₩₽₺₫₪₴₦₱฿"
_CODES = (
    "AED|ARS|AUD|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NGN"
    "|NOK|NZD|PEN|PHP|PLN|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|UYU|VND|ZAR"
)
_SPACE = "[ \u00a0\u202f]?"
_NUMBER_SIGN = "[-+\u2212]?"
_GROUP = "[.,'\u2019 \u00a0\u202f]\\d{2,3}"  # In India, groups have two digits.
_ALONE = r"(?!\d|[.,]\d)"
_EXACT = (  # the number of `$1.5 million` is rounded, and the model localises it
    rf"{_ALONE}(?!{_SPACE}-?(?:thousand|million|billion|trillion|mil|milh|bilh|trilh|mio|mrd|mn|bn"
    r"|[kKmM]\b))"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|\d{1,2})"
_ID_PART = r"(?:[A-Z]{1,6}(?![A-Za-z0-9])|[A-Za-z]{0,64}\d[A-Za-z0-9]*+)"
_BASE = rf"[^\W_{SCRIPTS}]"

AMOUNTS = Group(
    rf"(?<!\w)(?=[A-Zk{_CURRENCIES}+\-\u2212])",
    {
        "amount after letters and a sign": (
            rf"(?<![\w{_CURRENCIES}]){_NUMBER_SIGN}[A-Z]{{1,3}}[{_CURRENCIES}]{_SPACE}{_NUMBER_SIGN}\d{{1,15}}"
            rf"(?:{_GROUP}){{0,7}}+{_EXACT}"
        ),
        "amount after a sign": (
            rf"(?<![\w{_CURRENCIES}]){_NUMBER_SIGN}(?:[{_CURRENCIES}]|(?=[A-Z]{{3}}(?![A-Za-z]))(?:{_CODES})"
            rf"|Fr\.|kr\.?){_SPACE}{_NUMBER_SIGN}\d{{1,15}}(?:{_GROUP}){{1,7}}+{_EXACT}"
        ),
        "IBAN": r"(?<!\w)[A-Z]{2}\d\d(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?(?!\w)",
    },
)

UUIDS = Group(
    r"(?<!\w)(?=[0-9A-Fa-f]{8}-)",
    {"UUID": r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)"},
)

NUMBERS = Group(
    rf"(?<!\w)(?=[\d°{MEASURES}+\-\u2212±])",
    {
        # Signs of fractions and units have no meaning without the number in front of them.
        "fraction or unit": (
            rf"(?:[-+\u2212±](?=[\d{MEASURES}]))?"
            rf"(?:\d{{1,15}}(?:[.,]\d{{1,15}})?{_SPACE})?(?:[{MEASURES}]|(?:°[CFK]?|º[CFK])(?!\w))"
        ),
        "amount before a sign": (
            rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,15}}(?:{_GROUP}){{1,7}}+{_ALONE}{_SPACE}"
            rf"(?:[A-Z]{{0,3}}[{_CURRENCIES}](?!\d)|(?:{_CODES}|zł|kr|Kč|Ft|lei)(?!\w))"
        ),
        "date and time": (
            r"(?<![\w.-])\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
            r"(?: ?(?:Z|[-+]\d\d:?\d\d))?)?(?!\w)"
            r"|(?<![\w:])\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w:])|(?<![\w/])\d{1,4}/\d{1,2}/\d{1,4}(?![\w/])"
        ),
        "telephone number": (
            r"(?<!\w)\+\d{1,3}[ -]?(?:\(\d{1,4}\)[ -]?)?\d{2,5}(?:[ -]\d{2,5}){1,4}(?!\w)"
        ),
        "card number": (
            r"(?<![\w.-])\d{4}(?P<gap>[ -])\d{4}(?:(?P=gap)\d{4}){1,3}(?:(?P=gap)\d{1,3})?"
            r"(?![\w-])"
        ),
        "network address": (
            rf"(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?::\d{{1,5}}|/\d{{1,2}})?(?![\w.]\w)"
        ),
        "coordinates": (
            rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,3}}[.,]\d{{3,15}}\s?[,;]\s?{_NUMBER_SIGN}\d{{1,3}}[.,]"
            r"\d{4,15}(?!\d)|(?<!\w)\d{1,3}° ?\d{1,2}['′’](?: ?\d{1,2}(?:[.,]\d{1,4})?[\"″”])?"
        ),
        "number with many decimals": (
            rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,15}}[.,]\d{{4,30}}(?![\w.,]\d)"
        ),
        # but not 1.234.567 and 1914-1918
        "number with separators": (
            r"(?<![\w.-])(?!\d{1,3}(?:\.\d{3}){1,7}(?![.\w-]\w))(?!\d{1,4}-\d{1,4}(?!-))"
            r"\d{1,7}(?:[.-]\d{1,7}){2,7}(?!\w)"
        ),
    },
)

IDS = Group(
    r"(?<!\w)(?=\w)",
    {
        # but not 1990s-2000s and 12000-seat
        "id": (
            r"(?<![\w-])(?=(?:[A-Za-z_/.-]{0,64}\d){5})(?!\d{3,4}s\b)(?!\d++(?:[-/.]\d++){0,15}+(?!\w))"
            rf"{_ID_PART}(?:[-_/.]{_ID_PART}){{0,15}}+(?!\w)|(?<!\w)\d{{7,}}+(?!\w)"
        ),
        # a longer word has a footnote: `word¹`
        "exponent or index": (
            rf"(?:(?<![\w.,])\d[\d.,]{{0,31}}{_SPACE}[×x·⋅*]{_SPACE})?(?<!\w)"
            rf"(?:{_BASE}{{3,8}}+(?=[\u207b\u2080-\u209c])|{_BASE}{{0,2}}+)[{SCRIPTS}]++"
            rf"(?:{_BASE}{{0,2}}+[{SCRIPTS}]++){{0,31}}[^\W_]{{0,2}}+(?![^\W_])"
        ),
    },
)

FOOTNOTES = Group(
    "",
    {"mark of a footnote": rf"[{SCRIPTS}]++"},
)

# The lookaheads of the groups leave out, at most places of a text, rows that cannot begin there.
VALUES = (AMOUNTS, UUIDS, NUMBERS, IDS, FOOTNOTES)

VALUE = re.compile("|".join(group.pattern for group in VALUES))

# Pattern that is faster than `VALUE`. A text without a match has no value.
TRIGGER = re.compile(
    rf"""
    º[CFK]|[0-9{_CURRENCIES}{SCRIPTS}{MEASURES}°]
    (?: (?<=[{_CURRENCIES}]){_SPACE}{_NUMBER_SIGN}[0-9]
      | (?<=[{SCRIPTS}{MEASURES}°])
      | (?<=[0-9])(?:(?:[^\w\s]?\s?\w?[0-9]){{4}}|[0-9A-Fa-f]{{7}})
    )
    """,
    re.VERBOSE,
)
