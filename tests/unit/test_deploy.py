"""The container files agree with each other and with the service they run.

No container engine is needed: the files are parsed, and every name that stands in two of them, or
in a file and in the code, is compared.
"""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from release.locks import BUILD, RUNTIME, read_lock
from service.api.access import host_of
from service.api.tracing import ENDPOINTS
from service.metrics.definitions import Metrics
from service.metrics.figures import DETECT, DOCUMENT
from service.metrics.processes import ProcessMetrics
from service.metrics.prometheus import Histogram
from service.scheduling.lanes import LANES
from service.settings import Settings
from service.tasks.table import TASKS
from tests.unit.bench_server import reply_bytes, served

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
GRAFANA = DEPLOY / "grafana"
SBOM = "/usr/share/sbom/regard.cdx.json"
HARDENED = ("regard", "prometheus", "grafana")

# Given by the image's command, the published port and `stop_grace_period`.
SETTINGS_FIXED_BY_THE_CONTAINER = {"REGARD_HOST", "REGARD_PORT", "REGARD_DRAIN_TIMEOUT_SECONDS"}
SAMPLE_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
METRIC = re.compile(r"\b(?:up|(?:regard|process|python)_\w+)\b")
SERIES_OF_PROMETHEUS = {"up"}
LABELS_OF_PROMETHEUS = {"job", "instance"}
SELECTOR = re.compile(r"\b((?:regard|process)_\w+)\{([^}]*)\}")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


def load_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = load_yaml(ROOT / "docker-compose.yml")
    return parsed


@pytest.fixture(scope="module")
def gpu_compose() -> dict[str, Any]:
    parsed: dict[str, Any] = load_yaml(ROOT / "docker-compose.gpu.yml")
    return parsed


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((GRAFANA / "dashboards" / "regard.json").read_text("utf-8"))
    return parsed


@pytest.fixture(scope="module")
def dockerfile() -> str:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")


@pytest.fixture(scope="module")
def last_stage(dockerfile: str) -> str:
    return dockerfile[dockerfile.rindex("\nFROM ") + 1 :]


def exposed_names() -> set[str]:
    """Names of all samples that the service can expose."""
    names = set(SERIES_OF_PROMETHEUS)
    for family in Metrics().registry.collect():
        suffixes = SAMPLE_SUFFIXES.get(family.type, ("",))
        names |= {family.name + suffix for suffix in suffixes}
    return names


def labels_by_name() -> dict[str, set[str]]:
    """Of each metric, by its name without the suffix of a sample."""
    metrics = vars(Metrics()).values()
    found = {m.name: {*m.label_names, "le"} for m in metrics if isinstance(m, Histogram)}
    found |= {m.name: {*m._labelnames} for m in ProcessMetrics(CollectorRegistry()).collect()}
    return found | {m._name: {*m._labelnames} for m in metrics if isinstance(m, MetricWrapperBase)}


def family(sample: str) -> str:
    """The metric that a sample belongs to."""
    return re.sub("_(total|bucket|sum|count)$", "", sample)


def metric_names(expression: str) -> set[str]:
    return set(METRIC.findall(re.sub(r'"[^"]*"', '""', expression)))


def targets(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Title and expression of each query on the board."""
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def alert_rules() -> list[dict[str, Any]]:
    return [
        rule for group in load_yaml(PROMETHEUS / "alerts.yml")["groups"] for rule in group["rules"]
    ]


def instruction(stage: str, word: str) -> str:
    """The one line of a stage that begins with a Dockerfile instruction."""
    (line,) = [line for line in stage.splitlines() if line.startswith(word + " ")]
    return line.removeprefix(word).strip()


def health_command(last_stage: str) -> list[str]:
    command: list[str] = json.loads(instruction(last_stage, "HEALTHCHECK").split("CMD", 1)[1])
    return command


def queries(board: dict[str, Any]) -> list[tuple[str, str]]:
    """Title and expression of each query on the board and in the alerts."""
    return [*targets(board), *((rule["alert"], rule["expr"]) for rule in alert_rules())]


def test_every_metric_of_the_board_and_the_alerts_is_exposed(board: dict[str, Any]) -> None:
    known = exposed_names()
    for title, query in queries(board):
        names = metric_names(query)
        assert names, title
        assert names <= known, title


def test_every_metric_of_the_service_is_on_the_board(board: dict[str, Any]) -> None:
    shown = {family(n) for _, expression in targets(board) for n in metric_names(expression)}
    assert set(labels_by_name()) - shown == set()


def test_queries_choose_and_group_by_labels_that_exist(board: dict[str, Any]) -> None:
    """Prometheus answers a wrong one with nothing, or with one line for everything."""
    known = labels_by_name()
    for title, query in queries(board):
        names = {family(name) for name in metric_names(query)} & set(known)
        for name, matchers in SELECTOR.findall(query):
            chosen = known.get(family(name), set()) | LABELS_OF_PROMETHEUS
            assert set(LABEL.findall(matchers)) <= chosen, (title, name)
        for labels in GROUPING.findall(query):
            shared = set.intersection(*(known[name] for name in names)) if names else set()
            assert set(re.findall(r"\w+", labels)) <= shared | LABELS_OF_PROMETHEUS, title
        assert set(re.findall(r'task="(\w+)"', query)) <= {*TASKS, DETECT, DOCUMENT}, title
        assert set(re.findall(r'lane="(\w+)"', query)) <= set(LANES), title


def panels_below(board: dict[str, Any], row: str) -> list[dict[str, Any]]:
    titles = [panel["title"] for panel in board["panels"]]
    below = board["panels"][titles.index(row) + 1 :]
    return list(itertools.takewhile(lambda panel: panel["type"] != "row", below))


@pytest.mark.parametrize(("row", "task"), [("Embeddings", "embed"), ("Attention", "attention")])
def test_row_of_a_task_is_about_nothing_else(board: dict[str, Any], row: str, task: str) -> None:
    found = [*targets({"panels": panels_below(board, row)})]
    assert found
    for title, query in found:
        assert query.count(f'task="{task}"') == len(SELECTOR.findall(query)), title


def test_every_variable_of_the_board_reads_an_exposed_metric(board: dict[str, Any]) -> None:
    for variable in board["templating"]["list"]:
        assert metric_names(variable["definition"]) <= exposed_names(), variable["name"]


def test_board_reads_the_provisioned_datasource(board: dict[str, Any]) -> None:
    (datasource,) = load_yaml(GRAFANA / "provisioning/datasources/prometheus.yml")["datasources"]
    used = re.findall(r'"uid": "([^"]+)"', json.dumps([board["panels"], board["templating"]]))
    assert set(used) == {datasource["uid"]}
    assert datasource["url"] == "http://prometheus:9090"


def test_board_interval_equals_the_scrape_interval() -> None:
    """A longer scrape interval than Grafana knows of leaves gaps in every rate."""
    (datasource,) = load_yaml(GRAFANA / "provisioning/datasources/prometheus.yml")["datasources"]
    scrape_interval = load_yaml(PROMETHEUS / "prometheus.yml")["global"]["scrape_interval"]
    assert datasource["jsonData"]["timeInterval"] == scrape_interval


def test_panels_have_ids_of_their_own_and_do_not_overlap(board: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for cell in (
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, (panel["title"], taken[cell])
            taken[cell] = panel["title"]


def test_prometheus_reads_the_mounted_rules_and_scrapes_the_service(
    compose: dict[str, Any], last_stage: str
) -> None:
    config = load_yaml(PROMETHEUS / "prometheus.yml")
    assert [(PROMETHEUS / name).is_file() for name in config["rule_files"]] == [True]
    (job,) = config["scrape_configs"]
    port = instruction(last_stage, "EXPOSE")
    assert job["static_configs"][0]["targets"] == [f"regard:{port}"]
    assert "./deploy/prometheus:/etc/prometheus:ro" in compose["services"]["prometheus"]["volumes"]


def test_bind_mounts_exist_and_are_read_only(compose: dict[str, Any]) -> None:
    mounts = [
        volume.split(":")
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]
    assert mounts
    for source, _, mode in mounts:
        assert (ROOT / source).is_dir(), source
        assert mode == "ro", source


def test_board_folder_of_the_provider_is_the_mounted_one(compose: dict[str, Any]) -> None:
    (provider,) = load_yaml(GRAFANA / "provisioning/dashboards/regard.yml")["providers"]
    folder = provider["options"]["path"]
    assert f"./deploy/grafana/dashboards:{folder}:ro" in compose["services"]["grafana"]["volumes"]


@pytest.mark.parametrize("name", HARDENED)
def test_service_can_write_and_gain_nothing(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit"} <= set(service)
    assert ":latest" not in service["image"] or "build" in service


def test_services_are_published_on_this_machine_only(compose: dict[str, Any]) -> None:
    """A variable opens the server alone: monitoring has no password."""
    for name, service in compose["services"].items():
        default = "${PUBLISH_ADDRESS:-127.0.0.1}:" if name == "regard" else "127.0.0.1:"
        assert all(port.startswith(default) for port in service.get("ports", ())), name


def test_published_server_answers_for_names_of_this_machine_and_for_prometheus(
    compose: dict[str, Any],
) -> None:
    """The server listens on all addresses of its container, so its own default is every name."""
    entries = compose["services"]["regard"]["environment"]
    (value,) = (entry for entry in entries if entry.startswith("REGARD_ALLOWED_HOSTS"))
    allowed = re.sub(r"\$\{REGARD_ALLOWED_HOSTS:-(\w+)\}", r"\1", value.partition("=")[2])
    assert allowed.split(",") == ["localhost", "regard"]
    (job,) = load_yaml(PROMETHEUS / "prometheus.yml")["scrape_configs"]
    assert [host_of(target) for target in job["static_configs"][0]["targets"]] == ["regard"]


def test_log_of_every_container_is_bounded(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service.get("logging", {}).get("driver") == "json-file", name
        assert {"max-size", "max-file"} <= set(service["logging"]["options"]), name


def environment(parsed: dict[str, Any]) -> list[str]:
    return [entry.split("=")[0] for entry in parsed["services"]["regard"]["environment"]]


def test_image_can_send_traces_to_a_collector(compose: dict[str, Any]) -> None:
    assert "opentelemetry-sdk" in read_lock(RUNTIME)
    assert ENDPOINTS[-1] in environment(compose)


def test_prometheus_stores_exemplars(compose: dict[str, Any]) -> None:
    assert "--enable-feature=exemplar-storage" in compose["services"]["prometheus"]["command"]


def test_every_setting_is_passed_on(compose: dict[str, Any], gpu_compose: dict[str, Any]) -> None:
    """One that is missing would be dropped in silence, however it is set on the host."""
    settings = {"REGARD_" + field.upper() for field in Settings.model_fields}
    passed, passed_on_gpu = (
        {name for name in environment(parsed) if name.startswith("REGARD_")}
        for parsed in (compose, gpu_compose)
    )
    assert passed == settings - SETTINGS_FIXED_BY_THE_CONTAINER
    assert passed_on_gpu <= passed


def test_container_is_given_the_time_that_draining_takes(compose: dict[str, Any]) -> None:
    grace_period = compose["services"]["regard"]["stop_grace_period"]
    drain_timeout_seconds = Settings.model_fields["drain_timeout_seconds"].default
    entries = compose["services"]["regard"]["environment"]
    (delay,) = (entry for entry in entries if entry.startswith("REGARD_DRAIN_DELAY_SECONDS="))
    delay_seconds = float(delay.rpartition(":-")[2].removesuffix("}"))
    assert float(grace_period.removesuffix("s")) > delay_seconds + drain_timeout_seconds


def test_gpu_file_only_changes_the_service(
    compose: dict[str, Any], gpu_compose: dict[str, Any]
) -> None:
    assert set(gpu_compose["services"]) == {"regard"}
    service = gpu_compose["services"]["regard"]
    assert service["image"] != compose["services"]["regard"]["image"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]


def test_stages_share_one_base_image_and_the_last_has_no_build_tools(
    dockerfile: str, last_stage: str
) -> None:
    bases = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", dockerfile, re.MULTILINE)
    assert bases == [
        ("${BASE}", "base"),
        ("base", "dependencies"),
        ("base", "system"),
        ("dependencies", "build"),
        ("system", ""),
    ]
    system = dockerfile[dockerfile.index("\nFROM base AS system") :].split("\nFROM ")[1]
    assert not re.search(r"\bpip\b|gcc|curl", system + last_stage)
    assert 'ARG APT_PACKAGES=""' in system  # nothing is installed by default


def test_image_has_every_label_of_the_specification(last_stage: str) -> None:
    """`ref.name` and `base.digest` are known to the builder alone."""
    found = re.findall(r"org\.opencontainers\.image\.([\w.]+)=", instruction(last_stage, "LABEL"))
    names = "authors created description documentation licenses revision source title url vendor"
    assert set(found) == {*names.split(), "version", "base.name"}
    for argument in ("BASE", "VERSION", "REVISION", "SOURCE", "CREATED"):
        assert f'="${{{argument}}}"' in last_stage
        assert re.search(rf"^ARG {argument}\b", last_stage, re.MULTILINE), argument


def test_image_has_its_bill_of_materials_but_not_the_tool(dockerfile: str, last_stage: str) -> None:
    assert f"/staged{SBOM}" in dockerfile
    assert "COPY --from=build /staged/ /" in last_stage
    assert "cyclonedx-bom" in read_lock(BUILD)
    assert "cyclonedx-bom" not in read_lock(RUNTIME)


def test_image_runs_as_a_fixed_user_that_is_not_root(last_stage: str) -> None:
    assert instruction(last_stage, "USER") == "10001:10001"
    assert instruction(last_stage, "STOPSIGNAL") == "SIGTERM"
    assert json.loads(instruction(last_stage, "ENTRYPOINT")) == ["regard"]


def test_everything_that_is_copied_passes_the_ignore_file(dockerfile: str) -> None:
    """`.dockerignore` lets in by name; a forgotten name fails the build only in a container."""
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
    assert {name for line in copied for name in line.split()} == allowed


def test_compose_and_image_check_health_alike(compose: dict[str, Any], last_stage: str) -> None:
    assert compose["services"]["regard"]["healthcheck"]["test"] == [
        "CMD",
        *health_command(last_stage),
    ]


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_health_command_tells_ready_from_not_ready(
    last_stage: str, status: int, healthy: bool
) -> None:
    """A proxy in the environment is passed by: it could answer 200 for a dead server."""
    paths = []

    def answer(path: str, _body: bytes) -> bytes:
        paths.append(path)
        return reply_bytes(status, b"")

    with served(answer) as url:
        environment = {"REGARD_PORT": url.rpartition(":")[2], "http_proxy": "http://127.0.0.1:1"}
        command = [sys.executable, *health_command(last_stage)[1:]]
        result = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (result.returncode == 0) is healthy, result.stderr
    assert paths == ["/health/ready"]
