import itertools
import json
import math
from dataclasses import replace

import pytest
import uvloop

from benchmarks.bench import overload
from benchmarks.bench.client import Address
from benchmarks.bench.load import End, OpenLoop, Window, steady
from benchmarks.bench.overload import (
    OverloadRun,
    is_in_time,
    median_run,
    outcomes,
    recovery_seconds,
)
from tests.unit.bench_server import FakeTranslator, bench, reply_bytes, served

RUN = OverloadRun(
    factor=3.0,
    deadline_seconds=1.0,
    offered_per_second=30.0,
    in_time_per_second=10.0,
    share_of_peak=1.0,
    accepted_p99_seconds=0.5,
    late_share=0.0,
    refused=20,
    refused_p50_ms=None,
    without_retry_after=0,
    errors={},
    memory_mib=900.0,
    recovery_seconds=0,
)
REFUSED = b"HTTP/1.1 429 X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


def ends_of(*replies: bytes | None, timeout_seconds: float = 10.0) -> list[End]:
    """The ends of a request for each reply."""
    order = itertools.cycle(replies)
    window = Window()
    with served(lambda path, body: next(order)) as url:
        requests = itertools.cycle([b"GET / HTTP/1.1\r\n\r\n"])
        loop = OpenLoop(Address.parse(url), requests, timeout_seconds)
        uvloop.run(loop.run(steady(20.0, len(replies) / 20.0), window))
    return window.ends


def test_each_request_ends_as_accepted_refused_or_failed() -> None:
    ends = ends_of(
        reply_bytes(200, b"{}"), REFUSED, reply_bytes(503, b""), reply_bytes(504, b""), None
    )
    found = outcomes(ends, 5.0)
    assert found["late_share"] == 0.5  # 504 is no translation
    assert math.isinf(found["accepted_p99_seconds"])
    assert (found["refused"], found["without_retry_after"]) == (2, 1)
    assert found["errors"] == {"closed": 1}
    assert sum(not is_in_time(each, 5.0) for each in ends) == 4


def test_request_without_a_reply_fails_after_a_time() -> None:
    ends = ends_of(b"", REFUSED, timeout_seconds=0.2)
    assert outcomes(ends, 5.0)["errors"] == {"timeout": 1}


def test_large_requests_and_replies_are_whole() -> None:
    """They do not fit into the buffers of a connection."""
    body = b"x" * 8_000_000
    request = Address("localhost", 80, "").request("POST", "/", body)
    window = Window()
    with served(lambda path, body: reply_bytes(200, body)) as url:
        loop = OpenLoop(Address.parse(url), itertools.repeat(request), 60.0)
        uvloop.run(loop.run(steady(100.0, 0.03), window))
    assert [each.status for each in window.ends] == [200] * 3


def test_connection_that_the_server_closes_is_replaced() -> None:
    last = b"HTTP/1.1 429 X\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    found = outcomes(ends_of(last, last, last), 5.0)
    assert (found["refused"], found["errors"]) == (3, {})


def test_open_loop_counts_a_server_that_is_gone() -> None:
    window = Window()
    with served(FakeTranslator()) as url:
        address = Address.parse(url)
    loop = OpenLoop(address, itertools.repeat(b"GET / HTTP/1.1\r\n\r\n"), 1.0)
    uvloop.run(loop.run(steady(20.0, 0.1), window))
    assert window.errors().total() == 2


def test_figures_of_several_rounds_are_medians_and_errors_are_sums() -> None:
    runs = [
        replace(RUN, in_time_per_second=8.0, refused_p50_ms=2.0, errors={"500": 1}),
        replace(RUN, in_time_per_second=10.0, refused_p50_ms=None, without_retry_after=1),
        replace(RUN, in_time_per_second=50.0, refused_p50_ms=4.0, errors={"500": 2}),
    ]
    found = median_run(runs)
    assert (found.in_time_per_second, found.refused_p50_ms) == (10.0, 3.0)
    assert (found.errors, found.without_retry_after) == ({"500": 3}, 1)


def test_recovery_ends_with_the_last_second_of_many_bad_requests() -> None:
    assert recovery_seconds([], 100.0) == 0
    assert recovery_seconds([0.1] * 5, 100.0) == 0
    assert recovery_seconds([0.1] * 6, 100.0) == 1
    assert recovery_seconds([2.9] * 6 + [7.5], 100.0) == 3


def test_command_shows_the_share_of_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overload, "CAPACITY_SECONDS", 0.2)
    monkeypatch.setattr(overload, "RECOVERY_SECONDS", 0.1)
    fake = FakeTranslator()

    def answer(path: str, body: bytes) -> bytes:
        if path != "/metrics":
            return fake(path, body)
        return reply_bytes(
            200, fake.metrics().encode() + b"process_resident_memory_bytes 1048576\n"
        )

    with served(answer) as url:
        # Few requests in a long time: a busy machine answers some of them before the end.
        options = ["--offered", "0.01,0.02", "--deadlines", "1", "--duration", "1"]
        result = bench("overload", "--url", url, "--rounds", "1", "--json", *options)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("deadline 1 s") == 2
    report = json.loads(result.stdout)
    assert [run["factor"] for run in report["runs"]] == [0.01, 0.02]
    assert max(run["share_of_peak"] for run in report["runs"]) == 1
    for run in report["runs"]:
        assert (run["refused"], run["errors"], run["memory_mib"]) == (0, {}, 1.0)
