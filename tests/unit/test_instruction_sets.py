"""The builds of the native code: every instruction set computes the same bits.

The build for ARM is made by a cross compiler and runs under QEMU's emulator.
"""

import os
import platform
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests/native/bits.cpp"
CROSS_COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
FEATURES = {"avx2": "avx2", "avx512vnni": "avx512_vnni", "amx": "amx_int8"}

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("g++"), reason="needs g++ on x86-64"
)
needs_emulator = pytest.mark.skipif(
    not (shutil.which(CROSS_COMPILER) and shutil.which(EMULATOR)),
    reason=f"needs {CROSS_COMPILER} and {EMULATOR}: make emulators",
)


@pytest.fixture(scope="module")
def build_settings() -> dict[str, Any]:
    """The names of setup.py, which builds nothing when it is imported."""
    return runpy.run_path(str(ROOT / "setup.py"))


def compiled(compiler: str, flags: list[str], to: Path) -> Path:
    sources = ["-I", str(ROOT / "model/backends/native/csrc"), str(SOURCE)]
    subprocess.run(
        [compiler, *flags, "-Wno-psabi", "-Wno-uninitialized", "-static", *sources, "-o", str(to)],
        check=True,
    )
    return to


def lines(*command: str | Path) -> list[str]:
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def expected(build_settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the build for AVX2 prints."""
    if FEATURES["avx2"] not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("this processor has no AVX2")
    flags = build_settings["FLAGS"] + build_settings["X86_64"]["avx2"]
    return lines(compiled("g++", flags, tmp_path_factory.mktemp("avx2") / "bits"))


def test_builds_share_no_object_file(tmp_path: Path) -> None:
    """They are compiled at once: one library held the code of the other, or none."""
    compiler, log = tmp_path / "compiler", tmp_path / "log"
    compiler.write_text(
        '#!/bin/sh\necho "$@" >> ' + str(log) + '\nwhile [ $1 != -o ]; do shift; done; touch "$2"\n'
    )
    compiler.chmod(0o755)
    names = ["CC", "CXX", "LDSHARED", "LDCXXSHARED"]
    folders = ["--build-temp", str(tmp_path / "temp"), "--build-lib", str(tmp_path / "lib")]
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", *folders],
        cwd=ROOT,
        env=os.environ | dict.fromkeys(names, str(compiler)),
        check=True,
    )
    compiled = [line.split() for line in log.read_text().splitlines() if " -c " in line]
    objects = [words[words.index("-o") + 1] for words in compiled]
    assert len(set(objects)) == len(objects) == 6


def test_results_of_all_stages_are_hashed(expected: list[str]) -> None:
    hashes = [line.split()[-1] for line in expected if line.startswith("  ")]
    assert len(hashes) > 60
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("name", ["avx512vnni", "amx"])
def test_builds_compute_the_bits_of_avx2(
    name: str, build_settings: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    if FEATURES[name] not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip(f"this processor has no {FEATURES[name]}")
    flags = build_settings["FLAGS"] + build_settings["X86_64"][name]
    assert lines(compiled("g++", flags, tmp_path / "bits")) == expected


def test_tiles_compute_the_bits_of_vectors(
    build_settings: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    """On every processor: the instructions of AMX are here in plain C++.

    No server runs this build, so it is compiled with -O1, in half the time.
    """
    flags = build_settings["FLAGS"] + build_settings["X86_64"]["avx2"]
    assert lines(compiled("g++", [*flags, "-O1", "-DREGARD_TILES"], tmp_path / "bits")) == expected


@pytest.fixture(scope="module")
def arm_program(build_settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = build_settings["FLAGS"] + build_settings["ARM64"]["neon"]
    return compiled(CROSS_COMPILER, flags, tmp_path_factory.mktemp("arm") / "bits")


@needs_emulator
def test_arm_computes_the_bits_of_avx2(arm_program: Path, expected: list[str]) -> None:
    assert lines(EMULATOR, arm_program) == expected


@needs_emulator
def test_arm_without_the_dot_product_is_not_supported(arm_program: Path) -> None:
    """The server then computes with PyTorch. A Cortex-A72 has no dot product."""
    command = [EMULATOR, "-cpu", "cortex-a72", str(arm_program)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 1
    assert "does not support" in result.stdout
