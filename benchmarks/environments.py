"""Virtual environments below .bench/ for what the project itself does not need.

Made once with plain pip from the pinned `benchmarks/requirements-NAME.txt`, and again when that
file has changed. What cannot be made is a reason to leave a peer out, not to stop.
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
    """Something this run can do without is not here; the message says what and why."""


def peer_python(
    name: str,
    interpreter: str | None = None,
    version: str | None = None,
    is_beside: bool = False,
) -> str:
    """The interpreter of an environment, which is made where it is not there.

    Args:
        name: Of the environment and of its requirements.
        interpreter: What it is made with; this one by default.
        version: Such as `3.10`, if the packages need just that one.
        is_beside: Whether this environment's packages, such as torch, are seen behind its own.

    Raises:
        MissingError: There is no such interpreter, or pip failed.
    """
    requirements = REQUIREMENTS / f"requirements-{name}.txt"
    folder = WORK / name
    stamp, python = folder / "installed.txt", folder / "bin" / "python"
    if python.exists() and stamp.exists() and stamp.read_text() == requirements.read_text():
        return str(python)
    base = sys.executable if interpreter is None else find_interpreter(interpreter, version)
    print(f"making .bench/{name} from {requirements.name} ...", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    _call([base, "-m", "venv", str(folder)])
    if is_beside:
        packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
        Path(packages, "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _call([str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)])
    stamp.write_text(requirements.read_text())
    return str(python)


def library(name: str) -> str:
    """A folder for PYTHONPATH with packages beside those of the project, at its own versions.

    Raises:
        MissingError: pip failed.
    """
    requirements = REQUIREMENTS / f"requirements-{name}.txt"
    folder = WORK / name
    stamp = folder / "installed.txt"
    if not (stamp.exists() and stamp.read_text() == requirements.read_text()):
        shutil.rmtree(folder, ignore_errors=True)
        print(f"making .bench/{name} from {requirements.name} ...", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        constraint = ["--constraint", str(ROOT / "requirements.lock")]
        _call([*pip, *constraint, "-r", str(requirements)])
        stamp.write_text(requirements.read_text())
    return str(folder)


def find_interpreter(command: str, version: str | None) -> str:
    """The full path of a command that really is a Python of that version.

    Raises:
        MissingError: It is not there, does not run (a shim for nothing), or is of another version.
    """
    path = shutil.which(command)
    if path is None:
        raise MissingError(f"{command} is not on PATH; name one with --python{version or ''}")
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    found = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
    if found.returncode or (version and found.stdout.strip() != version):
        said = (found.stdout + found.stderr).strip().splitlines()
        raise MissingError(f"{command} is no Python {version}: {said[0] if said else 'it failed'}")
    return path


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()][-SHOWN_LINES:]
        raise MissingError(f"{' '.join(command[:4])} ... failed: {' / '.join(lines)}")
