"""`regard bench attention` and `regard bench bulk`: translations beside other requests."""

import json
from typing import Any

import orjson
import pytest

from benchmarks.bench import beside
from benchmarks.bench.beside import Asked, knockout_question, send_in_a_loop
from benchmarks.bench.client import BenchError
from tests.unit.bench_server import FakeTranslator, bench, reply_bytes, served

USAGE = {"source_tokens": 9, "target_tokens": 8, "attention_values": 700}
SHORT = ("--duration", "0.3", "--rounds", "1", "--clients", "1", "--limit", "1e9", "--json")


def report_of(name: str, *arguments: str) -> dict[str, Any]:
    translator = FakeTranslator()

    def answer(path: str, body: bytes) -> bytes:
        if path.startswith("/attention"):
            return reply_bytes(200, json.dumps({"usage": USAGE}).encode())
        return translator(path, body)

    with served(answer) as url:
        result = bench(name, *SHORT, *arguments, "--url", url)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    assert [run["errors"] for run in (*report["alone"], *report["beside"])] == [{}, {}]
    return report


def test_attention_is_requested_in_every_second_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "ATTENTION_WARMUP_SECONDS", 0.1)
    report = report_of("attention", "--tokens", "9")
    (asked,) = report["asked"]
    assert (report["tokens"], report["values"]) == ([9, 8], 700)
    assert asked["replies"] > 1
    assert asked["errors"] == 0


def test_lists_are_sent_in_every_second_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "LISTS_WARMUP_SECONDS", 0.1)
    report = report_of("bulk", "--size", "9")
    assert report["lists"] > 0
    assert report["statuses"] == {}


def test_replies_of_the_attention_client_are_counted() -> None:
    with served(lambda path, body: reply_bytes(429, body)) as url:
        assert send_in_a_loop(url, "/attention", b"{}", 0.0) == Asked(1, 1, 2)
    with pytest.raises(BenchError, match="is the server running"):
        send_in_a_loop(url, "/attention", b"{}", 0.0)


def test_knockouts_switch_off_one_word_each() -> None:
    body = orjson.dumps({"text": "a b", "source": "en", "target": "pt", "layers": "all"})
    asked = orjson.loads(knockout_question(body, 2))
    assert asked["knockouts"] == [{"source_words": [0]}, {"source_words": [1]}]
    assert {*asked} == {"text", "source", "target", "knockouts"}
