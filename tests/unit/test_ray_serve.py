"""The adapter for Ray Serve: its arguments, its settings, and its autoscaling."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

pytest.importorskip("ray.serve", reason="Ray Serve is not installed: pip install 'regard[ray]'")

from ray.serve.config import AutoscalingContext
from ray.serve.schema import ServeDeploySchema

from service.ray_serve.application import (
    Arguments,
    build,
    ongoing_requests,
    replicas,
    shutdown_seconds,
)
from service.ray_serve.autoscaling import QUEUED_TOKENS, USED_ROWS, QueuedTokensPolicy
from service.ray_serve.replica import read_settings, used_share, waiting_tokens


def context(replicas: int, tokens: list[float], used: list[float]) -> AutoscalingContext:
    """Builds the context of a policy for replicas that report these numbers."""
    metrics = {QUEUED_TOKENS: dict(enumerate(tokens)), USED_ROWS: dict(enumerate(used))}
    state: Any = SimpleNamespace(aggregated_metrics=metrics, current_num_replicas=replicas)
    return state  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("current", "tokens", "used", "wanted"),
    [
        (1, [0.0], [0.0], 1),
        (1, [1000.0], [1.0], 1),
        (1, [1001.0], [1.0], 2),
        (1, [5500.0], [1.0], 6),
        (2, [900.0, 900.0], [1.0, 1.0], 2),
        (2, [0.0, 0.0], [0.9, 0.8], 2),  # empty queues of busy replicas remove none
        (2, [0.0, 0.0], [0.2, 0.2], 1),
        (3, [0.0, 0.0, 0.0], [0.3, 0.3, 0.3], 2),
        (2, [], [], 1),  # no replica has reported yet
    ],
)
def test_replicas_follow_the_waiting_tokens_and_leave_when_rows_are_free(
    current: int, tokens: list[float], used: list[float], wanted: int
) -> None:
    policy = QueuedTokensPolicy(target_tokens=1000)
    assert policy(context(current, tokens, used)) == (wanted, {})


def test_load_counts_the_waiting_tokens_and_the_used_rows_of_the_fullest_model() -> None:
    lane = SimpleNamespace
    queue = SimpleNamespace(lanes=[lane(tokens=7), lane(tokens=30)])
    rows, texts = (
        SimpleNamespace(policy=SimpleNamespace(counts_rows=has)) for has in (True, False)
    )
    scheduler: Any = SimpleNamespace(
        kinds={"translate": rows, "embed": texts},
        queues={"translate": {"en-pt": queue, "pt-en": queue}, "embed": {"x": queue}},
        used_rows=lambda kind, model: {"en-pt": 32, "pt-en": 64}[model],
        free_rows=lambda kind, model: {"en-pt": 96, "pt-en": 64}[model],
    )
    assert waiting_tokens(scheduler) == 3 * 37
    assert used_share(scheduler) == 0.5


def test_replica_checks_no_host_and_answers_http_in_one_process() -> None:
    settings = read_settings({"max_rows": "16", "http_workers": 0})
    assert (settings.max_rows, settings.http_workers, settings.device) == (16, 1, "cpu")
    assert settings.allowed_hosts == ("*",)
    assert read_settings({"allowed_hosts": "example.org"}).allowed_hosts == ("example.org",)


def test_replica_computes_on_a_gpu_only_if_ray_has_assigned_one() -> None:
    assert read_settings({}, has_gpu=True).device == "auto"
    assert read_settings({"device": "cuda"}, has_gpu=True).device == "cuda"
    with pytest.raises(ValueError, match="REGARD_DEVICE is cuda.*raise num_gpus"):
        read_settings({"device": "cuda"})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"admin_port": 9000}, "REGARD_ADMIN_PORT is 9000"),
        ({"http_workers": 2}, "REGARD_HTTP_WORKERS is 2"),
        ({"max_rows": -1}, "max_rows"),
    ],
)
def test_settings_that_a_replica_cannot_have_are_refused(given: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        build(Arguments(settings=given))


@pytest.mark.parametrize(
    "given", [{"max_replicas": 2, "min_replicas": 3}, {"num_cpus": 0}, {"replicas": 2}]
)
def test_wrong_arguments_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        Arguments(**given)


def test_ray_serve_sends_at_least_as_many_requests_as_the_server_admits() -> None:
    settings = read_settings({"max_pending_requests": 100})
    assert ongoing_requests(Arguments(), settings) == 200
    assert ongoing_requests(Arguments(max_ongoing_requests=100), settings) == 100
    with pytest.raises(ValueError, match="max_ongoing_requests is 99.*is 100; raise"):
        ongoing_requests(Arguments(max_ongoing_requests=99), settings)


def test_ray_serve_kills_a_replica_only_after_its_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_settings({"drain_delay_seconds": 5, "drain_timeout_seconds": 20})
    assert shutdown_seconds(settings) == 35
    monkeypatch.setenv("RAY_SERVE_ENABLE_HA_PROXY", "1")
    assert shutdown_seconds(settings) == 65
    monkeypatch.setenv("RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S", "10")
    assert shutdown_seconds(settings) == 45


def test_number_of_replicas_is_fixed_or_follows_the_policy() -> None:
    assert replicas(Arguments(min_replicas=3, max_replicas=3)) == {"num_replicas": 3}
    scaling = replicas(Arguments(min_replicas=1, max_replicas=4))["autoscaling_config"]
    assert (scaling.min_replicas, scaling.max_replicas) == (1, 4)
    assert scaling.policy.get_policy() is not None
    assert scaling.policy.policy_kwargs == {"target_tokens": 8192.0}


def test_configuration_in_the_repository_names_the_builder_and_its_arguments() -> None:
    path = Path(__file__).parents[2] / "deploy" / "ray" / "regard.yaml"
    (application,) = ServeDeploySchema(**yaml.safe_load(path.read_text("utf-8"))).applications
    assert application.import_path == f"{build.__module__}:{build.__name__}"
    assert Arguments(**application.args).max_replicas == 4
