"""The elements of HTML, by their role in a sentence, and the parser of HTML texts."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from lxml import html

from service.errors import InvalidRequestError

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark math meter nobr "
    "output progress q ruby s samp small span strike strong sub sup svg time tt u var wbr".split()
)
"""Elements inside a sentence. All elements outside INLINE and OPAQUE end a sentence."""

OPAQUE = frozenset(
    "code kbd samp var math svg script style textarea pre noscript template object iframe".split()
)
"""Elements whose content is not translated. Of these, `script` and `style` end a sentence."""

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements without an end tag."""

CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML does not allow."""

MAX_ATTRIBUTES = 1_000
"""Largest number of attributes of a tag. The parser compares each attribute with all others."""

_VALUE = r"""=\s*+(?:"[^"]*+"|'[^']*+')"""
_START_TAG = re.compile(
    rf"""
      <!--.*?(?:-->|\Z)
    | <(?:(?P<raw>script|style|textarea)\b|[a-z])
      (?P<attributes>(?: [^>"'=]++ | {_VALUE} | [="'] )*+)
      (?(raw).*?(?:</(?P=raw)\b|\Z))
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""A start tag, with the content of an element whose content is not HTML; or a comment."""

_SEPARATOR = re.compile(rf"{_VALUE}|[\s/]+")

_REFERENCE = re.compile(r"&#(?:[0-9]+|[xX][0-9a-fA-F]+);?")
_TOO_LARGE = re.compile(r"&#(?:0*+[0-9]{8,}|[xX]0*+[0-9a-fA-F]{7,});?")


def unescaped(text: str) -> str:
    """Returns a text with decoded entities. A number beyond Unicode becomes U+FFFD.

    `html.unescape` fails on numbers of more than 4,300 digits.
    """
    return unescape(_TOO_LARGE.sub("\ufffd", text))


def without_controls(text: str) -> str:
    """Returns a text without the characters that XML does not allow, and their references."""

    def kept(reference: re.Match[str]) -> str:
        return "" if CONTROLS.match(unescaped(reference[0]) or "\0") else reference[0]

    return _REFERENCE.sub(kept, CONTROLS.sub("", text))


def check_attributes(text: str) -> None:
    """Refuses a text if one of its tags has more than MAX_ATTRIBUTES attributes."""
    for tag in _START_TAG.finditer(text):
        attributes = tag["attributes"] or ""
        if len(attributes) > MAX_ATTRIBUTES:
            number = len([*filter(None, _SEPARATOR.split(attributes))])
            if number > MAX_ATTRIBUTES:
                raise InvalidRequestError(
                    f"Invalid request: a tag has {number} attributes; the limit is "
                    f"{MAX_ATTRIBUTES}. Remove some of them"
                )


def parse_fragment(text: str, parser: Any) -> Any:
    """Returns a `body` with the content of an HTML fragment. Malformed HTML is repaired.

    `lxml.html.fragment_fromstring` would drop white space at the start of a fragment, and the head
    of a fragment that begins with a doctype.

    Args:
        text: The fragment. It has no characters that XML does not allow (`without_controls`).
        parser: A parser from `new_parser`. Elements that are nested more than about 2,000 levels
            deep are left out; the parser's log then has a fatal error.

    Raises:
        etree.ParserError: The parser refuses the text.
        etree.XMLSyntaxError: The parser refuses the text.
    """
    return html.document_fromstring(f"<html><body>{text}</body></html>", parser=parser).find("body")


def is_untranslated(attributes: Mapping[str, str | None]) -> bool:
    """Returns whether an element's attributes say that its content is not translated.

    Source: HTML, attribute `translate`; DeepL and browsers also respect the class `notranslate`.
    """
    classes = (attributes.get("class") or "").split()
    return attributes.get("translate") == "no" or "notranslate" in classes


def new_parser() -> Any:
    """Returns a parser of lxml for one text."""
    # By default, the parser would lose text that is nested more than 256 levels deep, and it would
    # add a doctype to a document.
    return html.HTMLParser(huge_tree=True, default_doctype=False)
