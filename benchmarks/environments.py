"""Installs packages that only the benchmarks need, into folders below .bench/.

For example, each peer (a program with which Regard is compared) needs packages of its own. Each
folder is a virtual environment, made at its first use, and again when
`benchmarks/requirements-NAME.txt` has changed. If pip fails, the run leaves out the part that needs
the packages.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".bench"
REQUIREMENTS = Path(__file__).parent
SHOWN_LINES = 3


class MissingError(Exception):
    """An optional part of the run is missing; the message names the part and the reason."""


def peer_python(
    name: str,
    interpreter: str | None = None,
    version: str | None = None,
    with_project_packages: bool = False,
) -> str:
    """Makes an environment if it is missing or outdated; returns its interpreter."""
    requirements = REQUIREMENTS / f"requirements-{name}.txt"
    folder = WORK / name
    stamp, python = folder / "installed.txt", folder / "bin" / "python"
    if python.exists() and stamp.exists() and stamp.read_text() == requirements.read_text():
        return str(python)
    base = sys.executable if interpreter is None else find_interpreter(interpreter, version)
    print(f"making .bench/{name} from {requirements.name} ...", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    _call([base, "-m", "venv", str(folder)])
    if with_project_packages:
        packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
        Path(packages, "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _call([str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)])
    stamp.write_text(requirements.read_text())
    return str(python)


def find_interpreter(command: str, version: str | None) -> str:
    """Returns the full path of a Python command after checking its version."""
    path = shutil.which(command)
    if path is None:
        raise MissingError(f"{command} is not on PATH. Give the path with --python310")
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    found = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
    if found.returncode or (version and found.stdout.strip() != version):
        lines = (found.stdout + found.stderr).strip().splitlines()
        reason = lines[0] if lines else "it failed without a message"
        raise MissingError(f"{command} is no Python {version}: {reason}")
    return path


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()][-SHOWN_LINES:]
        raise MissingError(f"{' '.join(command[:4])} ... failed: {' / '.join(lines)}")
