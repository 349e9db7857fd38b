"""What an operator can set, meet or call stands in the README or in docs/."""

import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.errors import KINDS, Kind
from service.metrics.definitions import Metrics
from service.server import create_app
from service.settings import Settings
from tests.api.servers import make_settings

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def pages() -> str:
    return "\n".join(page.read_text("utf-8") for page in PAGES)


def is_named(name: str, text: str) -> bool:
    """Whether a text has a name as a word of its own, not only as a part of another."""
    return re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/]*\w)", text) is not None


def spellings(default: object) -> set[str]:
    """How a default may be written: 60.0 and 60 are the same."""
    if isinstance(default, SecretStr):
        return {'""'} if not default.get_secret_value() else set()
    if isinstance(default, tuple):
        return {",".join(default)}
    if isinstance(default, bool):
        return {str(default).lower()}
    return {str(default), f"{default:g}"} if isinstance(default, float) else {str(default)}


@pytest.mark.parametrize("field", Settings.model_fields)
def test_setting_is_described_with_its_default(pages: str, field: str) -> None:
    """In one row of a table, each in code type."""
    name = f"REGARD_{field.upper()}"
    rows = [line for line in pages.splitlines() if f"`{name}`" in line]
    assert rows, f"{name} is not described"
    defaults = spellings(Settings.model_fields[field].default)
    assert [row for row in rows for default in defaults if f"`{default}`" in row], (
        f"{name} is described, but not with its default, {' or '.join(defaults)}"
    )


def test_no_setting_is_described_that_does_not_exist(pages: str) -> None:
    known = {f"REGARD_{field.upper()}" for field in Settings.model_fields}
    client = {"REGARD_URL"}  # of `regard bench`
    tests = {"REGARD_BROWSER_SERVER", "REGARD_WRITE_IMAGES"}
    named = set(re.findall(r"\bREGARD_[A-Z_]*[A-Z]\b", pages))
    assert named <= known | client | tests


def metric_names() -> list[str]:
    families = [
        family for family in Metrics().registry.collect() if family.name.startswith("regard")
    ]
    return [f.name + "_total" * (f.type == "counter") for f in families]


@pytest.mark.parametrize("name", metric_names())
def test_metric_is_described(pages: str, name: str) -> None:
    assert is_named(name, pages)


def test_no_metric_is_described_that_does_not_exist(pages: str) -> None:
    known = metric_names()
    for name in set(re.findall(r"\bregard_[a-z_]*[a-z]\b", pages)):
        assert re.sub("_(bucket|sum|count)$", "", name) in known, name


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.error_type)
def test_error_type_is_described(pages: str, kind: Kind) -> None:
    assert any(
        is_named(kind.error_type, line) and is_named(str(kind.status), line)
        for line in pages.splitlines()
    )


def routes() -> list[str]:
    paths = create_app(make_settings()).openapi()["paths"]
    return [*paths, "/docs", "/"]


@pytest.mark.parametrize("path", routes())
def test_route_is_described(pages: str, path: str) -> None:
    assert is_named(path, pages)


def test_every_file_of_the_service_is_on_the_map() -> None:
    """A map that lacks one, or has one that is gone, leads nowhere."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    section = page.split("\nservice/ ", 1)[1].split("\nbenchmarks/ ", 1)[0]
    shown = re.findall(r"^  (\S+)", section, re.MULTILINE)
    found = [path.name + "/" * path.is_dir() for path in (ROOT / "service").iterdir()]
    hidden = {"__init__.py", "__main__.py", "__pycache__/", "py.typed"}
    assert sorted(shown) == sorted(set(found) - hidden)


LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")


def anchors(page: Path) -> set[str]:
    """Those that its headings have where it is shown."""
    titles: list[str] = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    found = [a or b for a, b in LINK.findall(page.read_text("utf-8"))]
    for link in (link for link in found if not link.startswith("http")):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link
