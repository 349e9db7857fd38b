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
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from release.versions import project_version

ROOT = Path(__file__).resolve().parents[1]
LOCK = Path("deploy/images.lock")
METADATA = Path("dist/images.json")
PINNED = re.compile(r"[^@]+@sha256:[0-9a-f]{64}")
REQUIRED = ("IMAGE", "SOURCE", "CPU_INDEX", "CPU_HASHES")


def output_of(*command: str, cwd: Path) -> str:
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd)
    return result.stdout.strip()


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
        digest = output_of("docker", "buildx", "imagetools", "inspect", tag, *flags, cwd=root)
        pinned = f"{tag}@{digest}"
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
    seconds = output_of("git", "log", "-1", "--format=%ct", cwd=root)
    created = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    base = read_images(root)["BASE_IMAGE"]
    return {
        **{name: environment[name] for name in REQUIRED},
        "BASE": base,
        "BASE_DIGEST": base.partition("@")[2],
        "VERSION": project_version(root),
        "REVISION": output_of("git", "rev-parse", "HEAD", cwd=root),
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
    commands = [["cosign", "sign", "--yes", image] for image in images]
    if environment.get("SIGN") == "yes" and shutil.which("cosign", path=environment.get("PATH")):
        for command in commands:
            subprocess.run(command, check=True, env=dict(environment))
        return
    print("NOT SIGNED: this needs cosign and SIGN=yes. To sign later:")
    for command in commands:
        print("  " + " ".join(command))


def main(verb: str) -> None:
    if verb == "pin":
        pin(ROOT)
    elif verb == "check":
        check(ROOT)
    elif verb == "build":
        build(ROOT, os.environ)
    else:
        sys.exit(f"unknown verb {verb!r}: use pin, check or build")


if __name__ == "__main__":
    main(*sys.argv[1:])
