"""Each package has few modules at its top, and only the task table tells task kinds apart."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.tasks.table import TASKS

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("model", "service")
SOURCES = (".py", ".cpp", ".h")
MAX_TOP_MODULES = 10
TABLE = ROOT / "service" / "tasks" / "table.py"
"""The module that may tell kinds of tasks apart."""


def modules() -> list[Path]:
    found = (path for name in PACKAGES for path in (ROOT / name).rglob("*"))
    return sorted(path for path in found if path.suffix in SOURCES)


def modules_in(folder: Path) -> list[str]:
    found = (path for path in folder.iterdir() if path.suffix in SOURCES)
    return sorted(path.name for path in found if not path.name.startswith("__"))


def item_classes() -> set[str]:
    tree = ast.parse((ROOT / "service" / "items.py").read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def told_apart(tree: ast.AST, classes: set[str]) -> Iterator[tuple[int, str]]:
    """Yields line and name wherever code tells kinds of tasks apart.

    That is `isinstance` or a class pattern with a work item, and a comparison or a value pattern
    with the name of a kind.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            found = _names(node.args[1]) & classes
        elif isinstance(node, ast.MatchClass):
            found = _names(node.cls) & classes
        elif isinstance(node, ast.Compare | ast.MatchValue):
            found = _strings(node) & {*TASKS}
        else:
            continue
        yield from ((node.lineno, name) for name in sorted(found))


def _names(node: ast.AST) -> set[str]:
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _strings(node: ast.Compare | ast.MatchValue) -> set[str]:
    operands = [node.value] if isinstance(node, ast.MatchValue) else [node.left, *node.comparators]
    flat = [
        element
        for operand in operands
        for element in getattr(operand, "elts", [operand])
        if isinstance(element, ast.Constant)
    ]
    return {element.value for element in flat if isinstance(element.value, str)}


@pytest.mark.parametrize("package", PACKAGES)
def test_top_level_of_a_package_is_short(package: str) -> None:
    found = modules_in(ROOT / package)
    assert len(found) <= MAX_TOP_MODULES, found


def test_kinds_of_tasks_are_told_apart_by_the_table_alone() -> None:
    classes = item_classes()
    assert classes
    found = {
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in (ROOT / "service").rglob("*.py")
        if path != TABLE
        for line, name in told_apart(ast.parse(path.read_text("utf-8")), classes)
    }
    assert sorted(found) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("isinstance(item, Sentence)", ["Sentence"]),
        ("isinstance(item, orders.Sentence | int)", ["Sentence"]),
        ("isinstance(item, (Sentence, Text))", ["Sentence", "Text"]),
        ("isinstance(item, int)", []),
        ("match item:\n case Sentence(): pass", ["Sentence"]),
        ("task == 'embed'", ["embed"]),
        ("'embed' != task", ["embed"]),
        ("task in ('embed', 'translate')", ["embed", "translate"]),
        ("match task:\n case 'embed': pass", ["embed"]),
        ("metrics.begin('embed')", []),
        ("table['embed'] > 3", []),
    ],
)
def test_code_that_tells_kinds_apart_is_found(code: str, expected: list[str]) -> None:
    found = [name for _, name in told_apart(ast.parse(code), {"Sentence", "Text"})]
    assert found == expected
