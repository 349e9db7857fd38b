"""Reads and writes XLIFF 1 and 2 (.xlf, .xliff).

A unit has a source text and, once it is translated, a target text. If a unit has no translation, or
if its state is in OPEN_STATES, its source is copied into the target with all inline elements. The
text of the target is then translated. A unit stays as it is if it is marked `translate="no"`, or if
it has a translation and its state is not in OPEN_STATES.
"""

import re
from copy import deepcopy

from service.documents.base import DocumentError
from service.documents.inline import SPACE, BlockReader, Role
from service.documents.tagged import Block, Element
from service.documents.xml_files import XmlDocument, XmlParser, local_name

# Inline elements without words. An element contains a code, such as a tag of another format, or is
# empty and only stands for a code.
NATIVE = frozenset("bpt ept ph it x bx ex sc ec cp sm em".split())

# Elements of NATIVE that mark where formatting starts or ends.
PAIRED = frozenset("bpt ept it bx ex sc ec sm em".split())

_PLACEHOLDER = re.compile(r"\s*[{$%#@]")

# States in which a target is translated even if it already has a text.
OPEN_STATES = frozenset(("new", "initial", "needs-translation"))


def read_xliff(data: bytes) -> XmlDocument:
    root = XmlParser().parse(data, "the file")
    version = root.get("version", "")
    if local_name(root) != "xliff" or version[:2] not in ("1.", "2."):
        raise DocumentError("the file is not XLIFF 1 or 2: its root must be <xliff version=…>")
    unit = "trans-unit" if version.startswith("1.") else "segment"
    reader = BlockReader(_role)
    blocks: list[Block] = []
    for element in [each for each in root.iter() if local_name(each) == unit]:
        if _is_translatable(element) and (target := _new_target(element)) is not None:
            blocks += reader.read(target)
    return XmlDocument(root, blocks, _set_language)


def _role(element: Element) -> Role:
    """Returns the role of an element inside a source or a target."""
    name = local_name(element)
    if name in NATIVE:
        if _is_placeholder(element):
            return Role.KEPT
        return Role.MARK if name in PAIRED else Role.EMPTY
    is_protected = element.get("mtype") == "protected" or element.get("translate") == "no"
    if name == "mrk" and is_protected:
        return Role.KEPT
    return Role.APART if name == "sub" else Role.WORDS


def _is_placeholder(element: Element) -> bool:
    """Reports whether an element stands for words, such as `{name}`, and not for a tag."""
    shown = [element.text, *(element.get(name) for name in ("equiv-text", "equiv", "disp"))]
    return any(_PLACEHOLDER.match(code) for code in shown if code)


def _is_translatable(unit: Element) -> bool:
    """Reports whether the nearest attribute `translate`, if there is one, allows a translation."""
    nearest = unit
    while nearest is not None and nearest.get("translate") is None:
        nearest = nearest.getparent()
    return nearest is None or nearest.get("translate") != "no"


def _new_target(unit: Element) -> Element | None:
    """Copies the content of the source into the target, and returns the target.

    A missing target is added to the unit. The result is None if the unit has no source, or if the
    unit already has a translation and its state is not in OPEN_STATES.
    """
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
    for child in list(target):
        target.remove(child)
    target.text = source.text
    for child in source:
        target.append(deepcopy(child))
    if local_name(unit) == "segment":
        unit.set("state", "translated")
    else:
        target.set("state", "needs-review-translation")
    return target


def _set_language(root: Element, language: str) -> None:
    if root.get("version", "").startswith("2."):
        root.set("trgLang", language)
        return
    for element in root.iter():
        if local_name(element) == "file":
            element.set("target-language", language)
