"""The gauges of an unloaded model disappear from the metrics; its totals stay."""

from service.items import TRANSLATE
from service.metrics.definitions import Metrics
from service.metrics.figures import Ended
from service.tasks.table import task_series

MODEL = {"model": "en-pt"}
COUNTED = {"task": TRANSLATE, "outcome": "ok", **MODEL}


def counted(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("regard_requests_total", COUNTED)


def end_request(metrics: Metrics) -> None:
    metrics.begin(TRANSLATE)
    metrics.end(Ended(TRANSLATE, "en-pt", "ok", 200, 1, 0.1, {}, {}))


def test_totals_stay_and_continue_after_the_next_load() -> None:
    metrics = Metrics(series=task_series())
    metrics.add_model("en-pt", [TRANSLATE])
    end_request(metrics)
    metrics.forget_model("en-pt")
    assert counted(metrics) == 1
    metrics.add_model("en-pt", [TRANSLATE])
    end_request(metrics)
    assert counted(metrics) == 2


def test_gauges_disappear() -> None:
    metrics = Metrics(series=task_series())
    metrics.add_model("en-pt", [TRANSLATE])
    metrics.model_load.labels("en-pt").set(1)
    assert metrics.registry.get_sample_value("regard_model_load_seconds", MODEL) == 1
    metrics.forget_model("en-pt")
    gauges = [family for family in metrics.registry.collect() if family.type == "gauge"]
    models = {sample.labels.get("model") for family in gauges for sample in family.samples}
    assert "en-pt" not in models
