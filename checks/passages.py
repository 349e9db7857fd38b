"""Finds the prose of a source tree: docstrings and comments of Python files, text of Markdown.

A passage is one paragraph, list item, table cell or entry of a docstring section. Code, drawings,
citations and the measurements that `make bench` writes into a page are left out.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Source|Example|Examples):\s*(.*)")
ENTRY = re.compile(r"\s{4,}\*{0,2}[\w.]+: (.*)")
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+(.*)")
DRAWING = re.compile(r"[│├└─═┌┐▶]|^\s*=+[= ]*$|\S {3,}\S")
MEASUREMENT = re.compile(r"<!-- (/?)bench:[\w-]+ -->")
DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma|ruff:|mypy:|!).*")
ENTRY_SECTIONS = ("Args", "Attributes", "Raises")
CODE_SECTIONS = ("Source", "Example", "Examples")
COMMAND_DECORATORS = ("command", "callback")
PROPERTY_DECORATORS = ("property", "cached_property")

Docstring = tuple[str, ast.Constant]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Passage:
    """A piece of prose."""

    path: Path  # of the file that holds the passage

    # `function`, `property` and `summary` are first paragraphs of docstrings. `entry` is the
    # description of an argument, attribute or error. `text` is all other prose.
    kind: str
    lines: list[tuple[int, str]] = field(default_factory=list)  # number and text of each line


def passages_of(path: Path) -> Iterator[Passage]:
    text = path.read_text(encoding="utf-8")
    found = _markdown(path, text) if path.suffix == ".md" else _python(path, text)
    yield from (passage for passage in found if passage.lines)


def _python(path: Path, text: str) -> Iterator[Passage]:
    for kind, constant in _docstrings(ast.parse(text)):
        lines = str(constant.value).splitlines()
        numbered = [(constant.lineno + index, line) for index, line in enumerate(lines)]
        yield from _docstring(path, kind, numbered)
    yield from _comments(path, text)


def _docstrings(tree: ast.Module) -> Iterator[Docstring]:
    """Yields each docstring with its kind. A string after an assignment counts as a docstring."""
    for node in ast.walk(tree):
        if not isinstance(node, Documented):
            continue
        for index, statement in enumerate(node.body):
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
                continue
            if isinstance(statement.value.value, str):
                yield _kind(node) if index == 0 else "entry", statement.value


def _kind(node: Documented) -> str:
    if isinstance(node, ast.Module | ast.ClassDef):
        return "summary"
    names = {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}
    last = {name.rpartition(".")[2] for name in names}
    if node.name.startswith("__") or last.intersection(COMMAND_DECORATORS):
        return "summary"  # a command's docstring is its help text, in the imperative
    return "property" if last.intersection(PROPERTY_DECORATORS) else "function"


def _docstring(path: Path, kind: str, lines: list[tuple[int, str]]) -> Iterator[Passage]:
    section = ""
    passage = Passage(path, kind)
    margin = min((_indent(line) for _, line in lines[1:] if line.strip()), default=0)
    for index, (number, line) in enumerate(lines):
        raw = line[margin:] if index else line
        header = SECTION.fullmatch(raw.strip())
        item = ENTRY.fullmatch(raw) if section in ENTRY_SECTIONS else ITEM.fullmatch(raw)
        if header is not None or item is not None or _is_skipped(raw, section):
            yield passage
            passage = Passage(path, "entry" if section in ENTRY_SECTIONS else "text")
        if header is not None:
            section = header[1]
        elif item is not None:
            passage.lines.append((number, item[1]))
        elif not _is_skipped(raw, section):
            passage.lines.append((number, raw.strip()))
    yield passage


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_skipped(line: str, section: str) -> bool:
    """Reports whether a line ends a passage: a blank line, code, a drawing or a citation."""
    is_code = not section and line.startswith("    ")
    return not line.strip() or is_code or section in CODE_SECTIONS or bool(DRAWING.search(line))


def _comments(path: Path, text: str) -> Iterator[Passage]:
    """Yields comments. Comments that fill consecutive whole lines form one passage."""
    passage = Passage(path, "text")
    is_alone = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        number, column = token.start
        was_alone, is_alone = is_alone, not token.line[:column].strip()
        follows = bool(passage.lines) and passage.lines[-1][0] == number - 1
        if not (follows and was_alone and is_alone):
            yield passage
            passage = Passage(path, "text")
        if comment := DIRECTIVE.sub("", token.string).strip("#: "):
            passage.lines.append((number, comment))
    yield passage


def _markdown(path: Path, text: str) -> Iterator[Passage]:
    passage = Passage(path, "text")
    is_code = is_measurement = False
    for number, line in enumerate(text.splitlines(), 1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        if marker := MEASUREMENT.fullmatch(line.strip()):
            is_measurement = not marker[1]
        item = ITEM.fullmatch(line)
        is_cut = is_fence or not line.strip() or line.lstrip().startswith(("<", "#", "|"))
        is_cut |= is_measurement
        if is_cut or is_code or item is not None:
            yield passage
            passage = Passage(path, "text")
        if line.startswith("|") and not is_measurement:
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield from (Passage(path, "text", [(number, cell.strip())]) for cell in cells)
        elif not (is_cut or is_code):
            passage.lines.append((number, item[1] if item is not None else line.strip()))
    yield passage
