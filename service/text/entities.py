"""Reads the entities of HTML: `&amp;`, `&#233;`, `&nbsp;`."""

import re
from html import unescape
from html.entities import html5

_TOO_LARGE = re.compile(r"&#(?:0*+[0-9]{8,}|[xX]0*+[0-9a-fA-F]{7,});?")

# Sections and comments of XML, in which `&` is plain text, and named entities.
_NAMED = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|&([a-zA-Z][a-zA-Z0-9]*+);", re.DOTALL
)

# The entities that XML itself declares.
_XML = frozenset(("amp", "lt", "gt", "quot", "apos"))


def unescaped(text: str) -> str:
    """Returns a text with decoded entities. A number beyond Unicode becomes U+FFFD.

    `html.unescape` fails on numbers of more than 4,300 digits.
    """
    return unescape(_TOO_LARGE.sub("\ufffd", text)) if "&" in text else text


def named_entities(text: str) -> dict[int, str]:
    """Maps each character that an XML text writes as a named entity of HTML to this entity.

    ASCII characters, such as the comma in `&comma;`, are left out.
    """
    if "&" not in text:
        return {}
    names = dict.fromkeys(found[1] for found in _NAMED.finditer(text) if found[1])
    characters = ((html5.get(f"{name};", ""), name) for name in names if name not in _XML)
    return {ord(char): f"&{name};" for char, name in characters if len(char) == 1 and char > "\x7f"}
