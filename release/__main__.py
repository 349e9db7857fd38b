"""Makes the files of a release in `dist`: `python -m release [--trial]`.

The steps are in `docs/releases.md`. A trial reports changes that are not committed and versions
that differ, and goes on. Every other fault ends the program with status 1.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from release.installation import install, use
from release.locks import ROOT
from release.packages import build, content_faults, names_in, run, sum_of
from release.versions import changelog_faults, project_version, version_faults

DIST = ROOT / "dist"
SUMS = "SHA256SUMS"


class Steps:
    """Prints each step with its time, and ends the program at a fault."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def done(self, step: str, faults: list[str], *, tolerant: bool = False) -> None:
        seconds = time.monotonic() - self.start
        print(f"{seconds:5.0f} s  {step}: {'; '.join(faults) or 'ok'}", flush=True)
        if faults and not tolerant:
            sys.exit(1)


def tree_faults() -> list[str]:
    command = ["git", "status", "--porcelain", "--untracked-files=no"]
    return run(*command, cwd=ROOT).splitlines()


def build_twice(folder: Path) -> tuple[list[Path], list[str]]:
    """Returns the distributions, and a line for each difference between two builds."""
    seconds = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    first, second = (build(ROOT, folder / name, seconds) for name in ("first", "other"))
    differing = [
        f"{one.name} differs from {two.name} of the second build"
        for one, two in zip(first, second, strict=True)
        if (one.name, sum_of(one)) != (two.name, sum_of(two))
    ]
    return first, differing


def publish(files: list[Path]) -> None:
    DIST.mkdir(exist_ok=True)
    for old in (*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")):
        old.unlink()
    for file in files:
        shutil.copy(file, DIST)
    lines = [f"{sum_of(file)}  {file.name}" for file in files]
    (DIST / SUMS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print((DIST / SUMS).read_text(), end="")


def sign() -> None:
    """Signs the file of the sums with cosign, or prints the command that would sign it."""
    command = ["cosign", "sign-blob", "--bundle", f"{SUMS}.sigstore.json", SUMS]
    if shutil.which("cosign"):
        subprocess.run(command, check=True, cwd=DIST)
        return
    print(f"NOT SIGNED: cosign is not installed. To sign later, in dist: {' '.join(command)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trial", action="store_true", help="go on at changes and other versions")
    parser.add_argument("--sign", action="store_true", help="sign the sums with cosign")
    arguments = parser.parse_args()
    steps = Steps()
    steps.done("clean tree", tree_faults(), tolerant=arguments.trial)
    versions = version_faults(ROOT) + changelog_faults(ROOT)
    steps.done("one version", versions, tolerant=arguments.trial)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, differing = build_twice(folder)
        steps.done("two builds with the same sums", differing)
        run(sys.executable, "-m", "twine", "check", "--strict", *map(str, files), cwd=folder)
        steps.done("twine check", [])
        for file in files:
            steps.done(f"contents of {file.name}", content_faults(file, names_in(file)))
            programs = install(file, folder / f"environment-{file.suffix[1:]}")
            steps.done(f"installation of {file.name}", [])
            steps.done("version, models, translation", use(programs, project_version(ROOT)))
        publish(files)
    if arguments.sign:
        sign()


if __name__ == "__main__":
    main()
