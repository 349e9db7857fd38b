"""GET /metrics: the series of a new server, the counted figures, and no text of a client."""

import re
from itertools import product

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.metrics.figures import OUTCOMES, STAGES
from service.scheduling.lanes import LANES
from tests.api.conftest import Serve, ServeAny
from tests.api.servers import Server, read_sample
from tests.workers import Script, until

SECRET = "Rumpelstiltskin"
EN_PT = {"task": "translate", "model": "en-pt"}


@pytest.fixture
def server(serve: Serve) -> Server:
    """One that has counted nothing yet."""
    return serve()


def samples(text: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.value)
    return found


def test_series_exist_at_zero_before_the_first_request(serve: Serve, script: Script) -> None:
    script.may_load.clear()
    found = samples(serve(is_ready=False).get("/metrics").text)
    for name in (
        "regard_requests_total",
        "regard_inputs_total",
        "regard_request_duration_seconds_count",
        "regard_stage_duration_seconds_count",
        "regard_first_sentence_seconds_count",
        "regard_tokens_total",
        "regard_source_tokens_count",
        "regard_target_tokens_count",
        "regard_batches_total",
        "regard_batch_rows_count",
        "regard_batch_tokens_count",
        "regard_batch_padding_ratio_count",
        "regard_queue_depth",
        "regard_queue_tokens",
        "regard_queue_oldest_age_seconds",
        "regard_inflight_requests",
        "regard_decode_slots",
        "regard_cancelled_total",
        "regard_truncated_inputs_total",
        "regard_oom_total",
        "regard_batch_splits_total",
        "regard_engine_restarts_total",
        "regard_ready",
        "regard_draining",
    ):
        assert found[name], name
        assert set(found[name]) == {0.0}, name
    assert found["regard_build_info"] == [1]
    assert sorted(found["regard_admission_limit"]) == [1024, 131072]
    assert found["process_resident_memory_bytes"][0] > 0
    assert found["python_info"] == [1]


def test_every_outcome_has_its_series(shared_server: Server) -> None:
    text = shared_server.get("/metrics").text
    for task, model in product(("translate", "attention"), ("en-pt", "pt-en", "none")):
        for outcome, name in product(OUTCOMES, ("requests", "inputs")):
            labels = {"task": task, "model": model, "outcome": outcome}
            assert read_sample(text, f"regard_{name}_total", labels) >= 0


@pytest.mark.parametrize("model", ["en-pt", "pt-en"])
def test_attention_has_its_series_from_the_start(server: Server, model: str) -> None:
    """It has the lanes of every task kind, and no series of tokens, which are not counted."""
    text, kind = server.get("/metrics").text, {"task": "attention", "model": model}

    def sample(name: str, **labels: str) -> float:
        return read_sample(text, f"regard_{name}", {**kind, **labels})

    for name in ("batches_total", "batch_rows_count", "batch_tokens_count"):
        assert sample(name, phase="attention") == 0
    for name in ("depth", "tokens", "oldest_age_seconds"):
        assert [sample(f"queue_{name}", lane=lane) for lane in LANES] == [0] * len(LANES)
        with pytest.raises(KeyError):
            sample(f"queue_{name}", lane="attention")
    for where in ("queued", "running"):
        assert sample("cancelled_total", where=where) == 0
    for stage in STAGES:
        assert sample("stage_duration_seconds_count", stage=stage) == 0
    assert read_sample(text, "regard_inflight_requests", {"task": "attention"}) == 0
    with pytest.raises(KeyError):
        sample("tokens_total", kind="target")


def test_request_is_counted_with_its_texts_tokens_and_stages(server: Server) -> None:
    tokenizer = server.services.catalog.models["en-pt"].vocabularies.source
    texts = ["Hello world.", "It is cold.", "🎉"]
    tokens = sum(len(tokenizer.encode(text)) + 1 for text in texts[:2])
    assert server.translate(texts).status_code == 200
    assert server.sample("regard_requests_total", **EN_PT, outcome="ok") == 1
    assert server.sample("regard_inputs_total", **EN_PT, outcome="ok") == 3
    duration = "regard_request_duration_seconds"
    assert server.sample(f"{duration}_count", **EN_PT, outcome_class="2xx") == 1
    assert 0 < server.sample(f"{duration}_sum", **EN_PT, outcome_class="2xx") < 30
    for stage in STAGES:
        assert server.sample("regard_stage_duration_seconds_count", **EN_PT, stage=stage) == 1
    for kind in ("source", "target"):  # the engine echoes
        assert server.sample("regard_tokens_total", **EN_PT, kind=kind) == tokens
        assert server.sample(f"regard_{kind}_tokens_count", **EN_PT) == 2
        assert server.sample(f"regard_{kind}_tokens_sum", **EN_PT) == tokens
    for other in ("regard_requests_total", "regard_inputs_total"):
        labels = {"task": "translate", "model": "pt-en", "outcome": "ok"}
        assert server.sample(other, **labels) == 0


def test_batches_are_counted(server: Server, script: Script) -> None:
    script.num_steps = 3
    server.translate(["One two three four.", "One."])
    assert server.sample("regard_batches_total", **EN_PT, phase="encode") == 1
    assert server.sample("regard_batches_total", **EN_PT, phase="decode") == 3
    assert server.sample("regard_batch_rows_sum", **EN_PT, phase="encode") == 2
    assert server.sample("regard_batch_rows_sum", **EN_PT, phase="decode") == 6
    assert server.sample("regard_batch_tokens_sum", **EN_PT, phase="decode") == 6
    lengths = sorted(len(sequence.source) for sequence in script.admitted)
    padding = lengths[1] - lengths[0]
    assert server.sample("regard_tokens_total", **EN_PT, kind="padding") == padding
    assert server.sample("regard_batch_padding_ratio_count", **EN_PT) == 4
    ratio = server.sample("regard_batch_padding_ratio_sum", **EN_PT)
    assert ratio == pytest.approx(padding / (2 * lengths[1]))


def test_what_is_pending_shows(serve: Serve, script: Script) -> None:
    server = serve(max_rows=2, max_beam_size=2, bulk_sentences=2)
    script.may_finish.clear()
    job = server.begin_translate(["One.", "Two.", "Three.", "Four."])
    until(lambda: len(script.admitted) == 2)
    single = server.begin_translate("Five.")
    server.until_admitted(2)
    for lane, depth in (("bulk", 2), ("interactive", 1)):
        labels = {**EN_PT, "lane": lane}
        assert server.sample("regard_queue_depth", **labels) == depth
        assert server.sample("regard_queue_tokens", **labels) >= depth
        assert server.sample("regard_queue_oldest_age_seconds", **labels) > 0
    for state, rows in (("used", 2), ("free", 0)):
        assert server.sample("regard_decode_slots", model="en-pt", state=state) == rows
    script.may_finish.set()
    assert (job.result().status_code, single.result().status_code) == (200, 200)


def test_workers_tell_of_their_models_and_memory(serve: Serve) -> None:
    server = serve(workers=2)
    assert server.sample("regard_ready") == 1
    info = {
        "source": "en",
        "target": "pt",
        "device": "cpu",
        "dtype": "float32",
        "revision": server.services.catalog.models["en-pt"].files.revision,
    }
    assert server.sample("regard_model_info", model="en-pt", **info) == 1
    assert server.sample("regard_decode_slots", model="pt-en", state="free") == 16
    slowest = max(models["en-pt"].load_seconds for models in server.core.supervisor.ready.values())
    assert server.sample("regard_model_load_seconds", model="en-pt") == slowest
    for process in ("main", "worker-0", "worker-1"):
        assert server.sample("regard_process_cpu_seconds_total", process=process) > 0
    server.translate(["One.", "Two.", "Three."])
    for worker in ("worker-0", "worker-1"):
        labels = {"worker": worker, "kind": "resident"}
        until(lambda: "worker-1" in server.get("/metrics").text)
        assert server.sample("regard_device_memory_bytes", **labels) > 10_000_000


def test_detection_is_counted_by_itself(server: Server) -> None:
    assert server.post("/detect", json={"q": ["Hello.", "Olá."]}).status_code == 200
    assert server.num_requests("ok", task="detect", model="none") == 1
    labels = {"task": "detect", "model": "none", "outcome": "ok"}
    assert server.sample("regard_inputs_total", **labels) == 2
    server.post("/detect", json={})
    assert server.num_requests("invalid", task="detect", model="none") == 1


def test_what_asks_for_no_translation_is_not_counted(server: Server) -> None:
    """A preflight was counted as a translation."""
    preflight = {"origin": "http://a.b", "access-control-request-method": "POST"}
    server.begin("OPTIONS", "/translate", headers=preflight).result()
    for path in ("/health", "/languages", "/v1/models", "/nowhere", "/metrics"):
        server.get(path)
    found = samples(server.get("/metrics").text)
    assert sum(found["regard_requests_total"]) == 0


def test_no_text_stands_in_the_metrics(server: Server) -> None:
    headers = {"x-request-id": SECRET, "user-agent": SECRET, "authorization": SECRET}
    server.translate(SECRET, api_key=SECRET)
    server.translate(SECRET, source=SECRET)
    server.translate(SECRET, target=SECRET, format=SECRET)
    server.get(f"/{SECRET}", params={SECRET: SECRET}, headers=headers)
    server.post("/translate", content=SECRET, headers={"content-type": SECRET})
    server.post("/detect", json={"q": SECRET}, headers=headers)
    server.begin(SECRET.upper(), "/translate").result()
    assert SECRET.lower() not in server.get("/metrics").text.lower()


def test_reply_tells_its_timings(server: Server) -> None:
    header = server.translate("Hello.").headers["server-timing"]
    timings = {name: float(ms) for name, ms in re.findall(r"(\w+);dur=([0-9.]+)", header)}
    assert [*timings] == ["validate", "tokenize", "queue", "device", "detokenize", "serialize"]
    assert all(milliseconds >= 0 for milliseconds in timings.values())
    assert timings["device"] > 0
    assert ", ".join(f"{name};dur={ms:.2f}" for name, ms in timings.items()) == header


def test_refusal_tells_the_time_until_then(server: Server) -> None:
    header = server.translate("Hello.", target="zz").headers["server-timing"]
    assert re.fullmatch(r"validate;dur=[0-9.]+", header)


LOAD = "endpoint-load-metrics"


def test_responses_report_the_load(serve_any: ServeAny) -> None:
    server = serve_any(load_reports=True)
    until(lambda: LOAD in server.translate("Hello.").headers)
    assert server.translate("Hello.").headers[LOAD].startswith("TEXT application_utilization=0.")


def test_load_is_not_reported_by_default(serve: Serve) -> None:
    server = serve()
    for _ in range(3):
        assert LOAD not in server.translate("Hello.").headers
