"""The audit of packages fails for a vulnerability, and says why it could not look."""

import json
from pathlib import Path
from typing import Any

import pytest

from checks.audit import audit

FAULT = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
SOUND: dict[str, Any] = {"name": "sound", "version": "1.0", "vulns": []}
BROKEN: dict[str, Any] = {"name": "broken", "version": "1.0", "vulns": [FAULT]}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI: unknown"}


def pip_audit(folder: Path, output: str) -> str:
    """Writes a program that prints what pip-audit would print."""
    program = folder / "pip-audit"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\necho 'no route to host' >&2\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("packages", "status", "words"),
    [
        ([SOUND, UNKNOWN], 0, "1 of 2 packages audited, 0 vulnerabilities"),
        ([SOUND, BROKEN], 1, "broken 1.0: PYSEC-1, fixed in 2.0"),
        ([UNKNOWN, UNKNOWN], 0, "audit skipped: no data about any package (Dependency not found"),
    ],
)
def test_result_is_that_of_pip_audit(
    packages: list[dict[str, Any]], status: int, words: str, tmp_path: Path
) -> None:
    program = pip_audit(tmp_path, json.dumps({"dependencies": packages}))
    found, lines = audit(program, "requirements.lock")
    assert found == status
    assert words in "\n".join(lines)


def test_missing_data_or_program_is_named(tmp_path: Path) -> None:
    assert audit(pip_audit(tmp_path, ""), "lock") == (
        0,
        ["audit skipped: pip-audit got no data (no route to host)"],
    )
    status, lines = audit(str(tmp_path / "nothing"), "lock")
    assert status == 0
    assert "cannot be run" in lines[0]
