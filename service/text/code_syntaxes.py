"""Tables of the spans of code: operators, options, identifiers, keys, commands, formulas."""

from service.text.signs import SCRIPTS
from service.text.syntaxes import Group


def _any(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_STOPS = _any(  # words of English and Portuguese that follow a command or a dash in a sentence
    "an?d? but or the then to in is it if of on no not so as at for from with before after first"
    " again which who that he she they we you this e mas ou os? as? que uma? ele ela em de se não"
    " sim para no na antes com"
)

_MAC = "⌘⌥⇧⌃⌤⎋⇥⌫⏎"

OPERATORS = Group(
    f"(?=[=!<>&|+*/:?~^{_MAC}-])",
    {
        "option": (
            rf"(?<![\w-])(?:--(?!{_STOPS}\b)[A-Za-z][\w-]*+(?:=[^\s\"'.,;]+)?"
            r"|(?<=[\w,;:(/\[] )-[A-Za-z](?![\w'’-])|(?<!\S)-(?![aeoiAEOI]\b)[A-Za-z](?![\w'’-]))"
        ),
        "keys of a Mac": rf"[{_MAC}]+(?: ?\+? ?[A-Z0-9](?!\w))?",
        "operator": (
            r"(?<!\S)(?:[=!]==?|[<>]=|&&|\|\|?|[-=]>|<-|:=|[-+*/%|]=|<=>|\?\?|\+\+|//|<<|>>|\*\*)"
            r"(?!\S)"
        ),
        "version": (
            r"(?<![\w<>=])(?:[<>=!~]=|===|[<>^~]|~>)\s?v?\d++(?:\.[\d*]+)*+(?:-[\w.]+)?"
            r"(?:,[<>=!~]{1,2}\d++(?:\.[\d*]+)*+)*+"
        ),
        "bar between texts": r"(?<=[\w.!?)}\]])\|(?=[\w\[{(%:])",
        "word after an exclamation mark": r"(?<!\S)![a-z]{3,20}(?!\w)",
        "name after an asterisk": r"(?<!\w)(?:\*ng[A-Z]\w*|\*{1,2}k?w?args\b|\*\.\w{1,10}(?!\w))",
        "times of cron": r"(?<!\S)(?=[\d/,-]{0,20}\*)(?:[\d*/,-]{1,20} ){4}[\d*/,-]{1,20}(?!\S)",
    },
)

_FUNCTIONS = _any(
    "rgba? hsla? calc var url sin cos tan log ln exp sqrt len print int str max min range O"
)
_ARGUMENT = r"(?:\"[^\"()\n]{0,60}\"|'[^'()\n]{0,60}'|[\w.$=-]{1,40})"
_ARGUMENTS = rf"\((?:{_ARGUMENT}(?:, ?{_ARGUMENT}){{0,9}})?\)"
_NAME = r"[A-Za-z_][\w:]{0,60}"
_NO_TAG = rf"(?!/?{_any('b i u s p a em strong su[bp] br span div code small mark q li td x g')}\b)"

CALLS = Group(
    r"(?=[\w.:]{0,250}+(?:[(<]|->)|\w++::)",
    {
        "call": (
            rf"(?<![.:])[A-Za-z_][\w.:]{{0,80}}\(\)(?:\.\w{{1,40}}{_ARGUMENTS}){{0,5}}"
            r"|(?<![.:])[\w.]{1,60}(?:\(\"[^\"\n]{0,80}\"\)|\('[^'\n]{0,80}'\))"
            rf"|(?<!\.)(?:\w{{1,40}}\.){{1,5}}\w{{1,40}}{_ARGUMENTS}|{_FUNCTIONS}\([^()\n]{{1,60}}\)"
            r"|[fghFGPpT]\([xytnkzijuv](?:, ?[xytnkzijuv])?\)"
        ),
        "generic type": (
            rf"(?<!:){_NAME}<{_NO_TAG}{_NAME}(?:[*&?]|\[\])?(?:, ?{_NAME}(?:<\w{{1,40}}>)?){{0,5}}"
            r"(?:<[\w, ]{1,60}>)?>"
        ),
        "name in a scope": r"(?<!:)\w{1,60}(?:::\w{1,60})+|\w{1,60}->\w{1,60}(?:\(\))?",
    },
    in_word=True,
)

_SIDES = (
    "top bottom left right width height size weight family style color radius align decoration"
    " transform image direction wrap content items self spacing index sizing shadow space break"
    " position repeat flow fit"
)
_CSS = (
    _any(
        "margin padding border font text background flex grid align justify line letter word list"
        " box min max overflow object white z outline"
    )
    + rf"-{_any(_SIDES + ' x y')}(?:-\w+)?(?![\w-])"
)
_HEADERS = (
    r"(?:X-[A-Z][\w-]*|Content-(?:Type|Length|Encoding|Disposition)|Cache-Control|User-Agent"
    "|Set-Cookie|Accept-(?:Language|Encoding))"
)
_DIRECTIVE = r"v-(?:if|else(?:-if)?|for|show|model|bind|on|html|text)(?::[\w.-]+)?(?![\w-])"

IDENTIFIERS = Group(
    r"(?=[\w.-]{0,61}+(?:[\[=+#^]|[<>~!]=)|[^\W_]*+[_-]|0[xX]|[A-Za-z]++\.\w)",
    {
        "requirement": (
            r"(?<!-)[\w-]{1,60}(?:\[[\w,]{1,60}\])?(?:[<>=~!]=|===)\d(?:[\w.*]{0,40}[\w*])?"
        ),
        "assignment": (
            r"(?<![.-])[A-Za-z_][\w.-]{0,60}=(?:\"[^\"\n]{0,80}\"|'[^'\n]{0,80}'"
            r"|[^\s\"'=<>,;()]{1,80}(?<![.!?]))"
        ),
        "name with signs": (
            r"[A-Za-z]+\.NET(?!\w)|(?:this|self)\.\w{1,60}|[A-Za-z]\w{0,20}\+\+(?!\w)|[CFJ]#(?!\w)"
            r"|0[xX][0-9A-Fa-f]+|U\+[0-9A-F]{4,6}"
        ),
        "element of a list": (
            r"[A-Za-z_]\w{0,60}(?:\[(?:0|-1|[ijkn]|\"\w{1,60}\"|'\w{1,60}')\])+(?!\w)"
        ),
        "name with hyphens": (
            rf"{_CSS}(?:: [\w#%.-]*\w)?|(?:my|btn|bg|col|ng|mat)-[a-z]+(?:-[a-z]+)*|{_DIRECTIVE}"
            rf"|data-[a-z]+(?:-[a-z]+)*(?=[=\]])|aria-[a-z]+|{_HEADERS}"
        ),
        "blank to fill in": r"_{2,}+(?:[/.-]_{2,40})*+(?!\w)",
        "underscore of a key": r"_(?=[A-Z][a-z]++(?!\w))",
        "name with underscores": r"_*[^\W_]+(?:_+[^\W_]+)+_*\b|__\w+__\b",
        "power": r"[A-Za-z0-9]{1,3}\^(?:\{[^{}\n]{1,40}\}|-?\w+)",
    },
    in_word=True,
)

_SPACED = (
    r"(?:[=!]==?|[<>]=|&&|(?<=[A-Za-z] )&(?= [A-Za-z])|\|\|?|[-=]>|<-|:=|<=>|<<|>>"
    r"|[=<>→⇒↔≠≤≥≈∈×÷±·∪∩∧∨⊂⊆])"
)
_TIGHT = r"(?:[<>](?=\w++(?![\w>]))|[=!]==?|[<>]=|&&|\|\||[-=]>|[=→⇒≠≤≥≈×÷±·*∪∩∧∨])"
_OPERAND = rf"(?:[A-Za-z]{{1,2}}[{SCRIPTS}]{{1,9}}|[A-Za-z]|\d{{1,15}}(?:[.,]\d{{1,15}})?)"

FORMULAS = Group(
    rf"(?=[A-Za-z](?!\w)|[A-Za-z]{{0,2}}[\d{SCRIPTS}])",
    {"comparison": rf"{_OPERAND}(?:(?: {_SPACED} |{_TIGHT}){_OPERAND}){{1,6}}(?!\w)"},
    in_word=True,
)

_MODIFIER = _any("Ctrl CTRL Control Alt ALT AltGr Shift SHIFT Cmd Command Option Meta Win Fn Strg")
_KEY = (
    rf"(?:{_MODIFIER}|F\d{{1,2}}|Page ?(?:Up|Down)|(?:Arrow ?)?(?:Up|Down|Left|Right)"
    r"|Del(?:ete)?|Ins(?:ert)?|Esc(?:ape)?|Enter|Return|Tab|Space|Home|End|PgUp|PgDn|Backspace"
    r"|[A-Za-z0-9]|[^\w\s])(?!\w)"
)

DOTS = Group(
    r"(?=\.)",
    {
        "name after a dot": r"(?<![\w.)\]])\.(?:NET|[a-z][\w-]*)(?:\.\w+)*(?!\w)",
        "dots": r"\.{4,}",
    },
)

# An article before one of these names makes a noun of it: `The cargo update came late`.
_INSTALLERS = (
    r"(?:pip3?|p?npm|apt(?:-get)?|conda"
    r"|(?<!\b[Tt]he )(?<!\b[Aa] )(?:yarn|cargo|brew|gem|composer))"
)
_INSTALLS = _any("install uninstall add remove run i update upgrade")
_TOOLS = _any("git docker kubectl helm systemctl")
_ACTIONS = _any(
    "clone commit push pull checkout add fetch merge rebase status log diff init stash branch run"
    " build exec compose ps images apply describe install start stop restart upgrade uninstall"
    " create delete get logs rollout enable disable"
)
_PROGRAMS = _any("ls rm cp mv tar grep ps chmod ssh curl wget cat mkdir sudo cd make python3?")
_FLAGS = r"(?: --?[\w=-]+)*"
# Inside a sentence, these words may be prose: `taxes from china import duties`.
_IMPORTS = (
    rf"(?<!\w )(?:import [a-z_][\w.]* as (?!{_STOPS}\b)[a-z]{{1,3}}(?!\w)"
    r"|from [a-z_.]+ import [a-z_]\w*)"
    r"|import [a-z_][\w.]* as (?:np|pd|plt|tf|sns|nx)(?!\w)"
)

_CLAUSES = _any("SELECT WHERE HAVING JOIN UNION UPDATE DELETE INSERT DISTINCT")
_CONDITION = (
    r"\s(?:WHERE|AND|OR|ORDER\sBY|GROUP\sBY|LIMIT|ON|(?:LEFT\s|INNER\s)?JOIN)\s[\w.\"`*]{1,60}"
    r"(?:\s?[=<>]{1,2}\s?[\w.'%\"]{1,60}|\sLIKE\s'[^'\n]{0,60}'|\s(?:ASC|DESC))?"
)

COMMANDS = Group(
    "(?=[A-Za-z])",
    {
        "keys pressed together": rf"{_MODIFIER}(?:(?: ?\+ ?|-){_KEY}){{1,4}}",
        "command": (
            rf"{_IMPORTS}|(?:sudo )?{_INSTALLERS} {_INSTALLS}{_FLAGS}"
            rf"(?: (?!{_STOPS}\b)[\w@/.:\[\]<>=~^*-]*\w\]?)?(?!\w)"
            rf"|(?:sudo )?{_TOOLS} {_ACTIONS}(?: up| down| origin \w+){{0,1}}(?![\w-]){_FLAGS}"
            rf"|npx [\w@/-]+|{_PROGRAMS}(?: --?[\w=-]+)+"
        ),
        "query": (
            r"SELECT\s[^.;!?\n]{1,200}?\sFROM\s(?![A-Z]{2})[\w.\"`]+"
            rf"(?:{_CONDITION}){{0,9}};?"
            r"|INSERT INTO \w+(?: ?\([\w, ]{1,200}\))?(?: VALUES ?\([^()\n]{1,200}\))?"
            r"|DELETE FROM \w+|(?:CREATE|DROP|ALTER) TABLE(?: [a-z_]\w*)?"
            rf"|{_CLAUSES}(?= (?:statement|clause|query|keyword|command)s?\b)"
            rf"|(?<=cláusula ){_CLAUSES}"
        ),
        # a normaliser makes `n.o` of it, and a model puts a word between it and its number
        "number sign": r"[Nn](?:\.º\s?\d++(?:[./-]\d++)*|\.ºs(?=\s?\d)|º\s?\d++(?:[./-]\d++)+)",
        "words of a query": (
            r"(?:GROUP|ORDER) BY(?! [A-Z]{2})|(?:LEFT|RIGHT|INNER|OUTER|CROSS) JOIN|NOT NULL"
            r"|(?:PRIMARY|FOREIGN) KEY|VARCHAR(?:\(\d+\))?"
        ),
        "request": r"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) (?:https?:/)?/[^\s,;]*(?<![.!?])",
    },
    in_word=True,
)

CODE = (FORMULAS, COMMANDS, CALLS, IDENTIFIERS, DOTS, OPERATORS)

# Each command or query without a sign has one of these words.
WORDS = (
    *(f"{word} " for word in "pip pip3 npm yarn cargo apt apt-get brew gem conda composer".split()),
    *(f"{word} " for word in "git docker kubectl helm systemctl npx import".split()),
    *("SELECT", "WHERE", " JOIN", " TABLE", "NOT NULL", " BY ", "INSERT INTO", " KEY"),
)
