"""The load that a server reports to a proxy."""

from dataclasses import replace

import pytest

from service.metrics.definitions import Metrics
from service.metrics.figures import Ended
from service.metrics.load_report import INTERVAL_SECONDS, Load, LoadReport
from service.scheduling.admission import Admission

LOAD = Load(utilization=0.25, work_seconds=1.5, num_ok=100)


def figures(report: LoadReport) -> dict[str, float]:
    form, _, listed = report.value.decode("ascii").partition(" ")
    assert form == "TEXT"
    return {name: float(value) for name, _, value in (e.partition("=") for e in listed.split(","))}


@pytest.fixture
def report() -> LoadReport:
    """A report after one second with 20 successful requests."""
    report = LoadReport()
    report.add(LOAD, 10.0)
    assert report.value == b""
    report.add(replace(LOAD, num_ok=120), 11.0)
    return report


def test_report_has_the_numbers_of_the_samples(report: LoadReport) -> None:
    assert figures(report) == {
        "application_utilization": 0.25,
        "rps_fractional": 20.0,
        "named_metrics.work_seconds": 1.5,
    }


def test_numbers_are_smoothed(report: LoadReport) -> None:
    report.add(Load(0.75, 2.0, 120 + 40), 12.0)
    found = figures(report)
    assert 0.25 < found["application_utilization"] < 0.75
    assert 20 < found["rps_fractional"] < 40


def test_server_that_fails_all_requests_gets_a_small_weight(report: LoadReport) -> None:
    for second in range(12, 40):
        report.add(replace(LOAD, num_ok=120), float(second))
    assert figures(report)["rps_fractional"] == 0.01


def test_old_numbers_are_not_reported_after_a_pause(report: LoadReport) -> None:
    report.add(replace(LOAD, num_ok=121), 11.0 + 5 * INTERVAL_SECONDS)
    assert report.value == b""


def test_idle_server_has_a_utilization_above_0(report: LoadReport) -> None:
    """A proxy takes 0 for a missing number."""
    for second in range(12, 80):
        report.add(Load(0.0, 0.0, 120), float(second))
    assert figures(report)["application_utilization"] > 0


def test_utilization_is_that_of_the_scarcer_limit() -> None:
    admission = Admission(max_requests=4, max_tokens=1000)
    assert admission.utilization == 0
    admission.admit(10)
    assert admission.utilization == 0.25
    admission.admit(740)
    assert admission.utilization == 0.75


def test_metrics_count_successful_requests_and_billed_characters() -> None:
    metrics = Metrics()
    for outcome, status, billed in (("ok", 200, 5), ("invalid", 400, 0), ("ok", 200, 7)):
        metrics.end(Ended("translate", "en-pt", outcome, status, 1, 0.1, {}, {}, billed))
    assert (metrics.num_ok, metrics.num_billed) == (2, 12)
    value = metrics.registry.get_sample_value
    labels = {"task": "translate", "model": "en-pt", "outcome": "ok"}
    assert value("regard_requests_total", labels) == metrics.num_ok
    assert value("regard_billed_characters_total") == metrics.num_billed
