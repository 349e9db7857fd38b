"""Tables of the spans that a model must not change: one row for each syntax.

A row has examples, which the tests check. In an example, `⟦` and `⟧` surround each protected span.
This module has templates, placeholders, markup and addresses. `code_syntaxes` has code, and
`values` has numbers.

All rows are compiled into one expression. Rows that begin with the same characters are a group,
which is left out at all other characters. A short expression, the trigger, finds the texts without
any span. The search takes linear time, because each repetition is possessive, has a limit, or stops
at a character with which the pattern begins.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOP_LEVEL = "com|org|net|io|dev|gov|edu|info|app"

_EXTENSIONS = (
    "py|js|ts|jsx|tsx|json|ya?ml|toml|xml|html?|css|scss|md|txt|csv|tsv|pdf|docx?|xlsx?|pptx?|odt"
    "|png|jpe?g|gif|svg|webp|mp[34]|wav|zip|tar|gz|bz2|7z|rar|exe|dll|sh|bat|ps1|rb|java|kt|cpp|cs"
    "|php|sql|db|log|ini|cfg|conf|lock|ipynb|epub|srt|vtt|apk|iso|dmg|vue|mdx|properties|strings"
)


# Marks of ordinary sentences. The trigger compares them with few conditions.
FREQUENT = ".-:(&"

WORD = r"(?<!\w)(?=\w)"
"""Start of a word, where the rows of many groups begin."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """One row: the pattern of a kind of spans.

    Attributes:
        kept: Sentences with spans.
        translated: Similar sentences without spans.
    """

    name: str
    pattern: str
    kept: tuple[str, ...]
    translated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Rows whose spans begin with the same characters.

    Attributes:
        first: Pattern without width that is true where a span may begin.
        triggers: Maps classes of characters to patterns without width. In each span, or beside it,
            a character of a class is in front of a place where its pattern is true. The pattern ""
            is true everywhere.
        words: Parts of a text, in capitals or not; each span without a trigger is in a text with
            one of them.
    """

    first: str
    triggers: dict[str, str]
    rows: tuple[Syntax, ...]
    words: tuple[str, ...] = ()


def compiled(groups: Sequence[Group]) -> re.Pattern[str]:
    """Returns one pattern. At most places of a text, two lookarounds leave out all rows."""
    in_words = "|".join(
        row.pattern for group in groups if group.first == WORD for row in group.rows
    )
    others = []
    for group in groups:
        if group.first != WORD:
            patterns = "|".join(row.pattern for row in group.rows)
            others.append(f"{group.first}(?:{patterns})")
    return re.compile(rf"(?=[^\w\s])(?:{'|'.join(others)})|{WORD}(?:{in_words})")


def trigger(groups: Sequence[Group]) -> re.Pattern[str]:
    """Returns a fast pattern that matches in each text with a span of one of the groups."""
    conditions: dict[str, list[str]] = {}
    for group in groups:
        for chars, condition in group.triggers.items():
            for char in chars:
                conditions.setdefault(char, []).append(condition)
    rare = {char: found for char, found in conditions.items() if char not in FREQUENT}
    plain = "".join(re.escape(char) for char, found in rare.items() if "" in found)
    others = {char: found for char, found in rare.items() if "" not in found}
    frequent = {char: conditions[char] for char in FREQUENT if char in conditions}
    every = "".join(map(re.escape, conditions))
    of_rare = "|".join([f"(?<=[{plain}])", *map(_after, others.items())])
    parts = [f"(?<=[^{re.escape(FREQUENT)}])(?:{of_rare})", *map(_after, frequent.items())]
    return re.compile(rf"[{every}](?:{'|'.join(parts)})")


def _after(item: tuple[str, Sequence[str]]) -> str:
    char, conditions = item
    return f"(?<={re.escape(char)})(?:{'|'.join(conditions)})"


_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_AFTER_BRACE = _BRACES.removeprefix(r"\{")
_TOKEN = r"""(?:"[^"{}\n]*+"|'[^'{}\n]*+'|[^\s{}"',;|]++)"""
_KEY = r"[\w$.-]++\s{0,9}[:=|]\s{0,9}"

BRACES = Group(
    r"(?=[{$#%@])",
    {"{": ""},
    (
        Syntax(
            "template tag",
            r"\{\{\{[^{}]*\}\}\}|\{\{[^{}]*\}\}|\{%[^{}]*%\}|\{#[^{}]*#\}",
            (
                "Hello ⟦{{ user.name }}⟧ or ⟦{{{raw}}}⟧, you have ⟦{{count}}⟧ files.",
                "⟦{% if user %}⟧Welcome⟦{% endif %}⟧ ⟦{# a note #}⟧",
            ),
        ),
        Syntax(
            "ICU message",
            r"\{(?=\s{0,9}[\w.-]{1,99}\s{0,9},\s{0,9}(?:plural|select|selectordinal|number|date"
            rf"|time|choice|spellout|ordinal|duration|list)\b){_AFTER_BRACE}",
            (
                "⟦{count, plural, one {# file} other {# files}}⟧ left",
                "On ⟦{day, date, short}⟧ he paid ⟦{0, number, currency}⟧.",
            ),
        ),
        Syntax(
            "expression",
            rf"[$#%@]{_BRACES}",
            ("Go to ⟦${home}⟧ or ⟦#{user.name}⟧, ⟦%{name}⟧.", "It is ⟦${a + b}⟧ long."),
        ),
        Syntax(
            "placeholder",
            r"\{(?:[^{}\s]*+|\s{1,9}[\w.$\[\]()'-]++\s{1,9})\}",
            ("Hello ⟦{name}⟧, ⟦{0}⟧ of ⟦{}⟧ and ⟦{ user.name }⟧ or ⟦{:.2f}⟧.",),
            ("The set {red, green and blue} is finite.", "Take {the old house} and go."),
        ),
        Syntax(
            "format",
            r"\{[\w.\[\]]*+:(?=[^\s{}])[^{}\n]{1,60}\}",
            ("Printed on ⟦{0:dd MMM yyyy}⟧ by us.",),
        ),
        Syntax(
            "JSON, styles and filters",
            rf"\{{(?=\s{{0,9}}[\"']){_AFTER_BRACE}"
            rf"|\{{\s{{0,9}}{_KEY}{_TOKEN}(?:\s{{0,9}}[,;|]\s{{0,9}}(?:{_KEY})?{_TOKEN})*+"
            r"\s{0,9};?\s{0,9}\}",
            (
                'Send ⟦{"name": "A red house", "ids": {"a": 1}}⟧ to us.',
                "Use ⟦{ color: red; margin: 0 }⟧ and ⟦{user | upper}⟧ here.",
            ),
            ("The rule {note: the cat is black} is old.",),
        ),
        Syntax(
            "block in braces",
            r"\{[#/@:^>~*\\$][^{}\n]{0,200}\}",
            ("⟦{#if user}⟧Hello⟦{/if}⟧", r"Look ⟦{\pos(10, 20)\an8}⟧up"),
        ),
        Syntax(
            "set of symbols",
            r"\{(?:[^{}\w\n]|\d++|\w{1,2}(?!\w)){1,99}\}",
            ("The sets ⟦{1, 2, 30}⟧ and ⟦{x | x > 0}⟧ are closed.",),
        ),
    ),
)

# After a digit, the sign belongs to a share: `50%`.
_PERCENT = r"(?<![\w%])(?<!\d\s)"

PERCENTS = Group(
    r"(?=%)",
    {"%": r"(?<!\d%)"},
    (
        Syntax(
            "date pattern",
            r"(?<![\w%])(?=(?:%-?[A-Za-z][-/:.,T ]{0,2}){0,6}%-?[YmHMyBbAI])"
            r"%-?[YmdHMSyjUWBbAaIpZz](?:[-/:.,T]? ?%-?[YmdHMSyjUWBbAaIpZz])++(?!\w)",
            ("The format is ⟦%Y-%m-%d %H:%M⟧ now.",),
            ("It is 50% higher than 20% of it.",),
        ),
        Syntax(
            "printf",
            r"(?<!\w)(?:%[0-9A-F]{2}){2,99}(?!\w)|(?<![\d%])%(?:\(\w{1,99}\)|\d{1,3}\$|<\w{1,99}>)?[-+0#']*+(?:\d*+|\*)"
            r"(?:\.(?:\d++|\*))?(?:hh?|ll?|[LzjtqI]|I64)?[diouxXeEfFgGcCrsSaAp@](?![A-Za-z])"
            r"|(?<![\d%])%(?:\d{1,3}\$)?#@\w{1,99}@",
            (
                "Delete ⟦%C3%A9⟧ and ⟦%s⟧ or ⟦%1$d⟧ files of ⟦%(name)s⟧, ⟦%05.2f⟧, ⟦%-10s⟧.",
                "⟦%@⟧ sent ⟦%1$@⟧ and ⟦%lld⟧ of ⟦%#@count@⟧, ⟦%<name>s⟧ or ⟦%.*f⟧.",
            ),
            ("It costs 50% less, and 100% of it.",),
        ),
        Syntax(
            "name between percent signs",
            rf"(?<![\w%])%%?[A-Za-z_]\w*+%%?(?!\w)|{_PERCENT}%[a-z_]\w++",
            ("Open ⟦%USERPROFILE%⟧ and ⟦%%name%%⟧ for ⟦%user⟧.",),
        ),
        Syntax(
            "Qt placeholder",
            r"(?<![\w%])%(?:L?\d{1,2}|n)(?![\w%])",
            ("Copy ⟦%1⟧ to ⟦%L2⟧: ⟦%n⟧ file(s).",),
            ("More than 20 %, less than 30%.",),
        ),
        Syntax(
            "percent sign alone",
            r"%%(?!\w)|(?<!\d)(?<!\d\s)%(?!\w)",
            ("A lone ⟦%⟧ sign and ⟦%%⟧ here.",),
            ("But 5 % and 5% stay.",),
        ),
    ),
)

DOLLARS = Group(
    r"(?=[$])(?<!\w)",
    {"$": r"(?=[^\s\d.,]|\d[^$\n]{0,120}[\\^_=+*/<>{}-])"},
    (
        Syntax(
            "call after a dollar sign",
            r"\$(?:tc?|te)?\([^()\n]{0,100}\)",
            ("You have ⟦$t(items)⟧ and ⟦$(date)⟧ here.",),
            ("It costs $ (about) much.",),
        ),
        Syntax(
            "displayed formula",
            r"\$\$[^$]{1,300}\$\$",
            ("We know ⟦$$a + b = c$$⟧ and ⟦$$NAME$$⟧.",),
        ),
        Syntax(
            "formula",
            # A word of three letters or more is a command: `\alpha`.
            r"\$(?=\S)(?=[^$\n]{0,120}[\\^_=+*/<>{}-])"
            r"(?:\\[A-Za-z]++|[A-Za-z]{1,2}(?![A-Za-z])|\d|[^\w$\n\\]|_|\\[^\w\n]){1,120}"
            r"(?<![\sSR])\$(?!\w)|\$(?:[A-Za-z](?:\([^$()\n]{1,30}\))?|[A-Z_]{2,30})\$(?!\w)",
            (r"If ⟦$x^2$⟧ is ⟦$\alpha_1 + 2$⟧, then ⟦$n$⟧ and ⟦$NAME$⟧ in ⟦$O(n)$⟧.",),
            ("It costs $5-$10, or $5 and $6.", "It fell from $5+ to $3."),
        ),
        Syntax(
            "variable",
            r"\$(?:[A-Za-z_]\w*+(?:(?:->|\.)[a-z_]\w*+|\[\w{1,30}\])*+|[@?#*!](?!\w))",
            ("Read ⟦$y⟧ and ⟦$user->name⟧ from ⟦$HOME⟧ with ⟦$@⟧.",),
            ("It costs $5.", "He paid $6, or $7 more."),
        ),
    ),
)

SIGNED_NAMES = Group(
    r"(?=[@?#])(?<!\w)",
    {"@#": "", "?": r"(?=\+?[a-z])"},
    (
        Syntax(
            "linked message",
            r"@(?:\.\w{1,30})?:(?:\([\w.]{1,99}\)|\w[\w.]*(?<!\.))",
            ("Press ⟦@:common.ok⟧, ⟦@.lower:x⟧ or ⟦@:(menu.ok)⟧.",),
        ),
        Syntax(
            "Android resource",
            r"[@?]\+?(?:[a-z]{1,20}:)?[a-z]{1,20}/\w[\w.]*(?<!\.)",
            ("Use ⟦@string/app_name⟧ and ⟦?attr/colorPrimary⟧, ⟦@+id/button⟧.",),
            ("Is it hot?and/or cold?",),
        ),
        Syntax(
            "mention or hashtag",
            r"@@\w{1,99}@@|##\w{1,99}##|[#@]\w[\w-]*+",
            ("Ask ⟦@user⟧ or ⟦@@user@@⟧ about ⟦#tag⟧, ⟦##NAME##⟧ and ⟦#fff⟧.",),
        ),
    ),
)

_NAME = r"[A-Za-z][\w:.-]*+"
_ATTRIBUTE = (
    r"(?:[\w:@.#*()\[\]-]++\s{0,9}=\s{0,9}(?:\"[^\"<>]*+\"|'[^'<>]*+'|\{[^{}<>]*+\}|[^\s\"'<>=]++)"
    r"|(?:disabled|checked|required|selected|hidden|readonly|multiple|autofocus|async|defer|controls"
    r"|loop|muted|open|nowrap|novalidate|v-[\w-]++|[*#@:][\w.-]++)(?![\w=]))"
)

TAGS = Group(
    r"(?=<)",
    {"<": ""},
    (
        Syntax(
            "server tag",
            r"<%(?:[^%<]|%(?!>)){0,200}%>|<\?(?:[^?<]|\?(?!>)){0,200}\?>",
            ("Hello ⟦<%= name %>⟧ and ⟦<?php echo $x; ?>⟧.",),
        ),
        Syntax(
            "comment, CDATA and declaration",
            r"<!--[^<>]*-->|<!\[CDATA\[(?:[^\]<]|\](?!\]>)|<(?!!)){0,300}\]\]>"
            r"|<![A-Za-z][^<>]{0,200}>",
            ("A ⟦<!-- note -->⟧ and ⟦<![CDATA[x < y]]>⟧ of ⟦<!DOCTYPE html>⟧.",),
        ),
        Syntax(
            "tag with attributes",
            rf"<{_NAME}(?:\s++{_ATTRIBUTE})++\s*+/?>",
            (
                'Click ⟦<x id="1"/>⟧ or ⟦<a href="/x?a=b" title="A b">⟧here⟦</a>⟧.',
                'Use ⟦<input disabled>⟧, ⟦<li v-for="x in y">⟧ and ⟦<b class=c>⟧.',
            ),
            ("If a <b and c> d, then stop.", "The <b c> and <a href> are words."),
        ),
        Syntax(
            "tag",
            rf"(?<!<)<(?:{_NAME}|\d{{1,9}})\s{{0,9}}/?>(?!>)|</(?:{_NAME}|\d{{1,9}})\s{{0,9}}>",
            ("Click ⟦<b>⟧here⟦</b>⟧ or ⟦<1>⟧now⟦</1>⟧, ⟦<0/>⟧ and ⟦<my-component>⟧.",),
            ("She said: <<stop>> and <<stop right there>>.", "Take <the old house> and go."),
        ),
    ),
)

BRACKETS = Group(
    r"(?=[\[(\]])",
    {"[": "", "]": r"(?=[\[(])"},
    (
        Syntax(
            "target of a link",
            r"(?<=\])\((?:[^()\s]|\([^()\s]*\))+(?:\)|(?=\s(?:\"[^\"\n]*\"|'[^'\n]*')\)))"
            r"|(?<=\])\[[a-z0-9][a-z0-9._-]*\]",
            (
                "Read the [guide]⟦(docs/first-steps.md)⟧ and ![a house]⟦(house.png)⟧",
                'The [house]⟦(images/house.png⟧ "A house") of [a friend]⟦[friend]⟧',
                "The [river]⟦(river_(north))⟧ and [x]⟦(a⟧ 'title')",
            ),
            ("[Music] [yes](maybe no) and [a] (b)", '[no](all "names" here)'),
        ),
        Syntax(
            "link of a wiki",
            r"\[\[[^\[\]|\n]{1,100}(?:\]\]|\|(?=[^\[\]\n]{1,200}\]\]))|(?<=[^\s\]])\]\](?!\])",
            ("See ⟦[[Main Page]]⟧ and ⟦[[Main Page|⟧the first page⟦]]⟧.",),
        ),
        Syntax(
            "name in brackets",
            r"\[[A-Z]*[0-9_][A-Z0-9_]*\]|\[[%:$@#][^\[\]\n\s]{1,60}\]|\[\w{1,30}[.:][\w.:]{1,60}\]"
            r"|\[(?:your|user|first|last|site|order|post|page)-[a-z-]{1,30}\]|\[\(\w{1,30}\)\]",
            (
                "Hello ⟦[X7X]⟧ and ⟦[1]⟧ or ⟦[USER_NAME]⟧ of ⟦[%name%]⟧ on ⟦[site:name]⟧.",
                "Dear ⟦[your-name]⟧, use ⟦[(ngModel)]⟧.",
            ),
            ("[Music] [Applause] [sic] [the cat] [your name] [non-binding]",),
        ),
        Syntax(
            "mark in brackets",
            r"(?<!\S)\[[ xX]\](?=\s)"
            r"|\[(?:![A-Z]{3,12}|\^\w{1,20}|\.{3}|…|\^?(?:\w-\w){1,9})\][*+?]?",
            ("⟦[ ]⟧ Buy milk, ⟦[x]⟧ today ⟦[^1]⟧ with ⟦[a-z]+⟧ or ⟦[...]⟧ ⟦[!NOTE]⟧",),
        ),
        Syntax(
            "BBCode and shortcode",
            r"\[(?P<tag>b|i|u|s|url|img|code|quote|list|size|color|center|spoiler)\]"
            r"(?=[^\[\]\n]{0,200}\[/(?P=tag)\])|\[[a-z]{1,20}=[^\[\]\n]{1,200}\]"
            r"|\[[a-z][\w-]{0,30}(?:\s[\w-]{1,30}=\"[^\"\[\]]{0,100}\"){1,9}\s?/?\]|\[/[\w*]{1,20}\]",
            (
                "⟦[b]⟧bold⟦[/b]⟧ and ⟦[url=https://a.b]⟧a link⟦[/url]⟧",
                'See ⟦[gallery ids="1, 2"]⟧ here.',
            ),
            ("The [b] and the [list] are words.",),
        ),
    ),
)

_URL_END = r"[^\s<>\".,;:!?'()\[\]{}]"
_REST = r"(?:[^\s<>\"\[\]]|\[\w{0,40}\])*"

ADDRESSES = Group(
    WORD,
    {
        ":": "(?=//)|(?:(?<=localhost:)|(?<=mailto:)|(?<=tel:)|(?<=doi:)|(?<=arXiv:)|(?<=urn:)"
        r"|(?<=data:)|(?<=jdbc:)|(?<=magnet:))(?=\S)",
        "@": "",
        ".": rf"(?:(?<=www\.)|(?=(?:{_TOP_LEVEL}|{_EXTENSIONS}|go|rs|c|h)(?!\w)))",
        "/": r"(?:(?<=text/)|(?<=cation/)|(?<=image/)|(?<=audio/)|(?<=video/)|(?<=multipart/)"
        r"|(?<=10\.\d{4}/))",
    },
    (
        Syntax(
            "URL",
            rf"[a-z][a-z0-9+.-]{{1,20}}://(?:\[[\w:.]{{2,45}}\])?{_REST}{_URL_END}|(?:www\.|mailto:|tel:){_REST}{_URL_END}"
            rf"|(?:doi|arXiv|urn|data|jdbc|magnet):{_REST}{_URL_END}|localhost:\d{{1,5}}|10\.\d{{4}}/{_REST}{_URL_END}",
            (
                "See ⟦https://example.com/a?b=c⟧, ⟦s3://bucket/key⟧ or ⟦www.example.org⟧.",
                "Cite ⟦doi:10.1000/182⟧ and ⟦10.1234/a.b-1⟧, or ⟦mailto:ann@example.com⟧.",
            ),
            ("The data: they are new.",),
        ),
        Syntax(
            "e-mail address",
            r"(?<![.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+(?::[\w./-]{0,60}\w)?",
            ("Write to ⟦ann.o-b@example.co.uk⟧ or clone ⟦git@example.com:a/b.git⟧.",),
        ),
        Syntax(
            "domain",
            rf"(?<![.-])(?:[A-Za-z0-9-]+\.)+(?:{_TOP_LEVEL})(?:\.[a-z]{{2}})?"
            r"(?:/[\w./?=&#-]*\w)?(?!\w)",
            ("Go to ⟦example.com/a?b⟧ or ⟦terra.com.br⟧ now.",),
            ("The end.Now go.",),
        ),
        Syntax(
            "file name",
            rf"(?<![./@-])(?:[\w.@-]+/)*[\w-]+(?:\.[\w-]+)*?\.(?:{_EXTENSIONS})(?:\.\w{{1,4}})?(?![\w(-])"
            r"|(?<![./@-])(?:[\w-]+/)*\w{3,40}\.(?:go|rs|c|h)(?![\w(-]|\.\w)",
            ("Open ⟦README.md⟧, ⟦src/main.py⟧, ⟦a.tar.gz⟧ and ⟦main.c⟧.",),
            ("In 50 a.c. it was so, e.g. here.",),
        ),
        Syntax(
            "media type",
            r"(?:application/[a-z0-9.+-]+|text/(?:html|plain|css|csv|xml|javascript|markdown)"
            r"|image/(?:png|jpeg|gif|svg\+xml|webp)|audio/(?:mpeg|ogg|wav)|video/(?:mp4|webm)"
            r"|multipart/form-data)(?!\w)",
            ("Send ⟦application/json⟧ or ⟦text/html⟧.",),
            ("The audio/video text/image files.",),
        ),
    ),
)

PATHS = Group(
    r"(?=[~./\\])(?<![\w./\\])",
    {"~": r"(?=/)", "/": r"(?<!\w/)(?=[\w~.^])", "\\": "", ".": r"(?<![\w]\.)(?=\.?/)"},
    (
        Syntax(
            "path",
            r"~?/(?:[\w.@:-]+/)+(?:[\w.:-]*\w)?|(?<!\S)~?/[a-z~][\w.-]*\w(?!/)|~/"
            r"|\.{1,2}/(?:[\w./@-]*\w)?",
            ("Open ⟦./src/main.py⟧ and ⟦../lib/a.js⟧ in ⟦/usr/local/bin⟧ or ⟦~/notes⟧, ⟦/help⟧.",),
            ("Both and/or none, 5 km/h.",),
        ),
        Syntax(
            "path on a network", r"\\\\\w[\w.$-]*(?:\\[\w.$-]*[\w$])+", (r"Open ⟦\\server\share⟧.",)
        ),
    ),
)

DRIVES = Group(
    WORD,
    {":": r"(?=[\\/])"},
    (
        Syntax(
            "path on a drive",
            r"[A-Za-z]:\\(?:[\w.()-]+(?: [\w.()-]+){0,3}\\)*[\w\\.-]*|[A-Z]:/[\w./-]*\w",
            (r"At ⟦C:\temp⟧ or ⟦C:\Program Files\a.exe⟧, ⟦C:\\x⟧ and ⟦C:/x/y⟧.",),
        ),
    ),
)

_LATEX = (
    "alpha|beta|gamma|delta|epsilon|theta|lambda|frac|sqrt|nu|nabla|neq?|not|notin|newline|newcommand"
    "|noindent|num|ni|tau|text\\w*|times|tan|tilde|tiny|title|to|top|triangle|table\\w*|rho|right\\w*"
    "|rangle|ref|rm|nonumber|newpage|thispagestyle"
)

BACKSLASHES = Group(
    r"(?=\\)",
    {"\\": ""},
    (
        Syntax(
            "formula between backslashes",
            r"\\\((?:[^\\\n]|\\(?!\))){1,200}\\\)|\\\[(?:[^\\\n]|\\(?!\])){1,200}\\\]",
            (r"We know ⟦\(a + b\)⟧ and ⟦\[x^2 = \frac{1}{2}\]⟧.",),
        ),
        Syntax(
            "escape",
            r"\\(?:u\{?[0-9A-Fa-f]{4,6}\}?|x[0-9A-Fa-f]{2}|N|h(?![a-z])|[nrtbf0](?![A-Za-z])|[nrt](?=[A-Z])"
            rf"|(?!(?:{_LATEX})(?![a-z]))[nrt](?=[a-z])|[^\w\s(\[]|\d{{1,3}})",
            (r"One⟦\N⟧Two⟦\n⟧Three⟦\n⟧three ⟦\u00e9⟧ don⟦\'⟧t ⟦\%⟧ ⟦\1⟧",),
        ),
        Syntax(
            "command of LaTeX",
            r"\\(?:textbf|textit|emph|section|subsection|title|caption|chapter|footnote|underline"
            r"|texttt)\*?\{(?=[^{}]*\s)"
            r"|\\[A-Za-z]+\*?(?:\[[^\[\]\n\s]{0,50}\])?(?:\{[^{}\s]{0,60}\})*"
            r"(?:[_^](?:\{[^{}\s]{0,60}\}|\w))*",
            (
                r"If ⟦\alpha_1⟧ is ⟦\frac{a}{b}⟧, see ⟦\cite{smith2020}⟧ and ⟦\nu⟧.",
                r"A ⟦\textbf{⟧very old} house",
            ),
        ),
    ),
)


COLONS = Group(
    r"(?=[:;=&`^<¯])",
    {
        ":": r"(?<!\w:)(?=\S)|(?<=[a-z]:)(?=\w{1,30}:)",
        ";": r"(?<=\s;)(?=[^\s])",
        "&": r"(?=#?\w{1,30};)",
        "`": "",
        "=": r"(?<!\w=)(?=[^\s=\w])",
        "^": r"(?=\^|_)",
        "¯": "",
    },
    (
        Syntax(
            "code between backticks",
            r"```[^`]{1,500}```|``[^`'\n]+``|`(?!`)[^`\n]+`(?!`)",
            ("Run ⟦`make test`⟧ now",),
        ),
        Syntax(
            "entity",
            r"&(?:\w{1,30}|#\d{1,30}|#x[0-9A-Fa-f]{1,29});",
            ("Say ⟦&nbsp;⟧ twice, ⟦&#39;⟧.",),
        ),
        Syntax(
            "emoticon",
            r"(?<!\S)(?:[:;=]['’]?-?[()DPpOo/\\|*3\]\[]|\^_?\^|<3|¯\\_\(ツ\)_/¯)(?![\w(/])",
            ("I am happy ⟦;)⟧ and ⟦:-(⟧ here ⟦:D⟧ or ⟦^^⟧",),
            ("The following: (a) and (b).",),
        ),
        Syntax(
            "name after a colon",
            r"(?<!\S):::\s?[a-z]\w*|(?<![\w:]):[a-z+-][\w+-]*:(?![\w:])|(?<!\S)::?[a-z]+(?:[_-][a-z]+)*\b"
            r"|(?<!\S):[A-Z_]{2,}(?!\w)",
            ("Hello ⟦:name⟧ and ⟦:NAME⟧, ⟦:smile:⟧ ⟦::before⟧ ⟦:first_name⟧.",),
            ("At 10:30 the list: cats",),
        ),
    ),
)

# fmt: off
MARKUP = (
    BRACES, PERCENTS, DOLLARS, SIGNED_NAMES, TAGS, BRACKETS, ADDRESSES, DRIVES, PATHS, BACKSLASHES,
    COLONS,
)
# fmt: on
