"""Pins, builds and signs the images: `python -m release.images pin|check|build`.

`pin` asks the registry for the digest of each image in `deploy/images.lock`. `check` fails if one
has no digest. `build` checks this too, builds the images of `docker-bake.hcl`, and pushes them. It
reads IMAGE, SOURCE, CPU_INDEX and CPU_HASHES from the environment (docs/releases.md). Where cosign
is installed and SIGN is `yes`, it signs each image by its digest.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from release.packages import run
from release.versions import project_version

ROOT = Path(__file__).resolve().parents[1]
LOCK = Path("deploy/images.lock")
METADATA = Path("dist/images.json")
PINNED = re.compile(r"[^@]+@sha256:[0-9a-f]{64}")
REQUIRED = ("IMAGE", "SOURCE", "CPU_INDEX", "CPU_HASHES")


def read_images(root: Path) -> dict[str, str]:
    """Returns the images of the lock by the name of their variable."""
    lines = (root / LOCK).read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: image for name, _, image in pairs}


def unpinned(images: Mapping[str, str]) -> list[str]:
    return [image for image in images.values() if not PINNED.fullmatch(image)]


def pin(root: Path) -> None:
    text = (root / LOCK).read_text(encoding="utf-8")
    for name, image in read_images(root).items():
        tag = image.partition("@")[0]
        flags = ("--format", "{{.Manifest.Digest}}")
        digest = run("docker", "buildx", "imagetools", "inspect", tag, *flags, cwd=root)
        pinned = f"{tag}@{digest.strip()}"
        if not PINNED.fullmatch(pinned):
            sys.exit(f"the registry returned no digest of {tag}: {digest!r}")
        text = text.replace(f"{name}={image}\n", f"{name}={pinned}\n")
        print(pinned)
    (root / LOCK).write_text(text, encoding="utf-8")


def check(root: Path) -> None:
    if names := unpinned(read_images(root)):
        sys.exit(f"no digest: {', '.join(names)}. Run: make pin-images")


def build_variables(root: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of `docker-bake.hcl` for a release of the current commit."""
    missing = [name for name in REQUIRED if not environment.get(name)]
    if missing:
        sys.exit(f"set {', '.join(missing)} (docs/releases.md)")
    seconds = run("git", "log", "-1", "--format=%ct", cwd=root).strip()
    created = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    base = read_images(root)["BASE_IMAGE"]
    return {
        **{name: environment[name] for name in REQUIRED},
        "BASE": base,
        "BASE_DIGEST": base.partition("@")[2],
        "VERSION": project_version(root),
        "REVISION": run("git", "rev-parse", "HEAD", cwd=root).strip(),
        "CREATED": created,
        "SOURCE_DATE_EPOCH": seconds,
    }


def build(root: Path, environment: Mapping[str, str]) -> None:
    check(root)
    variables = build_variables(root, environment)
    (root / METADATA).parent.mkdir(exist_ok=True)
    command = ["docker", "buildx", "bake", "--push", "--metadata-file", str(METADATA)]
    subprocess.run(command, check=True, cwd=root, env={**environment, **variables})
    targets = json.loads((root / METADATA).read_text(encoding="utf-8"))
    digests = [each["containerimage.digest"] for name, each in targets.items() if "." not in name]
    sign([f"{variables['IMAGE']}@{digest}" for digest in digests], environment)


def sign(images: list[str], environment: Mapping[str, str]) -> None:
    """Signs images by their digests, or prints the commands that would sign them."""
    can_sign = environment.get("SIGN") == "yes" and shutil.which("cosign", path=environment["PATH"])
    if not can_sign:
        print("NOT SIGNED: this needs cosign and SIGN=yes. To sign later:")
    for command in (["cosign", "sign", "--yes", image] for image in images):
        if can_sign:
            subprocess.run(command, check=True, env=dict(environment))
        else:
            print("  " + " ".join(command))


def main(verb: str) -> None:
    verbs: dict[str, Callable[[Path], None]]
    verbs = {"pin": pin, "check": check, "build": lambda root: build(root, os.environ)}
    if verb not in verbs:
        sys.exit(f"unknown verb {verb!r}: use {', '.join(verbs)}")
    verbs[verb](ROOT)


if __name__ == "__main__":
    main(*sys.argv[1:])
