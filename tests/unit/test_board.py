"""The Grafana dashboard, its alerts, and the schema of the Helm chart."""

import io
import json
import re
import urllib.request
from email.message import Message
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from checks import chart
from checks.board import BOARD, DESCRIPTION, panel, render
from checks.live_board import Prometheus, alert_series, board_queries, report
from service.settings import Settings

from .test_deploy import PROMETHEUS, ROOT, alert_rules, load_yaml


def entry(**changes: Any) -> dict[str, Any]:
    return {"title": "Rows", "about": "Rows in use.", "queries": {"rows": "sum(x)"}, **changes}


def test_written_board_is_the_described_one() -> None:
    """After an edit of board.yml: python -m checks.board."""
    assert render(yaml.safe_load(DESCRIPTION.read_text("utf-8"))) == BOARD.read_text("utf-8")


def test_schema_of_the_chart_has_the_settings_of_the_server() -> None:
    """After an edit of the settings: python -m checks.chart."""
    schema = json.loads(chart.SCHEMA.read_text("utf-8"))
    assert schema["properties"]["settings"]["properties"] == chart.settings()
    assert {f"REGARD_{name.upper()}" for name in Settings.model_fields} >= chart.FIXED


@pytest.mark.parametrize("wrong", [{"kind": "pie"}, {"colour": "red"}])
def test_mistyped_description_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="Rows has the"):
        panel(entry(**wrong))


class FakePrometheus(Prometheus):
    def __init__(self, numbers: list[str], health: str = "ok") -> None:
        self.numbers = numbers
        self.health = health

    def get(self, path: str, **parameters: str) -> object:
        if path == "rules":
            return {"groups": [{"rules": [{"name": "RegardDown", "health": self.health}]}]}
        if path == "query_exemplars":
            return [{"exemplars": [*self.numbers]}]
        return {"result": [{"value": [0, number]} for number in self.numbers]}


def test_every_query_of_the_board_is_run_without_variables() -> None:
    queries = [*board_queries()]
    board = json.loads(BOARD.read_text("utf-8"))
    assert len(queries) == sum(len(panel.get("targets", ())) for panel in board["panels"])
    assert not [query for query in queries if "$" in query.expression]


def test_every_series_of_an_alert_is_looked_for() -> None:
    found = {query.place: query.expression for query in alert_series()}
    assert found["RegardDown"] == 'count(up{job="regard"})'
    assert found["RegardOutOfMemory"] == "count(regard_oom_total)"


@pytest.mark.parametrize(
    ("numbers", "health", "is_complete"),
    [(["1"], "ok", True), (["0"], "ok", True), ([], "ok", False), (["NaN"], "ok", False)]
    + [(["1"], "err", False)],
)
def test_missing_data_is_counted(numbers: list[str], health: str, is_complete: bool) -> None:
    assert (report(FakePrometheus(numbers, health), 0.0) == 0) is is_complete


@pytest.mark.parametrize(
    ("status", "reason"), [(503, "TSDB not ready"), (422, "invalid expression")]
)
def test_prometheus_that_is_not_ready_is_not_up(
    monkeypatch: pytest.MonkeyPatch, status: int, reason: str
) -> None:
    body = json.dumps({"status": "error", "error": reason}).encode()

    def refuse(url: str, timeout: float) -> None:
        raise HTTPError(url, status, reason, Message(), io.BytesIO(body))

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    prometheus = Prometheus("http://127.0.0.1:9")
    if status == 503:
        assert not prometheus.is_up(0.0)
    else:
        with pytest.raises(ValueError, match=reason):
            prometheus.is_up(0.0)


def test_every_alert_is_tested_firing_and_silent() -> None:
    """A new alert needs a case in alerts_test.yml or budget_test.yml, and an entry in `silent`."""
    files = [load_yaml(PROMETHEUS / f"{name}_test.yml") for name in ("alerts", "budget")]
    cases = [case for file in files for case in file["tests"]]
    silent = {each["alertname"] for case in cases for each in case.get("alert_rule_test", ())}
    samples = [
        sample["labels"]
        for case in cases
        for expression in case.get("promql_expr_test", ())
        for sample in expression["exp_samples"]
    ]
    firing = set(re.findall(r'alertname="(\w+)"', str(samples)))
    names = {rule["alert"] for rule in alert_rules()}
    assert (names - firing, names - silent) == (set(), set())


def test_alerts_say_how_bad_it_is_and_link_to_their_runbooks() -> None:
    names = [rule["alert"] for rule in alert_rules()]
    text = (ROOT / "docs" / "runbooks.md").read_text("utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == names
    for rule in alert_rules():
        name = rule["alert"]
        assert name.startswith("Regard")
        assert rule["labels"]["severity"] in {"page", "ticket"}, name
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, name
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{name.lower()}"
        assert f"\n## {name}\n\n**Meaning.**" in text
