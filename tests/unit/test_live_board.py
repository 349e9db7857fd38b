"""The check of the dashboard against a real Prometheus asks for everything.

`make board` runs the check itself.
"""

import io
import json
import urllib.request
from email.message import Message
from urllib.error import HTTPError

import pytest

from checks.board import BOARD
from checks.live_board import Prometheus, alert_series, board_queries, report


class FakePrometheus(Prometheus):
    """Answers every query with the same numbers."""

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
    assert (report(FakePrometheus(numbers, health)) == 0) is is_complete


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
        assert not prometheus.is_up()
    else:
        with pytest.raises(ValueError, match=reason):
            prometheus.is_up()
