"""Reads and writes XLIFF 1 and 2 (.xlf, .xliff).

If a unit has no translation, or if its state is in OPEN_STATES, its source is copied into the
target with all inline elements. The text of the target is then translated. Other units stay as they
are, and so do units that are marked `translate="no"`.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import partial

from lxml import etree

from service.documents.base import DocumentError
from service.documents.html import with_markup
from service.documents.inline import SPACE, BlockReader, Role
from service.documents.tagged import Block, Element, local_name
from service.documents.xml_files import XmlDocument, XmlParser

# Inline elements without words. An element contains a code, such as a tag of another format, or is
# empty and only stands for a code.
NATIVE = frozenset("bpt ept ph it x bx ex sc ec cp sm em".split())

# Elements of NATIVE that mark where formatting starts or ends.
PAIRED = frozenset("bpt ept it bx ex sc ec sm em".split())

_PLACEHOLDER = re.compile(r"\s*[{$%#@]")

# The text and the type of a code that formats the text around it, or that breaks a line.
_TAG = re.compile(r"\s*(?:<.*>|\\[nrt]|\[/?[a-z]+\])\s*", re.DOTALL | re.IGNORECASE)
_TAG_TYPE = re.compile(
    r"(?:x-)?(?:html-)?(?:fmt|lb|pb|bold|italic|underlined|strong|em|b|i|u|br|a|span|link|image|img)"
)
_TAG_ID = re.compile(r"(?:START|CLOSE|TAG)_.*|LINE_BREAK")  # Source: Angular, message placeholders

# The nearest attribute `translate`.
_TRANSLATE = etree.XPath("string(ancestor-or-self::*[@translate != ''][1]/@translate)")

# States in which a target is translated even if it already has a text.
OPEN_STATES = frozenset(("new", "initial", "needs-translation"))


def read_xliff(data: bytes) -> XmlDocument:
    root = XmlParser().parse(data, "the file")
    version = root.get("version", "")
    if local_name(root) != "xliff" or version[:2] not in ("1.", "2."):
        raise DocumentError("the file is not XLIFF 1 or 2: its root must be <xliff version=…>")
    unit = "trans-unit" if version.startswith("1.") else "segment"
    codes = _original_codes(root)
    blocks: list[Block] = []
    for each in [*root.iter(f"{{*}}{unit}")]:
        if _TRANSLATE(each) != "no" and (target := _new_target(each)) is not None:
            role = partial(_role, codes=codes.get(each.getparent(), {}))
            blocks += map(with_markup, BlockReader(role).read(target))
    return XmlDocument(root, blocks, _set_language, data)


def _original_codes(root: Element) -> dict[Element, dict[str, str]]:
    """Returns the codes of each unit of XLIFF 2, by their ids."""
    return {
        group.getparent(): {
            data.get("id", ""): "".join(data.itertext()) for data in group.iter("{*}data")
        }
        for group in root.iter("{*}originalData")
    }


def _role(element: Element, codes: Mapping[str, str]) -> Role:
    name = local_name(element)
    if name in NATIVE:
        if _is_placeholder(element, codes):
            return Role.KEPT
        return Role.MARK if name in PAIRED else Role.EMPTY
    is_protected = element.get("mtype") == "protected" or element.get("translate") == "no"
    if name == "mrk" and is_protected:
        return Role.KEPT
    return Role.APART if name == "sub" else Role.WORDS


def _is_placeholder(element: Element, codes: Mapping[str, str]) -> bool:
    """Reports whether an element stands for words, such as `{name}`, and not for a tag.

    `<x>` and `<ph>` stand for words unless their code or their type is that of a tag. One without
    code and type does not stand for a word if it touches a word, as in `<x id="1"/>bold`.
    """
    shown, types, ids = (
        [element.get(name, "") for name in names]
        for names in (("equiv-text", "equiv", "disp"), ("ctype", "type"), ("id", "equiv"))
    )
    shown += (element.text or "", codes.get(element.get("dataRef", ""), ""))
    if any(map(_PLACEHOLDER.match, shown)):
        return True
    patterns = ((_TAG, shown), (_TAG_TYPE, types), (_TAG_ID, ids))
    is_tag = any(any(map(pattern.fullmatch, values)) for pattern, values in patterns)
    if is_tag or local_name(element) not in ("x", "ph"):
        return False
    previous = element.getprevious()
    before = (element.getparent().text if previous is None else previous.tail) or ""
    touches_word = before[-1:].isalnum() or (element.tail or "")[:1].isalnum()
    return any(shown) or not touches_word


def _new_target(unit: Element) -> Element | None:
    """Returns the target of a unit with the content of its source; None if the unit stays."""
    found = {local_name(child): child for child in unit if local_name(child)}
    source, target = found.get("source"), found.get("target")
    if source is None:
        return None
    if target is None:
        target = source.makeelement(source.tag.replace("source", "target"), nsmap=source.nsmap)
        before = found.get("seg-source", source)
        target.tail = before.tail
        if SPACE in source.attrib:
            target.set(SPACE, source.get(SPACE))
        unit.insert(unit.index(before) + 1, target)
    state = target.get("state") or unit.get("state")
    if "".join(target.itertext()).strip() and state not in OPEN_STATES:
        return None
    target[:] = deepcopy(source)[:]
    target.text = source.text
    if local_name(unit) == "segment":
        unit.set("state", "translated")
    else:
        target.set("state", "needs-review-translation")
    return target


def _set_language(root: Element, language: str) -> None:
    if root.get("version", "").startswith("2."):
        root.set("trgLang", language)
    else:
        for element in root.iter("{*}file"):
            element.set("target-language", language)
