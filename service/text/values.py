"""Tables of the values that a model must copy exactly: amounts, ids, coordinates, times, exponents.

Models localise short numbers well: `1,500` becomes `1.500`. In long ones they lose digits, and they
replace `R$ 50` by `$50`. So amounts of money are values. A number of at least five digits is a
value if all languages share its form, such as a hash or an IBAN. Other numbers, and amounts such as
`$1.5 million`, are left to the model.
"""

import re
from collections.abc import Iterator

from service.text.signs import MEASURES, SCRIPTS
from service.text.syntaxes import Group, Syntax

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
    {},
    (
        Syntax(
            "amount after letters and a sign",
            rf"(?<![\w{_CURRENCIES}]){_NUMBER_SIGN}[A-Z]{{1,3}}[{_CURRENCIES}]{_SPACE}{_NUMBER_SIGN}\d{{1,15}}"
            rf"(?:{_GROUP}){{0,7}}+{_EXACT}",
            ("Pay ⟦R$ 1.234,56⟧ or ⟦R$ 1.234.567,89⟧", "⟦US$ 1,234.56⟧, ⟦R$ 50⟧ and ⟦R$50,00⟧"),
            ("R$ 36,3 milhões, US$2.25bn and $5",),
        ),
        Syntax(
            "amount after a sign",
            rf"(?<![\w{_CURRENCIES}]){_NUMBER_SIGN}(?:[{_CURRENCIES}]|(?=[A-Z]{{3}}(?![A-Za-z]))(?:{_CODES})"
            rf"|Fr\.|kr\.?){_SPACE}{_NUMBER_SIGN}\d{{1,15}}(?:{_GROUP}){{1,7}}+{_EXACT}",
            (
                "⟦$5,000⟧, ⟦£12.50⟧, ⟦€1\u202f234,56⟧ and ⟦$-1,000⟧",
                "⟦CHF 1'234.50⟧ and ⟦₹12,34,567.89⟧, ⟦−$1,000⟧",
            ),
            ("$1.5 million, $1,234.56 million and $12.5",),
        ),
        Syntax(
            "IBAN",
            r"(?<!\w)[A-Z]{2}\d\d(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?(?!\w)",
            ("⟦DE89 3704 0044 0532 0130 00⟧, please",),
        ),
    ),
)

UUIDS = Group(
    r"(?<!\w)(?=[0-9A-Fa-f]{8}-)",
    {},
    (
        Syntax(
            "UUID",
            r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)",
            ("id ⟦123e4567-e89b-12d3-a456-426614174000⟧.",),
        ),
    ),
)

NUMBERS = Group(
    r"(?<!\w)(?=[\d+\-\u2212])",
    {},
    (
        Syntax(
            "amount before a sign",
            rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,15}}(?:{_GROUP}){{1,7}}+{_ALONE}{_SPACE}"
            rf"(?:[A-Z]{{0,3}}[{_CURRENCIES}](?!\d)|(?:{_CODES}|zł|kr|Kč|Ft|lei)(?!\w))",
            ("⟦1,234.56 USD⟧ or ⟦1.234,56 €⟧ or ⟦1 234,56 zł⟧",),
        ),
        Syntax(
            "date and time",
            r"(?<![\w.-])\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
            r"(?: ?(?:Z|[-+]\d\d:?\d\d))?)?(?!\w)"
            r"|(?<![\w:])\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w:])|(?<![\w/])\d{1,4}/\d{1,2}/\d{1,4}(?![\w/])",
            (
                "⟦2024-01-15T10:30:00Z⟧, ⟦2024-01-15 10:30⟧ on ⟦12/05/2024⟧",
                "⟦2024-01-01T00:00:00.123+02:00⟧ at ⟦10:30:45⟧",
            ),
            ("10:30, 50%, 3.5 km, 2020-21",),
        ),
        Syntax(
            "telephone number",
            r"(?<!\w)\+\d{1,3}[ -]?(?:\(\d{1,4}\)[ -]?)?\d{2,5}(?:[ -]\d{2,5}){1,4}(?!\w)",
            ("⟦+55 (11) 91234-5678⟧",),
        ),
        Syntax(
            "card number",
            r"(?<![\w.-])\d{4}(?P<gap>[ -])\d{4}(?:(?P=gap)\d{4}){1,3}(?:(?P=gap)\d{1,3})?"
            r"(?![\w-])",
            ("⟦4111 1111 1111 1111⟧ or ⟦4111-1111-1111-1111⟧",),
            ("in 1990, 1991 and 1992",),
        ),
        Syntax(
            "network address",
            rf"(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?::\d{{1,5}}|/\d{{1,2}})?(?![\w.]\w)",
            ("⟦192.168.100.200:8080⟧",),
        ),
        Syntax(
            "coordinates",
            rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,3}}[.,]\d{{3,15}}\s?[,;]\s?{_NUMBER_SIGN}\d{{1,3}}[.,]"
            r"\d{4,15}(?!\d)|(?<!\w)\d{1,3}° ?\d{1,2}['′’](?: ?\d{1,2}(?:[.,]\d{1,4})?[\"″”])?",
            ("at ⟦-23.55052, -46.63331⟧", "⟦40°26′46″⟧ N"),
        ),
        Syntax(
            "number with many decimals",
            rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,15}}[.,]\d{{4,30}}(?![\w.,]\d)",
            ("⟦3.14159⟧",),
            ("1.234.567 and 12,345.6 and 1,234",),
        ),
        Syntax(
            "number with separators",  # but not 1.234.567 and 1914-1918
            r"(?<![\w.-])(?!\d{1,3}(?:\.\d{3}){1,7}(?![.\w-]\w))(?!\d{1,4}-\d{1,4}(?!-))"
            r"\d{1,7}(?:[.-]\d{1,7}){2,7}(?!\w)",
            ("⟦978-3-16-148410-0⟧, ⟦123.456.789-09⟧",),
            ("1,234,567 people, 1914-1918",),
        ),
    ),
)

IDS = Group(
    r"(?<!\w)(?=\w)",
    {},
    (
        Syntax(
            "id",  # but not 1990s-2000s and 12000-seat
            r"(?<![\w-])(?=(?:[A-Za-z_/.-]{0,64}\d){5})(?!\d{3,4}s\b)(?!\d++(?:[-/.]\d++){0,15}+(?!\w))"
            rf"{_ID_PART}(?:[-_/.]{_ID_PART}){{0,15}}+(?!\w)|(?<!\w)\d{{7,}}+(?!\w)",
            (
                "⟦AB12345678⟧ and ⟦INV-2024-00123⟧, call ⟦91234567⟧",
                "⟦d41d8cd98f00b204e9800998ecf8427e⟧",
            ),
            ("the 1990s-2000s, a 12000-seat hall, COVID-19 and H1N1", "24-year-old"),
        ),
        Syntax(
            "exponent or index",  # a longer word has a footnote: `word¹`
            rf"(?:(?<![\w.,])\d[\d.,]{{0,31}}{_SPACE}[×x·⋅*]{_SPACE})?(?<!\w)"
            rf"(?:{_BASE}{{3,8}}+(?=[\u207b\u2080-\u209c])|{_BASE}{{0,2}}+)[{SCRIPTS}]++"
            rf"(?:{_BASE}{{0,2}}+[{SCRIPTS}]++){{0,31}}[^\W_]{{0,2}}+(?![^\W_])",
            (
                "⟦8³⟧ is ⟦6 × 10⁵¹⟧ and ⟦5×10⁻³⟧",
                "10 ⟦m²⟧ of ⟦H₂O⟧, ⟦C₆H₁₂O₆⟧ and ⟦SO₄²⁻⟧",
                "⟦log₂⟧ 8 of ⟦mc²⟧, ⟦a²⟧+⟦b²⟧",
            ),
        ),
    ),
)

# Signs of fractions and units that have no meaning without the number in front of them.
QUANTITIES = Group(
    rf"(?<!\w)(?=[\d°{MEASURES}+\-\u2212±])",
    {},
    (
        Syntax(
            "fraction or unit",
            rf"(?:[-+\u2212±](?=[\d{MEASURES}]))?"
            rf"(?:\d{{1,15}}(?:[.,]\d{{1,15}})?{_SPACE})?(?:[{MEASURES}]|°[CFK]?(?!\w))",
            (
                "Add ⟦2½⟧ cups at ⟦180 ℃⟧ or ⟦25 °C⟧, then ⟦10㎡⟧, ⟦°F⟧.",
                "From ⟦−5 °C⟧ to ⟦+3°⟧, or ⟦-½⟧ at 5-⟦10 °C⟧.",
            ),
            ("Add 2 cups.",),
        ),
    ),
)

FOOTNOTES = Group(
    "", {}, (Syntax("mark of a footnote", rf"[{SCRIPTS}]++", ("the theory⟦¹⟧ says",)),)
)

# The lookaheads of the groups leave out, at most places of a text, rows that cannot begin there.
VALUES = (AMOUNTS, UUIDS, QUANTITIES, NUMBERS, IDS, FOOTNOTES)

WINDOW_CHARS = 1024
MAX_CHARS = 256

_VALUES = re.compile(
    "|".join(f"{group.first}(?:{'|'.join(row.pattern for row in group.rows)})" for group in VALUES)
)
_WORD_REST = re.compile(r"\w*+")

# Pattern that is faster than `_VALUES`. A text without a match has no value.
TRIGGER = re.compile(
    rf"""
    [0-9{_CURRENCIES}{SCRIPTS}{MEASURES}°]
    (?: (?<=[{_CURRENCIES}]){_SPACE}{_NUMBER_SIGN}[0-9]
      | (?<=[{SCRIPTS}{MEASURES}°])
      | (?<=[0-9])(?:(?:[^\w\s]?\s?\w?[0-9]){{4}}|[0-9A-Fa-f]{{7}})
    )
    """,
    re.VERBOSE,
)


def find_values(text: str) -> Iterator[tuple[int, int]]:
    """Yields the spans of values.

    A search holds the lock of the interpreter. A long text is therefore searched in windows, which
    overlap by the length of a value. The end of a longer value is found apart.
    """
    begin = 0
    while begin < len(text):
        end = begin + WINDOW_CHARS
        begin, first, limit = end, begin, end + MAX_CHARS
        for match in _VALUES.finditer(text, first, limit):
            if match.start() >= end:
                break
            last = match.end()
            if last == limit and (rest := _WORD_REST.match(text, last)):
                last = rest.end()
            yield match.start(), last
            begin = max(end, last)
