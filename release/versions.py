"""Compares the version of the project in all files that name it."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

CHART = "deploy/helm/regard/Chart.yaml"


def project_version(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def named_versions(root: Path) -> Iterator[tuple[str, str]]:
    patterns = {
        "Dockerfile": r"^ARG VERSION=(.+)$",
        "docker-bake.hcl": r'variable "VERSION" \{\s+default = "(.+)"',
    }
    for name, pattern in patterns.items():
        for version in re.findall(pattern, (root / name).read_text("utf-8"), re.MULTILINE):
            yield name, version
    chart = yaml.safe_load((root / CHART).read_text(encoding="utf-8"))
    yield CHART, str(chart["version"])
    yield CHART, str(chart["appVersion"])


def version_faults(root: Path) -> list[str]:
    """Returns a line for each file with another version than `pyproject.toml`."""
    expected = project_version(root)
    return [
        f"{name} has version {version}, but pyproject.toml has {expected}"
        for name, version in named_versions(root)
        if version != expected
    ]


def changelog_faults(root: Path) -> list[str]:
    """Returns a line if the changes of this release are not below its version."""
    expected = project_version(root)
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    titles = [
        title for title, _, text in (each.partition("\n") for each in sections[1:]) if text.strip()
    ]
    if titles[:1] == [expected]:
        return []
    return [f"CHANGELOG.md begins with {titles[0]!r}: move the entries below '## {expected}'"]
