"""Finds the attributes of HTML tags that people read, and puts their translations in their place.

The value of such an attribute has VALUE around it in the source of its tag. It is translated as a
text of its own.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape

from service.text.entities import unescaped
from service.text.letters import has_letters

# Character around a value. HTML does not allow it, so no tag contains it already.
VALUE = "\x1f"

# Source: HTML, attribute `translate` (translatable attributes), and WAI-ARIA.
_READ = frozenset(
    "alt title placeholder label summary aria-label aria-description aria-placeholder "
    "aria-roledescription aria-valuetext".split()
)
_BUTTONS = frozenset(("button", "submit", "reset"))

# Names of the `<meta>` elements whose `content` is read.
_DESCRIPTIONS = frozenset(
    "description og:title og:description og:image:alt twitter:title twitter:description "
    "twitter:image:alt".split()
)

_MARKED = re.compile(f"{VALUE}([^{VALUE}]*){VALUE}")


def read_attributes(tag: str, attributes: Mapping[str, str | None]) -> frozenset[str]:
    """Returns the names of the attributes of a tag that people read and that have letters.

    The value of `<input>` is the label of a button, or it is the text that a user may change. The
    value of `<button>` is not shown.
    """
    names = _READ.intersection(attributes)
    if tag == "meta":
        kinds = ((attributes.get(name) or "").lower() for name in ("name", "property"))
        names |= {"content"} if not _DESCRIPTIONS.isdisjoint(kinds) else set()
    if tag == "input" and (attributes.get("type") or "").lower() in _BUTTONS:
        names |= {"value"}
    return frozenset(name for name in names if has_letters(attributes.get(name) or ""))


def values_in(sources: Iterable[str]) -> list[str]:
    """Returns the different marked values in the sources of tags, without their quotes."""
    found = (value for source in sources for value in _MARKED.findall(source))
    return list(dict.fromkeys(map(_plain, found)))


def filled(text: str, translations: Mapping[str, str]) -> str:
    """Puts translations in place of the marked values. A value without one stays as it is."""

    def written(found: re.Match[str]) -> str:
        value = _plain(found[1])
        translation = translations.get(value, value)
        return found[1] if translation == value else f'"{escape(translation)}"'

    return _MARKED.sub(written, text)


def _plain(value: str) -> str:
    """Returns a value without its quotes and with decoded entities."""
    is_quoted = value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1
    return unescaped(value[1:-1] if is_quoted else value)
