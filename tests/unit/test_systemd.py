"""The unit of systemd is valid and hardened, and agrees with the settings of the server."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from service.settings import Settings
from tests.documents import DOCS, ROOT, read

UNIT = ROOT / "deploy" / "systemd" / "regard.service"
EXPOSURE = re.compile(r"rates the\s+exposure ([\d.]+) of 10")

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing"
)


def options() -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", read(UNIT), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def version() -> str:
    """Returns the version of systemd, or "" without systemd."""
    if shutil.which("systemd-analyze") is None:
        return ""
    found = re.match(r"systemd (\d+)", analyze("--version").stdout)
    return found[1] if found else ""


@needs_systemd
def test_unit_has_no_fault(tmp_path: Path) -> None:
    """The program itself is replaced, because the machine of the test does not have it."""
    unit = tmp_path / UNIT.name
    text, count = re.subn(r"^ExecStart=\S+", "ExecStart=/bin/true", read(UNIT), flags=re.MULTILINE)
    assert count == 1
    unit.write_text(text)
    done = analyze("verify", str(unit))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(version() != "252", reason="the documented figure is that of systemd 252")
def test_exposure_is_the_documented_one() -> None:
    (documented,) = EXPOSURE.findall(read(DOCS / "operations.md"))
    limit = round(float(documented) * 10)
    unit = str(UNIT)
    assert analyze("security", "--offline=true", f"--threshold={limit}", unit).returncode == 0
    assert analyze("security", "--offline=true", f"--threshold={limit - 1}", unit).returncode != 0


def test_variables_are_settings_and_folders_that_can_be_written() -> None:
    settings = {f"REGARD_{name.upper()}" for name in Settings.model_fields}
    folders = {f"/var/lib/{options()['StateDirectory'][0]}"}
    folders.add(f"/var/cache/{options()['CacheDirectory'][0]}")
    pairs = [pair.split("=") for line in options()["Environment"] for pair in line.split()]
    assert {name for name, _ in pairs} <= settings | {"HF_HOME", "TRITON_CACHE_DIR"}
    assert all(any(value.startswith(folder) for folder in folders) for _, value in pairs)


def test_unit_is_given_the_time_that_draining_takes() -> None:
    (timeout,) = options()["TimeoutStopSec"]
    fields = Settings.model_fields
    drain = fields["drain_delay_seconds"].default + fields["drain_timeout_seconds"].default
    assert float(timeout.removesuffix("s")) >= drain + 10
    assert options()["KillMode"] == ["mixed"]  # the server ends its workers itself
