"""Builds the native code once for each instruction set.

All other settings of the package are in pyproject.toml. The package installs without native code if
there is no compiler, and on systems other than Linux on x86-64 or ARM64. PyTorch then computes the
models.
"""

import copy
import platform
import zlib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Some Pythons compile with -g, which takes half as long again and makes files twenty times larger.
FLAGS = ["-std=c++17", "-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"]
X86_64 = {"avx2": AVX2, "avx512vnni": AVX512, "amx": [*AVX512, "-mamx-tile", "-mamx-int8"]}
ARM64 = {"neon": ["-march=armv8.2-a+dotprod"]}
INSTRUCTION_SETS = {"x86_64": X86_64, "aarch64": ARM64}
"""Flags for each instruction set, by `platform.machine()`."""

SOURCES = ["batch.cpp", "text_encoder.cpp"]
CSRC = Path("model/backends/native/csrc")
HEADERS = sorted(str(path) for path in CSRC.rglob("*.h"))


def sources_sum() -> int:
    """Returns a checksum of the C++ sources.

    `model/backends/native/library.py` loads only libraries that were built with this checksum.
    """
    found = [path for path in CSRC.rglob("*") if path.suffix in (".cpp", ".h")]
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(found)))


def extension(name: str, flags: list[str]) -> Extension:
    """Returns the build settings for one instruction set. A build that fails is left out."""
    return Extension(
        f"model.backends.native._{name}",
        [str(CSRC / source) for source in SOURCES],
        depends=HEADERS,
        define_macros=[("REGARD_SOURCES", f"{sources_sum()}u")],
        extra_compile_args=[*FLAGS, *flags, "-Wno-psabi", "-Wno-uninitialized"],
        language="c++",
        optional=True,
    )


def extensions() -> list[Extension]:
    """Returns the builds for this machine."""
    sets = INSTRUCTION_SETS.get(platform.machine(), {}) if platform.system() == "Linux" else {}
    return [extension(*item) for item in sets.items()]


class BuildExtensions(build_ext):
    """Builds the extensions at the same time; each compiles into a folder of its own.

    Extensions have the same sources, so in one folder they would overwrite each other's objects.
    """

    def finalize_options(self) -> None:
        """Sets the option here: pip's editable installation forgets `options` of `setup()`."""
        super().finalize_options()
        self.parallel = True

    def build_extension(self, ext: Extension) -> None:
        """Builds one extension."""
        command = copy.copy(self)
        command.build_temp = str(Path(self.build_temp) / ext.name)
        build_ext.build_extension(command, ext)


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExtensions})
