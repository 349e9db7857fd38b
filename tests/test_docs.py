"""The documents name every setting, metric, route and error, and their commands are right."""

import ast
import importlib
import importlib.util
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from prometheus_client import Metric
from pydantic import SecretStr
from typer.core import TyperGroup

from service.cli import app
from service.errors import KINDS
from service.metrics.definitions import Metrics
from service.server import create_app
from service.settings import Settings
from tests.api.servers import make_settings
from tests.documents import (
    CHANGELOG,
    DOCS,
    PAGES,
    README,
    ROOT,
    SHELL,
    Command,
    anchors,
    blocks,
    commands,
    linked_file,
    links,
    prose_lines,
    read,
    section,
    table_rows,
)

from .unit.test_deploy import labels_by_name

MAX_LINE = 100
MAX_README_LINES = 150
MAX_ARCHITECTURE_LINES = 250

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def is_named(name: str, text: str) -> bool:
    """Reports whether a text has a name as a whole word, not only as a part of another."""
    return re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/]*\w)", text) is not None


def all_text() -> str:
    return "\n".join(read(page) for page in PAGES)


# Settings


def spellings(default: object) -> set[str]:
    """Returns the spellings of a default: 60.0 and 60 are the same."""
    if isinstance(default, SecretStr):
        return {'""'} if not default.get_secret_value() else set()
    if isinstance(default, tuple):
        return {",".join(default)}
    if isinstance(default, bool):
        return {str(default).lower()}
    return {str(default), f"{default:g}"} if isinstance(default, float) else {str(default)}


@pytest.mark.parametrize("field", Settings.model_fields)
def test_setting_is_described_with_its_default(field: str) -> None:
    name = f"`REGARD_{field.upper()}`"
    rows = [row for row in table_rows(read(DOCS / "settings.md")) if row[0] == name]
    assert len(rows) == 1, f"{name} has {len(rows)} rows in docs/settings.md"
    _, default, meaning = rows[0]
    assert default.strip("`") in spellings(Settings.model_fields[field].default)
    assert meaning


def test_no_setting_is_described_that_does_not_exist() -> None:
    known = {f"REGARD_{field.upper()}" for field in Settings.model_fields}
    client = {"REGARD_URL", "REGARD_API_KEY"}  # of the commands that are clients
    tests = {"REGARD_BROWSER_SERVER", "REGARD_WRITE_IMAGES"}
    named = set(re.findall(r"\bREGARD_[A-Z_]*[A-Z]\b", all_text()))
    assert named <= known | client | tests


# Metrics


def metric_types() -> dict[str, str]:
    return {f.name + "_total" * (f.type == "counter"): f.type for f in families()}


def metric_labels() -> dict[str, set[str]]:
    sampled = {f.name: {label for s in f.samples for label in s.labels} for f in families()}
    return sampled | labels_by_name()


def families() -> list[Metric]:
    return [f for f in Metrics().registry.collect() if f.name.startswith("regard")]


@pytest.mark.parametrize("name", metric_types())
def test_metric_is_described_with_its_type_and_labels(name: str) -> None:
    rows = [row for row in table_rows(read(DOCS / "metrics.md")) if row[0] == f"`{name}`"]
    assert len(rows) == 1, f"{name} has {len(rows)} rows in docs/metrics.md"
    _, kind, labels, meaning = rows[0]
    assert kind == metric_types()[name]
    assert set(re.findall(r"\w+", labels)) == metric_labels()[name.removesuffix("_total")] - {"le"}
    assert meaning


def test_no_metric_is_described_that_does_not_exist() -> None:
    known = metric_types()
    for name in set(re.findall(r"\bregard_[a-z_]*[a-z]\b", all_text())):
        assert re.sub("_(bucket|sum|count)$", "", name) in known, name


# Routes and errors

UNDOCUMENTED = {("GET", "/"), ("GET", "/docs"), ("GET", "/openapi.json")}
"""Routes that /openapi.json leaves out."""


def routes() -> set[tuple[str, str]]:
    paths = create_app(make_settings()).openapi()["paths"]
    found = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    return {route for route in found if route[0] != "HEAD"} | UNDOCUMENTED


def documented_routes() -> set[tuple[str, str]]:
    """Returns the method and path of each row in the first table of docs/api.md."""
    found = set()
    for first, *_ in table_rows(read(DOCS / "api.md").split("\n## ", 1)[0])[1:]:
        methods = re.findall(r"\b(?:GET|POST|PUT|PATCH|DELETE)\b", first)
        found |= {(m, path) for m in methods for path in re.findall(r"/[\w/{}.-]*", first)}
    return found


def test_every_route_is_described() -> None:
    assert routes() - documented_routes() == set()


def test_no_route_is_described_that_does_not_exist() -> None:
    assert documented_routes() - routes() == set()


def test_every_error_type_is_described_with_its_status() -> None:
    rows = table_rows(section(read(DOCS / "api.md"), "Errors"))[1:]
    described = {(status, error_type.strip("`")) for status, error_type, _ in rows}
    assert described == {(str(kind.status), kind.error_type) for kind in KINDS.values()}


# Pages and links


def test_readme_is_short() -> None:
    assert len(read(README).splitlines()) <= MAX_README_LINES


def test_architecture_is_short() -> None:
    assert len(read(DOCS / "architecture.md").splitlines()) <= MAX_ARCHITECTURE_LINES


@by_page
def test_lines_of_prose_are_short(page: Path) -> None:
    """Tables, code, HTML and lines with a long address are exempt."""
    long = [(number, line) for number, line in prose_lines(read(page)) if len(line) > MAX_LINE]
    assert [(n, line) for n, line in long if "://" not in line] == []


@by_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        target = linked_file(page, link)
        assert target.is_file(), link
        anchor = link.partition("#")[2]
        assert not anchor or anchor in anchors(target), link


def test_readme_links_every_page() -> None:
    linked = {linked_file(README, link) for link in links(README)}
    assert {*DOCS.glob("*.md"), CHANGELOG} - linked == set()


@pytest.mark.parametrize("page", [README, *DOCS.glob("*.md")], ids=lambda page: page.name)
def test_headings_of_a_page_have_anchors_of_their_own(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", read(page), flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^#+ ", text, re.MULTILINE)) == len(anchors(page))


# Folders and files

HIDDEN = {"__init__.py", "__main__.py", "__pycache__/", "py.typed", "ruff.toml"}


@pytest.mark.parametrize("folder", ["service", "model"])
def test_every_file_is_on_the_map(folder: str) -> None:
    rows = table_rows(section(read(DOCS / "architecture.md"), f"{folder}/"))[1:]
    shown = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    found = {path.name + "/" * path.is_dir() for path in (ROOT / folder).iterdir()}
    assert sorted(shown) == sorted(name for name in found - HIDDEN if name[0] != ".")


@by_page
def test_named_files_exist(page: Path) -> None:
    pattern = r"`((?:service|model|tests|deploy|docs|benchmarks)/[\w./*-]*)`"
    for name in re.findall(pattern, read(page)):
        assert [*ROOT.glob(name.rstrip("/"))], name


# Commands


def all_commands() -> list[Command]:
    return [command for page in PAGES for command in commands(page)]


def check_make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for word in words:
        name, is_variable, _ = word.partition("=")
        pattern = rf"^{name} \?= ?" if is_variable else rf"^{name}:"
        assert re.search(pattern, makefile, re.MULTILINE), word


def test_make_takes_the_newest_python_that_runs(tmp_path: Path) -> None:
    for version, status in (("3.11", 0), ("3.12", 0), ("3.13", 1)):
        program = tmp_path / f"python{version}"
        program.write_text(f"#!/bin/sh\nexit {status}\n", "utf-8")
        program.chmod(0o755)
    command = ["make", "--dry-run", "--always-make", ".venv/bin/python"]
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    printed = subprocess.run(
        command, cwd=ROOT, env=path, capture_output=True, text=True, check=True
    )
    assert "python3.12 -m venv .venv" in printed.stdout


def check_regard(words: list[str], program: typer.Typer = app) -> None:
    """Parses the arguments as the command itself does, and runs nothing."""
    command: typer.core.TyperCommand | TyperGroup = typer.main.get_command(program)  # type: ignore[assignment]
    context, name = None, "regard"
    while isinstance(command, TyperGroup):
        context = command.make_context(name, [*words], parent=context)
        name, words = words[0], words[1:]
        found = command.get_command(context, name)
        assert found is not None, name
        command = found  # type: ignore[assignment]
    command.make_context(name, [*words], parent=context)


def check_docker(words: list[str]) -> None:
    assert words.pop(0) == "compose"
    files = [ROOT / "docker-compose.yml"]
    while words[0] == "-f":
        files.append(ROOT / words[1])
        del words[:2]
    parsed = [yaml.safe_load(file.read_text("utf-8")) for file in files]
    verb, *rest = words
    rest = [word for word in rest if word not in ("--rm", "--build", "-d")]
    if verb == "up":
        assert set(rest) <= set(parsed[0]["services"])
        return
    assert verb in ("run", "exec")
    service, *inner = rest
    assert service in parsed[0]["services"]
    # `run` has the image's entry point, which is regard; `exec` names the program itself.
    assert verb == "run" or inner.pop(0) == "regard"
    check_regard(inner)


def check_python(words: list[str]) -> None:
    assert words.pop(0) == "-m"
    module = words.pop(0)
    spec = importlib.util.find_spec(module)
    assert spec is not None
    if module == "pytest":
        assert words[0] == "-m"
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        markers = project["tool"]["pytest"]["ini_options"]["markers"]
        assert words[1] in [marker.partition(":")[0] for marker in markers]
        return
    if spec.submodule_search_locations is None:
        assert spec.origin is not None
        assert_flags(words, Path(spec.origin).read_text("utf-8"))
        return
    main = importlib.import_module(f"{module}.__main__")
    if hasattr(main, "app"):  # a command of several commands
        check_regard(words, main.app)
    else:
        assert_flags(words, Path(str(main.__file__)).read_text("utf-8"))


def assert_flags(words: list[str], source: str) -> None:
    for flag in (word for word in words if word.startswith("--")):
        assert f'"{flag}"' in source, flag


def check_curl(words: list[str]) -> None:
    (address,) = [word for word in words if re.match(r"(http://)?(127\.0\.0\.1|localhost)", word)]
    path = "/" + address.removeprefix("http://").partition("/")[2].partition("?")[0]
    assert is_named(path, read(DOCS / "api.md")) or path.startswith("/v1/models/")


def check_helm(words: list[str]) -> None:
    verb, _, chart, *rest = words
    assert verb in ("install", "upgrade")
    values = yaml.safe_load((ROOT / chart / "values.yaml").read_text("utf-8"))
    settings = {f"REGARD_{field.upper()}": "" for field in Settings.model_fields}
    for flag, value in pairwise(rest):
        if flag.startswith("--set"):
            found = {**values, "settings": settings}
            for key in value.partition("=")[0].split("."):
                found = found[key]


def check_kubectl(words: list[str]) -> None:
    schema = (ROOT / "deploy/helm/regard/values.schema.json").read_text("utf-8")
    entries = json.loads(schema)["properties"]["keys"]["properties"]["entries"]["items"]["enum"]
    named = {word.split("=")[1] for word in words if word.startswith("--from-")}
    assert named <= set(entries)


def check_envoy(words: list[str]) -> None:
    flag, path = words
    assert flag == "--config-path"
    assert (ROOT / path).is_file()


def check_git(words: list[str]) -> None:
    assert words == ["clone", "$REPOSITORY", "regard"]


def check_shell(words: list[str]) -> None:
    assert words in (["regard"], ["PATH=$PWD/.venv/bin:$PATH"])


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "make": check_make,
    "regard": check_regard,
    "docker": check_docker,
    "python": check_python,
    "curl": check_curl,
    "envoy": check_envoy,
    "git": check_git,
    "helm": check_helm,
    "kubectl": check_kubectl,
    "cd": check_shell,
    "export": check_shell,
}


@pytest.mark.parametrize("command", all_commands(), ids=str)
def test_command_is_right(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("en.txt", "pt.txt", "stsb-dev.csv", "S", "R", "N"):
        (tmp_path / name).write_text("a line\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_URL", raising=False)
    program, *words = command.words
    CHECKS[program.removeprefix(".venv/bin/")](words)


@pytest.mark.parametrize(
    "command", [command for command in all_commands() if command.settings], ids=str
)
def test_settings_of_a_command_are_valid(command: Command) -> None:
    own = {name: v for name, v in command.settings.items() if not name.startswith("OTEL_")}
    values = {name.removeprefix("REGARD_").lower(): v for name, v in own.items()}
    Settings.model_validate(values)


def test_flags_of_the_benchmarks_exist() -> None:
    source = (ROOT / "benchmarks" / "options.py").read_text("utf-8")
    arguments = [word for command in all_commands() for word in command.words if "ARGS=" in word]
    assert arguments
    for words in arguments:
        assert_flags(words.removeprefix("ARGS=").split(), source)


PARSERS: dict[str, Callable[[str], object]] = {
    "python": ast.parse,
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
    "": str,  # diagrams
}


@by_page
def test_code_blocks_can_be_parsed(page: Path) -> None:
    for block in blocks(page):
        if block.language not in SHELL:
            PARSERS[block.language](block.text)
