import asyncio
import itertools
import json
from dataclasses import replace

import pytest

from service.bench.client import Address
from service.bench.saturation import overload
from service.bench.saturation.overload import OpenLoop, Outcomes, OverloadRun, median_run
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
    recovery_seconds=0.0,
)
REFUSED = b"HTTP/1.1 429 X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


def outcomes_of(*replies: bytes | None) -> Outcomes:
    """The outcomes of a request for each reply."""
    order = itertools.cycle(replies)

    async def run(url: str) -> Outcomes:
        outcomes = Outcomes(deadline=5.0)
        loop = OpenLoop(Address.parse(url), itertools.cycle([b"GET / HTTP/1.1\r\n\r\n"]))
        await loop.run(20.0, len(replies) / 20.0, outcomes)
        loop.close()
        return outcomes

    with served(lambda path, body: next(order)) as url:
        return asyncio.run(run(url))


def test_each_request_ends_as_accepted_refused_or_failed() -> None:
    outcomes = outcomes_of(
        reply_bytes(200, b"{}"), REFUSED, reply_bytes(503, b""), reply_bytes(504, b""), None
    )
    in_time = sorted(seconds < 5 for _, seconds in outcomes.accepted)
    assert in_time == [False, True]  # 504 is no translation
    assert len(outcomes.refusals) == 2
    assert outcomes.without_retry_after == 1
    assert outcomes.errors == {"closed": 1}
    assert len(outcomes.bad) == 4


def test_open_loop_counts_a_server_that_is_gone() -> None:
    outcomes = Outcomes(deadline=1.0)
    with served(FakeTranslator()) as url:
        address = Address.parse(url)
    asyncio.run(OpenLoop(address, itertools.cycle([b""])).run(20.0, 0.1, outcomes))
    assert outcomes.errors == {"connect": 2}


def test_figures_of_several_rounds_are_medians_and_errors_are_sums() -> None:
    runs = [
        replace(RUN, in_time_per_second=8.0, refused_p50_ms=2.0, errors={"500": 1}),
        replace(RUN, in_time_per_second=10.0, refused_p50_ms=None, without_retry_after=1),
        replace(RUN, in_time_per_second=50.0, refused_p50_ms=4.0, errors={"500": 2}),
    ]
    found = median_run(runs)
    assert (found.in_time_per_second, found.refused_p50_ms) == (10.0, 3.0)
    assert (found.errors, found.without_retry_after) == ({"500": 3}, 1)


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
        options = ["--offered", "0.1,0.2", "--deadlines", "1", "--duration", "0.3"]
        result = bench("overload", "--url", url, "--rounds", "2", "--json", *options)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("deadline 1 s") == 4
    report = json.loads(result.stdout)
    assert [run["factor"] for run in report["runs"]] == [0.1, 0.2]
    assert max(run["share_of_peak"] for run in report["runs"]) == 1
    for run in report["runs"]:
        assert (run["refused"], run["errors"], run["memory_mib"]) == (0, {}, 1.0)
