"""Tables of the spans that a model must not change: one row for each syntax.

This module has templates, placeholders, markup and addresses. `code_syntaxes` has code, and
`values` has numbers. `tests/protected_spans.py` has sentences with spans of each row.

All rows are compiled into one expression. Rows that begin alike are a group, which is left out
where its own short condition is false. The search takes linear time, because each repetition is
possessive, has a limit, or stops at a character with which the pattern begins.
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


@dataclass(frozen=True, slots=True)
class Group:
    """Rows whose spans begin alike.

    Attributes:
        first: Pattern without width that is true where a span may begin. It is fast.
        rows: Pattern of each syntax.
        in_word: Whether spans begin with a letter, a digit or `_`, at the start of a word.
    """

    first: str
    rows: dict[str, str]
    in_word: bool = False

    @property
    def pattern(self) -> str:
        return f"{self.first}(?:{'|'.join(self.rows.values())})"


def compiled(groups: Sequence[Group]) -> re.Pattern[str]:
    in_words = "|".join(group.pattern for group in groups if group.in_word)
    others = "|".join(group.pattern for group in groups if not group.in_word)
    return re.compile(rf"(?=[^\w\s,'\"])(?:{others})|(?<!\w)(?=\w)(?:{in_words})")


_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_AFTER_BRACE = _BRACES.removeprefix(r"\{")
_TOKEN = r"""(?:"[^"{}\n]*+"|'[^'{}\n]*+'|[^\s{}"',;|]++)"""
_KEY = r"[\w$.-]++\s{0,9}[:=|]\s{0,9}"

BRACES = Group(
    r"(?=[$#%@]?\{)",
    {
        "template tag": r"\{\{\{[^{}]*\}\}\}|\{\{[^{}]*\}\}|\{%[^{}]*%\}|\{#[^{}]*#\}",
        "ICU message": (
            r"\{(?=\s{0,9}[\w.-]{1,99}\s{0,9},\s{0,9}(?:plural|select|selectordinal|number|date"
            rf"|time|choice|spellout|ordinal|duration|list)\b){_AFTER_BRACE}"
        ),
        "expression": rf"[$#%@]{_BRACES}",
        "placeholder": r"\{(?:[^{}\s]*+|\s{1,9}[\w.$\[\]()'-]++\s{1,9})\}",
        "format": r"\{[\w.\[\]]*+:(?=[^\s{}])[^{}\n]{1,60}\}",
        "JSON, styles and filters": (
            rf"\{{(?=\s{{0,9}}[\"']){_AFTER_BRACE}"
            rf"|\{{\s{{0,9}}{_KEY}{_TOKEN}(?:\s{{0,9}}[,;|]\s{{0,9}}(?:{_KEY})?{_TOKEN})*+"
            r"\s{0,9};?\s{0,9}\}"
        ),
        "block in braces": r"\{[#/@:^>~*\\$][^{}\n]{0,200}\}",
        "set of symbols": r"\{(?:[^{}\w\n]|\d++|\w{1,2}(?!\w)){1,99}\}",
    },
)

# After a digit, the sign belongs to a share: `50%`.
_PERCENT = r"(?<![\w%])(?<!\d\s)"

PERCENTS = Group(
    r"(?=%)",
    {
        "date pattern": (
            r"(?<![\w%])(?=(?:%-?[A-Za-z][-/:.,T ]{0,2}){0,6}%-?[YmHMyBbAI])"
            r"%-?[YmdHMSyjUWBbAaIpZz](?:[-/:.,T]? ?%-?[YmdHMSyjUWBbAaIpZz])++(?!\w)"
        ),
        "printf": (
            r"(?<!\w)(?:%[0-9A-F]{2}){2,99}(?!\w)|(?<![\d%])%(?:\(\w{1,99}\)|\d{1,3}\$|<\w{1,99}>)?[-+0#']*+(?:\d*+|\*)"
            r"(?:\.(?:\d++|\*))?(?:hh?|ll?|[LzjtqI]|I64)?[diouxXeEfFgGcCrsSaAp@](?![A-Za-z])"
            r"|(?<![\d%])%(?:\d{1,3}\$)?#@\w{1,99}@"
        ),
        "name between percent signs": rf"(?<![\w%])%%?[A-Za-z_]\w*+%%?(?!\w)|{_PERCENT}%[a-z_]\w++",
        "Qt placeholder": r"(?<![\w%])%(?:L?\d{1,2}|n)(?![\w%])",
        "percent sign alone": r"%%(?!\w)|(?<!\d)(?<!\d\s)%(?!\w)",
    },
)

SIGNED_NAMES = Group(
    r"(?=[$@?#])(?<!\w)",
    {
        "call after a dollar sign": r"\$(?:tc?|te)?\([^()\n]{0,100}\)",
        "displayed formula": r"\$\$[^$]{1,300}\$\$",
        # A word of three letters or more is a command: `\alpha`.
        "formula": (
            r"\$(?=\S)(?=[^$\n]{0,120}[\\^_=+*/<>{}-])"
            r"(?:\\[A-Za-z]++|[A-Za-z]{1,2}(?![A-Za-z])|\d|[^\w$\n\\]|_|\\[^\w\n]){1,120}"
            r"(?<![\sSR])\$(?!\w)|\$(?:[A-Za-z](?:\([^$()\n]{1,30}\))?|[A-Z_]{2,30})\$(?!\w)"
        ),
        "variable": r"\$(?:[A-Za-z_]\w*+(?:(?:->|\.)[a-z_]\w*+|\[\w{1,30}\])*+|[@?#*!](?!\w))",
        "linked message": r"@(?:\.\w{1,30})?:(?:\([\w.]{1,99}\)|\w[\w.]*(?<!\.))",
        "Android resource": r"[@?]\+?(?:[a-z]{1,20}:)?[a-z]{1,20}/\w[\w.]*(?<!\.)",
        "mention or hashtag": r"@@\w{1,99}@@|##\w{1,99}##|[#@]\w[\w-]*+",
    },
)

_NAME = r"[A-Za-z][\w:.-]*+"
_ATTRIBUTE = (
    r"(?:[\w:@.#*()\[\]-]++\s{0,9}=\s{0,9}(?:\"[^\"<>]*+\"|'[^'<>]*+'|\{[^{}<>]*+\}|[^\s\"'<>=]++)"
    r"|(?:disabled|checked|required|selected|hidden|readonly|multiple|autofocus|async|defer|controls"
    r"|loop|muted|open|nowrap|novalidate|v-[\w-]++|[*#@:][\w.-]++)(?![\w=]))"
)

TAGS = Group(
    r"(?=<)",
    {
        "server tag": r"<%(?:[^%<]|%(?!>)){0,200}%>|<\?(?:[^?<]|\?(?!>)){0,200}\?>",
        "comment, CDATA and declaration": (
            r"<!--[^<>]*-->|<!\[CDATA\[(?:[^\]<]|\](?!\]>)|<(?!!)){0,300}\]\]>"
            r"|<![A-Za-z][^<>]{0,200}>"
        ),
        "tag with attributes": rf"<{_NAME}(?:\s++{_ATTRIBUTE})++\s*+/?>",
        "tag": rf"(?<!<)<(?:{_NAME}|\d{{1,9}})\s{{0,9}}/?>(?!>)|</(?:{_NAME}|\d{{1,9}})\s{{0,9}}>",
    },
)

BRACKETS = Group(
    r"(?=[\[(\]])",
    {
        "target of a link": (
            r"(?<=\])\((?:[^()\s]|\([^()\s]*\))+(?:\)|(?=\s(?:\"[^\"\n]*\"|'[^'\n]*')\)))"
            r"|(?<=\])\[[a-z0-9][a-z0-9._-]*\]"
        ),
        "link of a wiki": (
            r"\[\[[^\[\]|\n]{1,100}(?:\]\]|\|(?=[^\[\]\n]{1,200}\]\]))|(?<=[^\s\]])\]\](?!\])"
        ),
        "name in brackets": (
            r"\[[A-Z]*[0-9_][A-Z0-9_]*\]|\[[%:$@#][^\[\]\n\s]{1,60}\]|\[\w{1,30}[.:][\w.:]{1,60}\]"
            r"|\[(?:your|user|first|last|site|order|post|page)-[a-z-]{1,30}\]|\[\(\w{1,30}\)\]"
        ),
        "mark in brackets": (
            r"(?<!\S)\[[ xX]\](?=\s)"
            r"|\[(?:![A-Z]{3,12}|\^\w{1,20}|\.{3}|…|\^?(?:\w-\w){1,9})\][*+?]?"
        ),
        "BBCode and shortcode": (
            r"\[(?P<tag>b|i|u|s|url|img|code|quote|list|size|color|center|spoiler)\]"
            r"(?=[^\[\]\n]{0,200}\[/(?P=tag)\])|\[[a-z]{1,20}=[^\[\]\n]{1,200}\]"
            r"|\[[a-z][\w-]{0,30}(?:\s[\w-]{1,30}=\"[^\"\[\]]{0,100}\"){1,9}\s?/?\]|\[/[\w*]{1,20}\]"
        ),
    },
)

_URL_END = r"[^\s<>\".,;:!?'()\[\]{}]"
_REST = r"(?:[^\s<>\"\[\]]|\[\w{0,40}\])*"

ADDRESSES = Group(
    r"(?=\w++(?:[.:/@]\S|[+-]))",
    {
        "URL": (
            rf"[a-z][a-z0-9+.-]{{1,20}}://(?:\[[\w:.]{{2,45}}\])?{_REST}{_URL_END}|(?:www\.|mailto:|tel:){_REST}{_URL_END}"
            rf"|(?:doi|arXiv|urn|data|jdbc|magnet):{_REST}{_URL_END}|localhost:\d{{1,5}}|10\.\d{{4}}/{_REST}{_URL_END}"
        ),
        "e-mail address": r"(?<![.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+(?::[\w./-]{0,60}\w)?",
        "domain": (
            rf"(?<![.-])(?:[A-Za-z0-9-]+\.)+(?:{_TOP_LEVEL})(?:\.[a-z]{{2}})?"
            r"(?:/[\w./?=&#-]*\w)?(?!\w)"
        ),
        "file name": (
            rf"(?<![./@-])(?:[\w.@-]+/)*[\w-]+(?:\.[\w-]+)*?\.(?:{_EXTENSIONS})(?:\.\w{{1,4}})?(?![\w(-])"
            r"|(?<![./@-])(?:[\w-]+/)*\w{3,40}\.(?:go|rs|c|h)(?![\w(-]|\.\w)"
        ),
        "media type": (
            r"(?:application/[a-z0-9.+-]+|text/(?:html|plain|css|csv|xml|javascript|markdown)"
            r"|image/(?:png|jpeg|gif|svg\+xml|webp)|audio/(?:mpeg|ogg|wav)|video/(?:mp4|webm)"
            r"|multipart/form-data)(?!\w)"
        ),
        "path on a drive": (
            r"[A-Za-z]:\\(?:[\w.()-]+(?: [\w.()-]+){0,3}\\)*[\w\\.-]*|[A-Z]:/[\w./-]*\w"
        ),
    },
    in_word=True,
)

PATHS = Group(
    r"(?=[~./\\])(?<![\w./\\])",
    {
        "path": (
            r"~?/(?:[\w.@:-]+/)+(?:[\w.:-]*\w)?|(?<!\S)~?/[a-z~][\w.-]*\w(?!/)|~/"
            r"|\.{1,2}/(?:[\w./@-]*\w)?"
        ),
        "path on a network": r"\\\\\w[\w.$-]*(?:\\[\w.$-]*[\w$])+",
    },
)

_LATEX = (
    "alpha|beta|gamma|delta|epsilon|theta|lambda|frac|sqrt|nu|nabla|neq?|not|notin|newline|newcommand"
    "|noindent|num|ni|tau|text\\w*|times|tan|tilde|tiny|title|to|top|triangle|table\\w*|rho|right\\w*"
    "|rangle|ref|rm|nonumber|newpage|thispagestyle"
)

BACKSLASHES = Group(
    r"(?=\\)",
    {
        "formula between backslashes": (
            r"\\\((?:[^\\\n]|\\(?!\))){1,200}\\\)|\\\[(?:[^\\\n]|\\(?!\])){1,200}\\\]"
        ),
        "escape": (
            r"\\(?:u\{?[0-9A-Fa-f]{4,6}\}?|x[0-9A-Fa-f]{2}|N|h(?![a-z])|[nrtbf0](?![A-Za-z])|[nrt](?=[A-Z])"
            rf"|(?!(?:{_LATEX})(?![a-z]))[nrt](?=[a-z])|[^\w\s(\[]|\d{{1,3}})"
        ),
        "command of LaTeX": (
            r"\\(?:textbf|textit|emph|section|subsection|title|caption|chapter|footnote|underline"
            r"|texttt)\*?\{(?=[^{}]*\s)"
            r"|\\[A-Za-z]+\*?(?:\[[^\[\]\n\s]{0,50}\])?(?:\{[^{}\s]{0,60}\})*"
            r"(?:[_^](?:\{[^{}\s]{0,60}\}|\w))*"
        ),
    },
)


COLONS = Group(
    r"(?=[:;=&`^<¯])",
    {
        "code between backticks": r"```[^`]{1,500}```|``[^`'\n]+``|`(?!`)[^`\n]+`(?!`)",
        "entity": r"&(?:\w{1,30}|#\d{1,30}|#x[0-9A-Fa-f]{1,29});",
        "mark of a key": r"(?<![\w&;])&(?=[A-Za-z])",
        "emoticon": r"(?<!\S)(?:[:;=]['’]?-?[()DPpOo/\\|*3\]\[]|\^_?\^|<3|¯\\_\(ツ\)_/¯)(?![\w(/])",
        "name after a colon": (
            r"(?<!\S):::\s?[a-z]\w*|(?<![\w:]):[a-z+-][\w+-]*:(?![\w:])|(?<!\S)::?[a-z]+(?:[_-][a-z]+)*\b"
            r"|(?<!\S):[A-Z_]{2,}(?!\w)"
        ),
    },
)

MARKUP = (BRACES, PERCENTS, SIGNED_NAMES, TAGS, BRACKETS, ADDRESSES, PATHS, BACKSLASHES, COLONS)
