"""The client of `regard bench attention` that requests attention, against a small server."""

import threading

import orjson
import pytest

from benchmarks.bench.beside import attention_client, knockout_question
from benchmarks.bench.client import BenchError
from tests.unit.bench_server import FakeTranslator, reply_bytes, served
from tests.workers import LIMIT_SECONDS


def test_client_counts_its_replies() -> None:
    with served(lambda path, body: reply_bytes(429, body)) as url:
        with attention_client(url, b"{}") as counts:
            assert counts == []
        (asked,) = counts
    assert asked.replies == asked.errors == asked.bytes / 2 > 0


def test_client_that_cannot_connect_is_an_error() -> None:
    with served(FakeTranslator()) as url:
        pass
    with (
        pytest.raises(BenchError, match="the process of the attention client died"),
        attention_client(url, b"{}"),
    ):
        pass


class DyingServer:
    """Answers the first request, and closes the connection of the second without a reply."""

    def __init__(self) -> None:
        self.replies = [reply_bytes(200, b"{}")]
        self.is_over = threading.Event()

    def __call__(self, path: str, body: bytes) -> bytes | None:
        if self.replies:
            return self.replies.pop()
        self.is_over.set()
        return None


def measure(fault: str | None) -> None:
    """Waits until the attention client dies, and then raises the fault of another client."""
    server = DyingServer()
    with served(server) as url, attention_client(url, b"{}"):
        assert server.is_over.wait(LIMIT_SECONDS)
        if fault:
            raise BenchError(fault)


def test_client_that_dies_later_is_an_error() -> None:
    with pytest.raises(BenchError, match="the process of the attention client died"):
        measure(fault=None)


def test_fault_of_another_client_is_shown_although_the_attention_client_died() -> None:
    with pytest.raises(BenchError, match="no translation"):
        measure(fault="no translation")


def test_knockouts_switch_off_one_word_each() -> None:
    body = orjson.dumps({"text": "a b", "source": "en", "target": "pt", "layers": "all"})
    asked = orjson.loads(knockout_question(body, 2))
    assert asked["knockouts"] == [{"source_words": [0]}, {"source_words": [1]}]
    assert {*asked} == {"text", "source", "target", "knockouts"}
