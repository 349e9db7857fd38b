"""Builds the wheel and the source distribution twice, and compares and examines the results.

Both builds start from the files of the last commit. SOURCE_DATE_EPOCH is the time of this commit.
"""

import gzip
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

FLAGS = "-g0"
NATIVE = {"x86_64": ("avx2", "avx512vnni", "amx"), "aarch64": ("neon",)}
"""Builds of the native code in the wheel, by `platform.machine()`."""

REQUIRED = (r"service/static/index\.html$", r"LICENSE$", r"NOTICE$", r"service/py\.typed$")
FORBIDDEN = (
    r"(^|/)tests?/",
    r"__pycache__",
    r"(^|/)\.",
    r"checks/",
    r"/benchmarks/(?!bench/|__init__\.py$)",
)
SOURCES = (r"/setup\.py$", r"/csrc/batch\.cpp$", r"/csrc/simd/neon\.h$", r"/CHANGELOG\.md$")


def run(*command: str, cwd: Path, **variables: str) -> str:
    """Returns the output of a command without the folder of this project in its path.

    The program ends if the command fails.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command, cwd=cwd, env=inherited | variables, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        sys.exit(f"{result.stdout}{result.stderr}\nfailed: {' '.join(command)}")
    return result.stdout


def export(root: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    archive = subprocess.check_output(["git", "archive", "HEAD"], cwd=root)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def build(root: Path, folder: Path, seconds: int) -> list[Path]:
    """Builds both distributions below a folder; returns the repaired wheel and the source."""
    export(root, folder / "source")
    variables = {
        "SOURCE_DATE_EPOCH": str(seconds),
        "CFLAGS": f"{FLAGS} -ffile-prefix-map={folder}=.",
        "CXXFLAGS": f"{FLAGS} -ffile-prefix-map={folder}=.",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    python = sys.executable
    command = [python, "-m", "build", "--no-isolation", "--outdir", str(folder / "built")]
    run(*command, cwd=folder / "source", **variables)
    (wheel,) = (folder / "built").glob("*.whl")
    (source,) = (folder / "built").glob("*.tar.gz")
    repair = [python, "-m", "auditwheel", "repair", "--wheel-dir", str(folder / "wheel")]
    run(*repair, str(wheel), cwd=folder, **variables)
    normalize(source, seconds)
    (repaired,) = (folder / "wheel").glob("*.whl")
    return [repaired, source]


def normalize(source: Path, seconds: int) -> None:
    """Rewrites a source distribution with sorted files, one time, and no user."""
    with tarfile.open(source) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        contents = {each.name: archive.extractfile(each) for each in members if each.isfile()}
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as target:
            for member in members:
                member.mtime, member.uid, member.gid = seconds, 0, 0
                member.uname = member.gname = ""
                member.pax_headers = {}
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                target.addfile(member, contents.get(member.name))
    with source.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed:
        packed.write(plain.getvalue())


def sum_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def names_in(file: Path) -> list[str]:
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    with tarfile.open(file) as source:
        # The first part of each path is the name of the project and its version.
        return [each.name.partition("/")[2] for each in source.getmembers() if each.isfile()]


def content_faults(file: Path, names: Iterable[str]) -> list[str]:
    found = ["/" + name for name in names]
    required = [*REQUIRED]
    if file.suffix == ".whl":
        sets = NATIVE.get(platform.machine(), ())
        required += [rf"/model/backends/native/_{name}\..*so$" for name in sets]
        if not re.search(r"-manylinux_\d+_\d+_\w+\.whl$", file.name):
            required.append("(the tag manylinux)")
    else:
        required += SOURCES
    missing = [pattern for pattern in required if not any(re.search(pattern, n) for n in found)]
    present = [name for name in found if any(re.search(pattern, name) for pattern in FORBIDDEN)]
    return [
        *(f"{file.name}: no file matches {pattern}" for pattern in missing),
        *(f"{file.name}: contains {name}" for name in present),
    ]
