"""Reads Microsoft Office files: Word (.docx), PowerPoint (.pptx) and Excel (.xlsx).

The text of a paragraph is in runs, and each run has one formatting. The base formatting of a block
is the one with the most characters. Text with the base formatting becomes plain text. Text with
another formatting becomes an inline element, and so do links, fields, notes and bookmarks. A
translated block with inline elements gets new runs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from html import unescape
from itertools import chain, groupby, islice

from lxml import etree

from service.documents.base import DocumentError
from service.documents.code_values import as_compared, constants, is_prose
from service.documents.inline import SPACE, attribute_block, insert, reader_of
from service.documents.tagged import (
    MAX_UNITS,
    Block,
    Element,
    Form,
    Node,
    TaggedText,
    Unit,
    is_translated,
    local_name,
    units_of,
    words_of,
)
from service.documents.xml_files import (
    ArchiveDocument,
    Member,
    XmlDocument,
    XmlParser,
    read_archive,
)

# Files with texts, by the application. Those of the first names come first.
_PARTS = {
    "word": r"word/(?:header|footer|footnotes|endnotes|comments|glossary/document)\d*\.xml",
    "ppt": r"ppt/(?:slides/slide\d+|(?:notesSlides|slideMasters|slideLayouts|comments)/\w+)\.xml",
    "xl": r"xl/(?:sharedStrings|comments\d*|(?:\w*[Cc]omments|drawings|worksheets)/\w+)\.xml",
}
_SHARED_PARTS = r"\w+/(?:charts/chart|diagrams/(?:data|drawing))\d*\.xml|docProps/core\.xml"

RELATIONS = "_rels/.rels"
_MAIN = ("word/document.xml", "ppt/presentation.xml", "xl/workbook.xml")

# Elements with runs: paragraphs, and the cells and comments of Excel.
_PARAGRAPHS = frozenset(("p", "si", "is", "text"))

# Attributes that people read: texts of images and tables, entries of drop-down lists.
_ATTRIBUTES = {
    **dict.fromkeys(("docPr", "cNvPr"), ("descr", "title")),
    **dict.fromkeys(("tblCaption", "tblDescription"), ("val",)),
    "listItem": ("displayText",),
    "textpath": ("string",),  # a watermark
}

# The texts of cells, and those of the cells that a chart shows.
_CELLS = ("si", "is", "strCache")

# Formulas of a workbook, and texts by which its rows are filtered.
_FORMULA = re.compile(
    rb"<(?:\w+:)?(?:(?:f|formula\d?|definedName)\b[^<>]*(?<!/)>"
    rb"|(?:customF|f)ilter\b[^<>]*?\sval=)([^<>]*)"
)

# Headers and footers of sheets, and the codes in them.
_PRINTED = re.compile(r"(?:odd|even|first)(?:Header|Footer)")
_PRINTED_CODE = re.compile(r'(&(?:"[^"]*"|\d+|K[\dA-F]{6}|K\d\d[+-]\d{3}|.))')
MAX_PRINTED_CHARS = 255  # Excel repairs a longer header

# A carriage return in a cell, which the end of a line follows.
_CARRIAGE_RETURN = re.compile(r"_x000D_\n?")

# Whether a paragraph is in a placeholder of a slide.
_IS_PLACEHOLDER = etree.XPath("boolean(ancestor::*[local-name() = 'sp']//*[local-name() = 'ph'])")

# Elements that neither end a block nor become an `Item`.
_HINTS = frozenset(
    "pPr rPr endParaRPr proofErr lastRenderedPageBreak softHyphen rPh phoneticPr".split()
)

_MARKS = frozenset(
    "bookmarkStart bookmarkEnd commentRangeStart commentRangeEnd permStart permEnd".split()
)
_EMPTY = frozenset(
    "footnoteReference endnoteReference footnoteRef endnoteRef commentReference annotationRef "
    "sym del moveFrom".split()
)
_AROUND = frozenset("hyperlink smartTag ins moveTo sdt".split())
_FORMS = {**dict.fromkeys(_MARKS | _EMPTY, Form.EMPTY), "oMath": Form.KEPT}
_LEFT_OUT = frozenset(("p", "fld", "oMath", "oMathPara"))

# Names of the fields whose result stays as it is, because Word computes the result again.
_KEPT_FIELDS = frozenset(
    "ADDIN AUTONUM CITATION DATE EQ FILENAME NOTEREF NUMPAGES PAGE PAGEREF REF SECTION SEQ TIME "
    "STYLEREF".split()
)

# Largest number of neighbouring elements that are searched for the end of a field.
MAX_FIELD_PARTS = 100

# Largest sheet whose header and footer are read, because all of it is parsed.
MAX_SHEET_BYTES = 4 * 1024 * 1024

# Properties and attributes of a run that do not change the look of its text.
_TRIVIAL_PROPERTIES = frozenset(("lang", "noProof", "proofErr"))
_TRIVIAL_ATTRIBUTES = frozenset(("lang", "altLang", "dirty", "err", "noProof", "smtClean", "hint"))


def read_office(data: bytes, folder: str) -> ArchiveDocument:
    """Reads a document whose main part is in a folder of the archive: word, ppt or xl."""
    members = read_archive(data)
    parser = XmlParser()
    main = _main_part(members, parser)
    if not main.startswith(f"{folder}/"):
        raise DocumentError(f"the archive has no main part in {folder}/; is it another format?")
    pattern = re.compile(f"{_PARTS[folder]}|{_SHARED_PARTS}")
    others = sorted(filter(pattern.fullmatch, members), key=_in_order)
    others = [name for name in others if "sheets/" not in name or _has_texts(members[name].data)]
    kept = _kept_texts(members, parser) if folder == "xl" else frozenset()
    return ArchiveDocument(members, [main, *others], partial(_read_part, kept=kept), parser)


def _main_part(members: Mapping[str, Member], parser: XmlParser) -> str:
    relations = parser.parse(members[RELATIONS].data, RELATIONS) if RELATIONS in members else ()
    kinds = {each.get("Type", "").rpartition("/")[2]: each.get("Target", "") for each in relations}
    main = kinds.get("officeDocument", "").lstrip("/")
    return main if main in members else next((name for name in _MAIN if name in members), "")


def _has_texts(sheet: bytes) -> bool:
    """Reports whether a sheet has strings of its own, or a header or a footer."""
    is_small = len(sheet) < MAX_SHEET_BYTES
    return b"inlineStr" in sheet or (is_small and re.search(b"(?:Head|Foot)er>", sheet) is not None)


def _kept_texts(members: Mapping[str, Member], parser: XmlParser) -> Set[str]:
    """Returns the texts that tables, pivot tables, formulas and filters find in cells."""
    found = set[str]()
    for name in [name for name in members if name.endswith(".xml")]:
        data = members[name].data
        if name.startswith(("xl/tables/", "xl/pivotCache/pivotCacheDefinition")):
            for column in parser.parse(data, name).iter("{*}tableColumn", "{*}cacheField"):
                found |= {column.get("name", ""), column.get("totalsRowLabel", "")}
        elif name.startswith(("xl/worksheets/", "xl/workbook.xml")):
            for formula in _FORMULA.finditer(data):
                found.update(constants(unescape(formula[1].decode(errors="replace"))))
    return {*map(as_compared, found)}


def _in_order(name: str) -> tuple[bool, str, int]:
    """Orders the slides of a presentation, and other numbered files, by their numbers."""
    stem = name.removesuffix(".xml").rstrip("0123456789")
    return "slides/slide" not in name, stem, int(name[len(stem) : -len(".xml")][:9] or 0)


def _read_part(root: Element, name: str, kept: Set[str] = frozenset()) -> XmlDocument:
    if root.getroottree().docinfo.doctype:
        raise DocumentError(f"{name} has a DOCTYPE, which Office documents may not have")
    if name.startswith("docProps/"):
        return XmlDocument(root, reader_of("title", "subject", "description").read(root))
    for each in root.iterchildren("{*}calcPr"):  # results of formulas have texts of the source
        each.set("fullCalcOnLoad", "1")
    is_master = "Masters/" in name or "Layouts/" in name
    return XmlDocument(root, [*_blocks_in(root, is_master, kept)])


def _blocks_in(root: Element, is_master: bool, kept: Set[str]) -> Iterator[Block]:
    for element in root.iter(etree.Element):
        name = local_name(element)
        blocks: Iterable[Block] = ()
        if name in _PARAGRAPHS and not (is_master and _IS_PLACEHOLDER(element)):
            blocks = _blocks_of(element)
        elif name in ("strCache", "threadedComment"):
            blocks = reader_of("v", "text").read(element)
        elif _PRINTED.fullmatch(name):
            blocks = _printed_blocks(element)
        elif name in _ATTRIBUTES:
            for key, value in element.items():
                if etree.QName(key).localname in _ATTRIBUTES[name] and is_prose(value):
                    yield attribute_block(element, key)
        for block in blocks:
            words = words_of(block.text.nodes)
            if name not in _CELLS or (is_prose(words) and as_compared(words) not in kept):
                yield block


def _printed_blocks(element: Element) -> Iterator[Block]:
    """Yields the texts between the codes of a sheet's header or footer."""
    parts = _PRINTED_CODE.split(element.text or "")

    def place(number: int, nodes: Sequence[Node]) -> None:
        words = words_of(nodes).replace("&", "&&")
        if len("".join(parts)) - len(parts[number]) + len(words) <= MAX_PRINTED_CHARS:
            parts[number] = words
            element.text = "".join(parts)

    for number in range(0, len(parts), 2):
        if is_translated([parts[number]]):
            yield Block(TaggedText([parts[number]]), partial(place, number))


@dataclass(slots=True)
class Item:
    """A part of a paragraph."""

    # Text elements with the same formatting, the elements of a field, or one other element.
    elements: list[Element]
    form: Form = Form.WORDS  # of the inline element that stands for the item
    formatting: bytes | None = None  # of the text elements; None for other items
    items: list["Item"] = field(default_factory=list)  # inside a link

    @property
    def text(self) -> str:
        elements = [] if self.formatting is None else self.elements
        return _CARRIAGE_RETURN.sub("\n", "".join(element.text or "" for element in elements))

    def parts(self) -> list[Element]:
        """Returns the elements' runs, split from other content, or the elements without runs."""
        by_run = groupby(self.elements, key=lambda element: element.getparent())
        runs = {run: [*elements] for run, elements in by_run}
        if any(local_name(run) != "r" for run in runs):
            return self.elements
        for run, elements in runs.items():
            _split(run, elements)
        return list(runs)


def _blocks_of(paragraph: Element) -> Iterator[Block]:
    for is_break, group in groupby(_items(paragraph), key=lambda item: item is None):
        if not is_break:
            yield from _blocks([item for item in group if item is not None])


def _items(container: Element) -> Iterator[Item | None]:
    """Yields the items of an element, and None where a block ends."""
    field_parts: list[Element] = []
    for child in container:
        name = local_name(child)
        if name == "noBreakHyphen":  # a text element with this character means the same
            name = "t"
            child.tag, child.text = _sibling(child, name), "\u2011"
        if child in field_parts:
            continue
        if field_parts := _kept_field(child):
            yield Item(field_parts, Form.KEPT)
        elif name == "r":
            yield from _items(child)
        elif name in _FORMS or (name == "drawing" and [*map(local_name, child)] == ["inline"]):
            yield Item([child], _FORMS.get(name, Form.EMPTY))
        elif name == "t":  # of a run, or of a cell without runs
            yield Item([child], formatting=_formatting(container))
        elif name in _AROUND:
            yield from _link_items(child)
        elif name and name not in _HINTS:
            yield None
            yield from _items([] if name in _LEFT_OUT else child)
            yield None


def _kept_field(start: Element) -> list[Element]:
    """Returns the sibling elements of the field that begins at `start` and stays as it is.

    Returns none if one run contains the whole field, or if the first or last run has other text.
    """
    if local_name(start) == "fldSimple":
        instructions = [value for key, value in start.items() if key.endswith("}instr")]
        return [start] if _is_kept_field("".join(instructions)) else []
    elements: list[Element] = []
    instruction, depth = "", 0
    for element in islice(chain([start], start.itersiblings()), MAX_FIELD_PARTS):
        elements.append(element)
        for child in element if local_name(element) == "r" else ():
            if local_name(child) == "fldChar":
                kinds = [value for key, value in child.items() if key.endswith("}fldCharType")]
                depth += kinds.count("begin") - kinds.count("end")
            elif local_name(child) == "instrText":
                instruction += child.text or ""
        if depth <= 0:
            is_field = len(elements) > 1 and _is_kept_field(instruction)
            return elements if is_field and not _has_text_around(elements) else []
    return []


def _has_text_around(elements: Sequence[Element]) -> bool:
    first, last = ([local_name(child) for child in elements[n]] for n in (0, -1))
    starts, ends = first.index("fldChar"), last[::-1].index("fldChar")
    return "t" in first[:starts] or "t" in last[len(last) - ends :]


def _is_kept_field(instruction: str) -> bool:
    return (instruction.split() or [""])[0].upper() in _KEPT_FIELDS


def _link_items(link: Element) -> list[Item | None]:
    """Returns one item for a link, or the items of the link if a block ends inside the link."""
    content = (each for each in link if local_name(each) == "sdtContent")
    found = list(_items(next(content, link)))
    inside = [item for item in found if item is not None]
    if len(inside) < len(found):
        return [None, *found, None]
    has_text = any(item.items or item.text.strip() for item in inside)
    return [Item([link], items=_merged(inside)) if has_text else Item([link], Form.EMPTY)]


def _blocks(items: Sequence[Item]) -> Iterator[Block]:
    """Yields one block for items, or blocks for each of them above MAX_UNITS elements."""
    shown = [n for n, item in enumerate(items) if item.form is not Form.EMPTY]
    items = _merged(items[shown[0] : shown[-1] + 1] if shown else [])
    if len(items) == 1 and items[0].items:
        yield from _blocks(items[0].items)
        return
    nodes = _nodes(items)
    num_units = len([*units_of(nodes)])
    if num_units > MAX_UNITS:
        for item in items:
            yield from _blocks(item.items or ([item] if item.formatting is not None else []))
    elif is_translated(nodes):
        place = _rebuild if num_units else _set_text
        is_cell = "/spreadsheetml/" in str(items[0].elements[0].tag)
        yield Block(TaggedText(nodes, keeps_lines=is_cell), lambda found: place(items, found))


def _merged(items: Sequence[Item]) -> list[Item]:
    """Joins neighbouring texts with one formatting, and the white space between them."""
    merged: list[Item] = []
    for number, item in enumerate(items):
        formatting = item.formatting
        if formatting is not None and merged and merged[-1].formatting is not None:
            before, following = merged[-1].formatting, items[number + 1 : number + 2]
            is_between = [each.formatting for each in following] == [before]
            if formatting == before or (not item.text.strip() and is_between):
                merged[-1].elements.append(item.elements[0])
                continue
        merged.append(replace(item, elements=[*item.elements]))
    return merged


def _base(items: Sequence[Item]) -> bytes | None:
    """Returns the formatting with the most characters; None if no item has text elements."""
    sizes = Counter[bytes]()
    for item in items:
        if item.formatting is not None:
            sizes[item.formatting] += len(item.text.strip())
    return max(sizes, key=sizes.__getitem__, default=None)


def _nodes(items: Sequence[Item]) -> list[Node]:
    base = _base(items)
    nodes: list[Node] = []
    for item in items:
        if item.formatting is not None and (item.formatting == base or not item.text.strip()):
            nodes.append(item.text)
        else:
            inside: list[Node] = _nodes(item.items) if item.formatting is None else [item.text]
            is_mark = local_name(item.elements[0]) in _MARKS
            nodes.append(Unit(item.form, item, inside, is_mark))
    return nodes


def _set_text(items: Sequence[Item], nodes: Sequence[Node]) -> None:
    """Writes a translation without inline elements into the first text element of the base."""
    base = _base(items)
    first = next(item.elements[0] for item in items if item.formatting == base)
    for element in [element for item in items for element in item.elements]:
        _write(element, words_of(nodes) if element is first else "")


def _rebuild(items: Sequence[Item], nodes: Sequence[Node]) -> None:
    """Removes items from their parent, and inserts the translated elements in their place."""
    parts = [part for item in items for part in item.parts()]
    base = _base(items)
    texts = [item.elements[0].getparent() for item in items if item.formatting == base]
    run = texts[0] if base is not None else parts[0].makeelement(_sibling(parts[0], "r"))
    parent, following = parts[-1].getparent(), parts[-1].getnext()
    for part in parts:
        parent.remove(part)
    for node in nodes:
        new = [_new_run(run, node)] if isinstance(node, str) else _written(node)
        insert(parent, following, new)


def _written(unit: Unit) -> list[Element]:
    """Writes the words of a translated unit, and returns its run, or its elements without one."""
    item: Item = unit.source
    first, *others = item.elements
    run = first.getparent()  # None for elements that were children of the paragraph
    if item.formatting is not None:
        for element in [each for each in others if each.getparent() is run]:
            run.remove(element)
        _write(first, words_of(unit.children))
    elif item.form is Form.WORDS:
        _rebuild(item.items, unit.children)
    return item.elements if run is None else [run]


def _new_run(run: Element, text: str) -> Element:
    new = _like(run)
    _write(etree.SubElement(new, _sibling(run, "t")), text)
    return new


def _like(run: Element) -> Element:
    """Returns an empty run with the formatting of another run."""
    new = run.makeelement(run.tag, dict(run.attrib), nsmap=run.nsmap)
    new.extend(deepcopy(child) for child in run if local_name(child) == "rPr")
    for change in new.findall("{*}rPr/{*}rPrChange"):
        change.getparent().remove(change)  # The id of a tracked change may occur only once.
    return new


def _split(run: Element, elements: Sequence[Element]) -> None:
    """Moves the content before and after `elements`, unless it is all in _HINTS, into new runs."""
    content = [child for child in run if local_name(child) != "rPr"]
    first, last = content.index(elements[0]), content.index(elements[-1])
    for others, add in ((content[:first], run.addprevious), (content[last + 1 :], run.addnext)):
        if any(local_name(child) not in _HINTS for child in others):
            new = _like(run)
            new.extend(others)
            add(new)


def _sibling(element: Element, name: str) -> str:
    return f"{{{etree.QName(element).namespace}}}{name}"


def _write(element: Element, text: str) -> None:
    element.text = text
    if "/drawingml/" not in element.tag:  # Word and Excel would ignore white space at the ends
        element.set(SPACE, "preserve")


def _formatting(run: Element) -> bytes:
    """Returns the formatting of a run as bytes, which are equal for runs that look the same."""
    return b"".join(_described(child) for child in run if local_name(child) == "rPr")


def _described(element: Element) -> bytes:
    attributes = sorted(
        f"{name}={value}"
        for name, value in element.attrib.items()
        if etree.QName(name).localname not in _TRIVIAL_ATTRIBUTES
    )
    name = local_name(element)
    is_shown = attributes or name not in ("rPr", "rFonts")
    shown = f"<{name} {' '.join(attributes)}>".encode() if is_shown else b""
    inner = [_described(each) for each in element if local_name(each) not in _TRIVIAL_PROPERTIES]
    return shown + b"".join(sorted(inner) if name == "rPr" else inner)
