"""The Helm chart: its manifests agree with the schemas of Kubernetes, and with the server.

The tests need helm, which `make helm` installs. Without it they are skipped.
"""

import json
import math
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from checks import chart
from checks.chart_tools import HELM
from service.console import read_settings
from service.settings import Settings
from tests.charts import (
    FULL,
    MANIFEST,
    NAME,
    NAMESPACE,
    STATE,
    VALUES,
    Json,
    containers,
    custom_resource_faults,
    environment,
    helm,
    merged,
    needs_helm,
    needs_schemas,
    of_kind,
    only,
    pods,
    render,
    render_text,
    server,
)

from .test_deploy import PROMETHEUS, exposed_names, load_yaml, metric_names

pytestmark = needs_helm

KUBERNETES_VERSIONS = ("1.30", "1.37")
"""The oldest version that the chart allows, and the newest that has schemas."""

BUILT_IN_GROUPS = {"v1", "apps/v1", "batch/v1", "policy/v1", "networking.k8s.io/v1"}
PARTS = {"default": {}, "full": FULL, "state": STATE}
by_part = pytest.mark.parametrize("values", PARTS.values(), ids=PARTS)


@pytest.fixture(scope="module")
def full() -> list[Json]:
    return render(FULL)


def is_built_in(manifest: Json) -> bool:
    return manifest["apiVersion"] in BUILT_IN_GROUPS


# Schemas


@by_part
def test_lint_finds_nothing(values: Json) -> None:
    done = helm("lint", values)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@by_part
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_manifests_agree_with_the_schemas_of_kubernetes(values: Json, version: str) -> None:
    found = [each for each in render(values) if is_built_in(each)]
    assert found
    for manifest in found:
        kubernetes_validate.validate(manifest, version, strict=True)


@needs_schemas
def test_custom_resources_agree_with_their_schemas(full: list[Json]) -> None:
    found = [each for each in full if not is_built_in(each)]
    kinds = {each["kind"] for each in found}
    assert kinds == {"ScaledObject", "ServiceMonitor", "PrometheusRule", "HTTPRoute"}
    assert custom_resource_faults(found) == []


@needs_schemas
@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("ScaledObject", ("spec", "triggers", 0, "metadata"), "text"),
        ("ScaledObject", ("spec", "maxReplicas"), 8),
        ("ServiceMonitor", ("spec", "endpoints", 0, "intervall"), "10s"),
        ("PrometheusRule", ("spec", "groups", 0, "rules", 0, "expr"), None),
        ("HTTPRoute", ("spec", "rules", 1, "timeouts", "request"), "70"),
    ],
)
def test_wrong_custom_resource_is_found(
    full: list[Json], kind: str, path: tuple[str | int, ...], value: object
) -> None:
    manifest: Any = json.loads(json.dumps(only(full, kind)))
    parent = manifest
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    (fault, *_) = custom_resource_faults([manifest])
    assert "/".join(map(str, path)) in fault


def test_package_contains_the_alerts(tmp_path: Path) -> None:
    """The link in the folder of the chart leads out of it."""
    command = [str(HELM), "package", str(chart.CHART), "--destination", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = tmp_path.glob("*.tgz")
    with tarfile.open(path) as archive:
        alerts = archive.extractfile("regard/alerts.yml")
        assert alerts is not None
        assert alerts.read() == (PROMETHEUS / "alerts.yml").read_bytes()


# Values that are refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": "2"}, "replicas"),
        ({"settings": {"REGARD_MAX_ROW": 2}}, "REGARD_MAX_ROW"),
        ({"settings": {"REGARD_MAX_BEAM_SIZE": 65}}, "REGARD_MAX_BEAM_SIZE"),
        ({"settings": {"REGARD_ADMIN_KEY": "a-key"}}, "REGARD_ADMIN_KEY"),
        ({"env": [{"name": "REGARD_WORKERS", "value": "1"}]}, "env names REGARD_WORKERS"),
        ({"models": {"references": ["firefox:en-de"]}}, "references"),
        ({"gateway": {"enabled": True}}, "parentRefs"),
        ({"models": {"manifest": "[[model]]\n" + MANIFEST}}, "regard models info --toml"),
        ({"models": {"manifest": "device = 'cpu'\n"}}, "regard models info --toml"),
        (merged(STATE, {"replicas": 2}), "one pod"),
        (merged(STATE, {"autoscaling": {"enabled": True}}), "one pod"),
        ({"settings": {"REGARD_MONTHLY_CHARACTERS": 500000}}, "set replicas to 1"),
        ({"settings": {"REGARD_SUGGESTIONS": True}}, "settings.REGARD_SUGGESTIONS needs one state"),
        (
            {
                "replicas": 1,
                "autoscaling": {"enabled": True},
                "settings": {"REGARD_MONTHLY_CHARACTERS": 500000},
            },
            "autoscaling.enabled to false",
        ),
        ({"settings": {"REGARD_FILES": True}}, "set service.sessionAffinity to ClientIP"),
        ({"keys": {"existingSecret": "mine", "apiKeys": "a-key"}}, "keys.existingSecret"),
        ({"autoscaling": {"enabled": True, "minReplicas": 9}}, "autoscaling.minReplicas"),
    ],
)
def test_wrong_values_are_refused(values: Json, message: str) -> None:
    done = helm("template", values)
    assert done.returncode != 0
    assert message in done.stderr


STATEFUL: Json = {"REGARD_MONTHLY_CHARACTERS": 500000, "REGARD_SUGGESTIONS": True}


@pytest.mark.parametrize(
    "values",
    [
        merged(STATE, {"settings": {**STATEFUL, "REGARD_FILES": True}}),
        {"settings": {"REGARD_FILES": True}, "service": {"sessionAffinity": "ClientIP"}},
        {"settings": {"REGARD_MONTHLY_CHARACTERS": 0, "REGARD_SUGGESTIONS": False}},
    ],
    ids=["one pod", "files of a client on one pod", "off"],
)
def test_values_that_need_one_pod_are_allowed(values: Json) -> None:
    assert only(render(values), "Deployment")


# Settings


CHANGED_SETTINGS: Json = {
    **{name: 3 for name, s in chart.settings().items() if s.get("type") in ("integer", "number")},
    **{name: True for name, s in chart.settings().items() if s.get("type") == "boolean"},
    **{name: s["enum"][-1] for name, s in chart.settings().items() if "enum" in s},
    "REGARD_ATTENTION_SHARE": 0.25,
    "REGARD_MAX_SOURCE_TOKENS": 123456789,
    "REGARD_MAX_HEADER_BYTES": 2048,
    "REGARD_MAX_BUFFERED_BYTES": 536870912,
    "REGARD_DRAIN_DELAY_SECONDS": 2.5,
    "REGARD_HOST": "::",
    "REGARD_ALLOWED_HOSTS": "*.example.org,example.net",
    "REGARD_ALLOWED_ORIGINS": "https://example.org",
    "REGARD_HF_ENDPOINT": "https://hub.example.org",
    "REGARD_FIREFOX_REGISTRY": "https://firefox.example.org",
    "REGARD_ARGOS_INDEX": "https://argos.example.org/index.json",
    "REGARD_MODELS_ROOT": "/models",
    "REGARD_LANGUAGES": "en,pt",
    "REGARD_MODEL_ALIASES": "small=en-pt",
    "REGARD_DEVICE": "cpu",
}


def given(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Returns the settings of a server with the variables of a container."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return read_settings({})


def test_every_setting_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(CHANGED_SETTINGS) == set(chart.settings())
    variables = environment(server(render({"replicas": 1, "settings": CHANGED_SETTINGS})))
    settings = given(variables, monkeypatch)
    for name, value in CHANGED_SETTINGS.items():
        found = getattr(settings, name.removeprefix("REGARD_").lower())
        assert (",".join(found) if isinstance(found, tuple) else found) == value, name


def test_variables_of_the_chart_are_settings(
    full: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {f"REGARD_{name.upper()}" for name in Settings.model_fields}
    names = {each["name"] for container in containers(full) for each in container["env"]}
    assert {name for name in names if name.startswith("REGARD_")} <= known
    variables = environment(server(full))
    assert variables.pop("REGARD_API_KEYS") == "file:/etc/regard/keys/api-keys"
    settings = given(variables, monkeypatch)
    assert (settings.port, settings.admin_port, settings.offline) == (8000, 9000, True)


# Pods


def test_pods_can_write_and_gain_nothing(full: list[Json]) -> None:
    assert len(containers(full)) == 3
    for pod in pods(full):
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True
        assert (security["runAsUser"], security["runAsGroup"]) == (10001, 10001)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
    for container in containers(full):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}


def test_services_of_the_namespace_set_no_setting(full: list[Json]) -> None:
    """A Service with the name regard would set REGARD_PORT to an address."""
    assert [pod["enableServiceLinks"] for pod in pods(full)] == [False, False]


@pytest.mark.parametrize("drain", [(0, 0.5, 30), (5, 5, 60), (0, 12.5, 600)])
def test_grace_period_is_longer_than_the_drain(drain: tuple[int, float, float]) -> None:
    pre_stop, delay, timeout = drain
    settings = {"REGARD_DRAIN_DELAY_SECONDS": delay, "REGARD_DRAIN_TIMEOUT_SECONDS": timeout}
    manifests = render({"preStopSeconds": pre_stop, "settings": settings})
    grace = pods(manifests)[0]["terminationGracePeriodSeconds"]
    assert pre_stop + delay + timeout + 10 <= grace <= pre_stop + delay + timeout + 12
    hook = server(manifests).get("lifecycle")
    assert hook == ({"preStop": {"sleep": {"seconds": pre_stop}}} if pre_stop else None)


def test_admitted_requests_have_their_whole_time_during_a_drain() -> None:
    settings = VALUES["settings"]
    assert settings["REGARD_DRAIN_TIMEOUT_SECONDS"] >= (settings["REGARD_REQUEST_TIMEOUT_SECONDS"])


def test_probes_ask_for_what_they_mean() -> None:
    container = server(render({"startupSeconds": 301}))
    start, ready, live = (
        container[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")
    )
    paths = [probe["httpGet"]["path"] for probe in (start, ready, live)]
    assert paths == ["/health/ready", "/health/ready", "/health/live"]
    assert start["periodSeconds"] * start["failureThreshold"] == 302
    worker_timeout = Settings.model_fields["worker_timeout_seconds"].default
    assert live["periodSeconds"] * live["failureThreshold"] > 2 * worker_timeout


def test_deployment_does_not_give_up_before_the_models_are_loaded() -> None:
    deployment = only(render({"startupSeconds": 900}), "Deployment")
    assert deployment["spec"]["progressDeadlineSeconds"] > 900


def test_gpu_is_asked_for_and_used(full: list[Json]) -> None:
    container = server(full)
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert environment(container)["REGARD_DEVICE"] == "cuda"
    assert environment(container)["TRITON_CACHE_DIR"].startswith("/tmp/")
    assert "nvidia.com/gpu" not in json.dumps(render())


def test_state_volume_is_never_shared_by_two_pods() -> None:
    assert only(render(STATE), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_autoscaler_alone_sets_the_number_of_pods(full: list[Json]) -> None:
    assert "replicas" not in only(full, "Deployment")["spec"]


# Models and keys


def test_pods_wait_for_the_models_that_the_job_pulls(full: list[Json]) -> None:
    job, deployment = pods(full)[1], pods(full)[0]
    (wait,) = deployment["initContainers"]
    path = job["containers"][0]["args"][-1]
    assert job["containers"][0]["args"][:2] == ["models", "pull"]
    assert wait["command"][-1] == path
    assert path in environment(server(full))["REGARD_MODELS"].split(",")
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for pod in (job, deployment)
        for volume in pod["volumes"]
        if volume["name"] == "models"
    ]
    assert claims == [only(full, "PersistentVolumeClaim")["metadata"]["name"]] * 2
    assert only(full, "ConfigMap")["data"]["models.toml"] == MANIFEST
    for container in (wait, server(full)):
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "models"]
        assert mount["readOnly"] is True
        assert environment(container)["REGARD_MODEL_CACHE"] == mount["mountPath"]
        assert environment(container)["REGARD_OFFLINE"] == "true"


@pytest.mark.parametrize(
    "change",
    [
        {"models": {"manifest": MANIFEST.replace("000", "111")}},
        {"image": {"tag": "1.2.3"}},
        {"models": {"job": {"backoffLimit": 2}}},
        {"serviceAccountName": "puller"},
        {"settings": {"REGARD_FIREFOX_REGISTRY": "https://firefox.example.org"}},
    ],
)
def test_changed_job_has_another_name(full: list[Json], change: Json) -> None:
    """Kubernetes refuses to change the pod of a Job."""
    changed = only(render(FULL, change), "Job")
    assert changed["spec"] != only(full, "Job")["spec"] or "manifest" in change["models"]
    assert changed["metadata"]["name"] != only(full, "Job")["metadata"]["name"]


def test_keys_are_in_the_secret_alone(full: list[Json]) -> None:
    secret = only(full, "Secret")
    assert secret["stringData"] == {
        "api-keys": FULL["keys"]["apiKeys"],
        "admin-key": FULL["keys"]["adminKey"],
        "remote-key": FULL["keys"]["remoteKey"],
    }
    others = json.dumps([each for each in full if each is not secret])
    assert not [key for key in FULL["keys"].values() if key in others]


@pytest.mark.parametrize("is_existing", [True, False])
def test_server_reads_the_entries_of_the_secret(is_existing: bool) -> None:
    entries = ["api-keys", "admin-key"]
    existing = {"existingSecret": "mine", "entries": entries}
    manifests = render({"keys": existing if is_existing else {"apiKeys": "a", "adminKey": "b"}})
    name = "mine" if is_existing else f"{NAME}-keys"
    assert bool(of_kind(manifests, "Secret")) is not is_existing
    (volume,) = [each for each in pods(manifests)[0]["volumes"] if each["name"] == "keys"]
    assert volume["secret"]["secretName"] == name
    assert [each["key"] for each in volume["secret"]["items"]] == ["api-keys"]
    found = [each for each in server(manifests)["env"] if "valueFrom" in each]
    assert [(each["name"], each["valueFrom"]["secretKeyRef"]) for each in found] == [
        ("REGARD_ADMIN_KEY", {"name": name, "key": "admin-key"})
    ]


# Network


def matches(selector: Json, labels: Json) -> bool:
    return selector.items() <= labels.items()


def test_selectors_find_the_pods_of_the_server_alone(full: list[Json]) -> None:
    labels = only(full, "Deployment")["spec"]["template"]["metadata"]["labels"]
    job_labels = only(full, "Job")["spec"]["template"]["metadata"]["labels"]
    selectors = [each["spec"]["selector"] for each in of_kind(full, "Service")]
    selectors.append(only(full, "Deployment")["spec"]["selector"]["matchLabels"])
    selectors.append(only(full, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    server_policy, job_policy = of_kind(full, "NetworkPolicy")
    selectors.append(server_policy["spec"]["podSelector"]["matchLabels"])
    for selector in selectors:
        assert matches(selector, labels)
        assert not matches(selector, job_labels)
    assert matches(job_policy["spec"]["podSelector"]["matchLabels"], job_labels)


def test_admin_port_is_open_to_monitoring_alone(full: list[Json]) -> None:
    clients, _ = of_kind(full, "Service")
    assert [port["targetPort"] for port in clients["spec"]["ports"]] == ["http"]
    policy, _ = of_kind(full, "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["egress"] == []
    public, admin = policy["spec"]["ingress"]
    assert public == {"ports": [{"protocol": "TCP", "port": "http"}]}
    assert admin["ports"] == [{"protocol": "TCP", "port": "admin"}]
    assert admin["from"] == VALUES["networkPolicy"]["monitoring"]


def test_gateway_waits_longer_than_the_server() -> None:
    settings = {"REGARD_REQUEST_TIMEOUT_SECONDS": 12.5, "REGARD_FILE_TIMEOUT_SECONDS": 100}
    route = only(render(FULL, {"settings": settings}), "HTTPRoute")
    documents, others = route["spec"]["rules"]
    paths = [match["path"]["value"] for match in documents["matches"]]
    assert paths == ["/translate_file", "/v2/document"]
    assert documents["timeouts"] == {"request": "110s"}
    assert others["timeouts"] == {"request": f"{math.ceil(12.5) + 10}s"}


# Metrics


def test_alerts_are_those_of_prometheus(full: list[Json]) -> None:
    """The chart has a link to the file, and no copy."""
    assert (chart.CHART / "alerts.yml").is_symlink()
    assert only(full, "PrometheusRule")["spec"] == load_yaml(PROMETHEUS / "alerts.yml")


def test_runbooks_get_the_address_of_the_repository() -> None:
    rule = {"enabled": True, "runbookUrl": "https://git.example.org/regard/blob/main"}
    manifest = only(render({"monitoring": {"prometheusRule": rule}}), "PrometheusRule")
    found = {
        r["annotations"]["runbook_url"] for g in manifest["spec"]["groups"] for r in g["rules"]
    }
    assert all(url.startswith(f"{rule['runbookUrl']}/docs/runbooks.md#") for url in found)


def test_prometheus_finds_the_admin_port_under_the_job_of_the_alerts(full: list[Json]) -> None:
    monitor = only(full, "ServiceMonitor")["spec"]
    found = [
        each
        for each in of_kind(full, "Service")
        if matches(monitor["selector"]["matchLabels"], each["metadata"]["labels"])
    ]
    (service,) = found
    assert monitor["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "regard"


def queries(manifests: list[Json]) -> list[str]:
    triggers = only(manifests, "ScaledObject")["spec"]["triggers"]
    assert {trigger["type"] for trigger in triggers} == {"prometheus"}
    return [trigger["metadata"]["query"] for trigger in triggers]


def test_scaling_reads_waiting_work_and_refusals_of_this_release(full: list[Json]) -> None:
    known = exposed_names()
    waiting, refused = queries(full)
    assert metric_names(waiting) == {"regard_queue_tokens", "regard_tokens_total"} & known
    assert metric_names(refused) == {"regard_requests_total"} & known
    _, service = of_kind(full, "Service")
    matchers = f'namespace="{NAMESPACE}",service="{service["metadata"]["name"]}"'
    for query in (waiting, refused):
        selectors = re.findall(r"regard_\w+\{([^}]*)\}", query)
        assert len(selectors) == 2
        assert all(selector.startswith(matchers) for selector in selectors)
        assert "cpu" not in query


SCALING_TESTS = """
evaluation_interval: 10s
tests:
  - interval: 10s
    input_series:
      - {{series: 'regard_queue_tokens{{{pod},pod="a"}}', values: "300x12"}}
      - {{series: 'regard_queue_tokens{{{pod},pod="b"}}', values: "500x12"}}
      - {{series: 'regard_queue_tokens{{{other}}}', values: "9000x12"}}
      - {{series: 'regard_tokens_total{{{pod},kind="source"}}', values: "0+2000x12"}}
      - {{series: 'regard_tokens_total{{{pod},kind="padding"}}', values: "0+9000x12"}}
      - {{series: 'regard_requests_total{{{pod},outcome="ok"}}', values: "0+90x12"}}
      - {{series: 'regard_requests_total{{{pod},outcome="rate_limited"}}', values: "0+100x12"}}
      - {{series: 'regard_requests_total{{{pod},outcome="rejected_tokens"}}', values: "0+10x12"}}
    promql_expr_test:
      - {{expr: '{waiting}', eval_time: 2m, exp_samples: [{{labels: "{{}}", value: 4}}]}}
      - {{expr: '{refused}', eval_time: 2m, exp_samples: [{{labels: "{{}}", value: 0.05}}]}}
  - interval: 10s
    input_series:
      - {{series: 'regard_queue_tokens{{{pod}}}', values: "0x12"}}
      - {{series: 'regard_tokens_total{{{pod},kind="source"}}', values: "0x12"}}
      - {{series: 'regard_requests_total{{{pod},outcome="ok"}}', values: "0x12"}}
      - {{series: 'regard_requests_total{{{pod},outcome="rejected_queue"}}', values: "0x12"}}
    promql_expr_test:
      - {{expr: '{waiting}', eval_time: 2m, exp_samples: [{{labels: "{{}}", value: 0}}]}}
      - {{expr: '{refused}', eval_time: 2m, exp_samples: [{{labels: "{{}}", value: 0}}]}}
"""
"""800 waiting tokens at 200 tokens a second, and 5 % refused; then a server without requests."""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing: make alerts")
def test_queries_of_the_autoscaler_give_seconds_and_a_share(
    full: list[Json], tmp_path: Path
) -> None:
    waiting, refused = queries(full)
    pod = f'namespace="{NAMESPACE}",service="{NAME}-pods"'
    other = pod.replace(NAMESPACE, "test")
    text = SCALING_TESTS.format(pod=pod, other=other, waiting=waiting, refused=refused)
    (tmp_path / "scaling.yml").write_text(text)
    yaml.safe_load(text)
    command = ["promtool", "test", "rules", str(tmp_path / "scaling.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("keys", ["", "a-key"])
def test_notes_warn_of_a_server_without_keys(keys: str) -> None:
    done = helm("install", {"keys": {"apiKeys": keys}})
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("\nNOTES:\n")[2]
    assert f"rollout status deployment/{NAME}" in notes
    assert ("WARNING: no keys" in notes) is not bool(keys)
    assert ("api_key=KEY" in notes) is bool(keys)


def test_comments_of_templates_stay_out_of_strings() -> None:
    assert "{{" not in re.sub(r"\{\{ ?\$(labels|value)[^}]*\}\}", "", render_text(FULL))
