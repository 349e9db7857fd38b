"""The check of the page's types: what fails it, and what skips it."""

from pathlib import Path

import pytest

from checks import page_types

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


@pytest.mark.usefixtures("npx")
def test_check_without_npm_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert page_types.check() == 0
    assert capsys.readouterr().out.startswith("SKIPPED: npx was not found")
