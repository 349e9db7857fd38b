"""The Helm chart: its values, and the manifests that helm renders from it."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from checks.chart import CHART
from checks.chart_tools import CUSTOM_RESOURCES, HELM

Json = dict[str, Any]
Path = tuple[str, ...]

VALUES: Json = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA: Json = json.loads((CHART / "values.schema.json").read_text("utf-8"))
NAMESPACE = "prod"
NAME = "shop-regard"
"""The name of the server's resources in the release `shop`."""

MANIFEST = """[[model]]
reference = "firefox:en-de"

[model.sha256]
"model.ende.intgemm.alphas.bin" = "{sum}"
""".format(sum="0" * 64)

FULL: Json = {
    "models": {"manifest": MANIFEST},
    "keys": {"apiKeys": "a-key name=shop", "adminKey": "an-admin-key", "remoteKey": "a-third-key"},
    "gpu": {"enabled": True},
    "autoscaling": {"enabled": True},
    "monitoring": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    "gateway": {"enabled": True, "parentRefs": [{"name": "public"}]},
}
"""Values that turn on every part of the chart, except for the volume of the state."""

STATE: Json = {"replicas": 1, "state": {"volume": {"enabled": True}}}

needs_helm = pytest.mark.skipif(not HELM.exists(), reason="helm is missing: make helm")
needs_schemas = pytest.mark.skipif(
    not (CUSTOM_RESOURCES.exists() and shutil.which("node")),
    reason="node or the schemas of the custom resources are missing: make helm",
)


def merged(*parts: Mapping[str, Any]) -> Json:
    """Returns values that are merged as helm merges them: objects by key, all else as a whole."""
    result: Json = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = merged(result[key], value) if both else value
    return result


def nested(path: Path, value: object) -> Json:
    for key in reversed(path):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def leaves(values: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yields the path and the default of each value that is not an object with keys of its own."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def helm(command: str, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    words = {
        "lint": ["lint", "--strict", str(CHART)],
        "template": ["template", "shop", str(CHART), "--namespace", NAMESPACE],
        "install": ["install", "shop", str(CHART), "--dry-run=client", "--hide-secret"],
    }[command]
    command_line = [str(HELM), *words, "--values", "-"]
    text = json.dumps(values)
    return subprocess.run(command_line, input=text, capture_output=True, text=True, check=False)


def render_text(*parts: Mapping[str, Any]) -> str:
    return _rendered(json.dumps(merged(*parts)))


@cache
def _rendered(values: str) -> str:
    done = helm("template", json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


def render(*parts: Mapping[str, Any]) -> list[Json]:
    return [each for each in yaml.safe_load_all(render_text(*parts)) if each]


def of_kind(manifests: list[Json], kind: str) -> list[Json]:
    return [each for each in manifests if each["kind"] == kind]


def only(manifests: list[Json], kind: str) -> Json:
    (found,) = of_kind(manifests, kind)
    return found


def pods(manifests: list[Json]) -> list[Json]:
    owners = [*of_kind(manifests, "Deployment"), *of_kind(manifests, "Job")]
    return [each["spec"]["template"]["spec"] for each in owners]


def containers(manifests: list[Json]) -> list[Json]:
    """Returns the containers of all pods, with those that run before the server."""
    return [
        container
        for pod in pods(manifests)
        for container in (*pod["containers"], *pod.get("initContainers", ()))
    ]


def server(manifests: list[Json]) -> Json:
    container: Json
    (container,) = only(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return container


def environment(container: Json) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def custom_resource_faults(manifests: list[Json]) -> list[str]:
    script = CHART.parents[2] / "checks" / "chart_resources" / "validate.mjs"
    done = subprocess.run(
        ["node", str(script), str(CUSTOM_RESOURCES / "node_modules")],
        input=json.dumps(manifests),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()
