"""The benchmark harness: its arithmetic, tables, processes and load; no peer is needed."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import contestants, gpu, load, options, report, throughput
from benchmarks.environments import MissingError
from benchmarks.load import Load, Shape
from benchmarks.processes import Contestant, Engine, Server, running
from benchmarks.report import Result, Sample
from tests.unit.bench_server import Answer, reply_bytes, served

ROOT = Path(__file__).resolve().parents[2]


def result_of(rates: dict[str, list[float]], case: str = "offline") -> Result:
    samples = [
        Sample(name, case, turn, {"sentences_per_second": rate, "requests_per_second": rate})
        for name, values in rates.items()
        for turn, rate in enumerate(values, 1)
    ]
    return Result("offline", samples)


def test_ratio_is_taken_within_each_round() -> None:
    """Both halve in round 2: a ratio of medians over other rounds would not be 2."""
    result = result_of({"a": [200.0, 100.0, 90.0], "b": [100.0, 50.0, 45.0]})
    elsewhere = [Sample("a", "elsewhere", i, {"sentences_per_second": 1.0}) for i in (1, 2, 3)]
    result.samples += elsewhere
    assert report.ratio(result, "a", "offline", "sentences_per_second", "b") == 2.0
    lagging = result_of({"a": [100.0, 10.0, 40.0], "b": [10.0, 20.0, 40.0]})
    assert report.ratio(lagging, "a", "offline", "sentences_per_second", "b") == 1.0


def test_block_goes_between_its_own_markers() -> None:
    text = "a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n<!-- bench:y -->\n<!-- /bench:y -->\n"
    written = report.replace_marked(text, "x", "new")
    assert "old" not in written
    assert written.startswith("a\n<!-- bench:x -->\n\nnew\n\n<!-- /bench:x -->\nb\n")
    assert report.replace_marked(written, "x", "new") == written


def test_every_section_has_its_markers() -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    for name in options.SECTIONS:
        report.replace_marked(page, name, "")


def parsed(tmp_path: Path, *words: str) -> options.Options:
    path = tmp_path / "lines"
    path.write_text("one\n")
    return options.parse(["--source", str(path), "--reference", str(path), *words])


NOISY = """
import os
from benchmarks.peers import protocol
def shout(texts):
    os.write(1, b"noise of a native library\\n")
    return [text.upper() for text in texts]
protocol.serve(["one", "two"], shout)
"""


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("benchmarks.processes.WORK", tmp_path)
    return tmp_path / "logs"


def test_engine_takes_turns_past_noise(logs: Path) -> None:
    engine = Engine(Contestant("noisy", [sys.executable, "-c", NOISY]))
    assert engine.run() >= 0
    assert engine.outputs() == ["ONE", "TWO"]
    assert engine.memory().rss > 1
    assert engine.stop() == 0
    assert "noise" in (logs / "noisy.log").read_text()


def test_engine_that_cannot_start_is_left_out_with_the_reason(logs: Path, tmp_path: Path) -> None:
    result = Result("offline")
    broken = Contestant("broken", [sys.executable, "-c", "raise SystemExit('no such engine')"])
    prepares = {"regard": lambda _: broken}
    with running(Engine, prepares, parsed(tmp_path), result) as engines:
        assert engines == []
    assert result.notes == ["regard was left out: broken: the engine ended: no such engine"]


def test_server_that_ends_early_says_why(logs: Path) -> None:
    server = Server(Contestant("broken", [sys.executable, "-c", "raise SystemExit('no port')"]))
    with pytest.raises(MissingError, match="broken: the server ended with status 1: no port"):
        server.until_ready()


RunGpu = Callable[..., str]


@pytest.fixture
def run_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunGpu:
    """Runs the benchmark of a GPU on the CPU, and returns what it prints."""

    def run(*words: str) -> str:
        options = ["--device", "cpu", "--smoke", "--rounds", "1", "--results", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", ["gpu", *options, *words])
        gpu.main()
        return capsys.readouterr().out

    return run


def test_gpu_benchmark_runs_on_a_cpu(run_gpu: RunGpu, tmp_path: Path) -> None:
    printed = run_gpu("--shapes", "opus-mt,nllb-600m", "--tokens", "4")
    result = report.load(tmp_path / "generate.json")
    contestants = {(s.case, s.contestant) for s in result.samples}
    cases = ("opus-mt, 2 rows", "nllb-600m, 2 rows")
    assert contestants == {(case, name) for case in cases for name in ("regard", "transformers")}
    assert all(sample.figures["kernels_per_step"] > 0 for sample in result.samples)
    assert "| opus-mt, 2 rows | **regard** |" in printed


def test_gpu_benchmark_of_embeddings_runs_on_a_cpu(run_gpu: RunGpu, tmp_path: Path) -> None:
    assert "| **regard** |" in run_gpu("--embeddings")
    result = report.load(tmp_path / "gpu_embedding.json")
    assert [sample.contestant for sample in result.samples] == ["regard", "transformers-4"]


def test_every_shape_is_run_by_regard_and_the_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contestants, "peer_python", lambda _: "python")
    for case in throughput.SHAPES:
        prepares = case.prepares(parsed(tmp_path))
        found = [prepare(parsed(tmp_path)) for prepare in prepares.values()]
        assert [each.name for each in found] == list(prepares)
        assert case.shape in found[0].command


BODIES = [f'{{"q":"text {i} é"}}' for i in range(5)]


def run(answer: Answer, clients: int = 1, **shape: Any) -> Load:
    with served(answer) as url:
        port = int(url.rpartition(":")[2])
        return load.run(port, BODIES, Shape(clients, **shape), os.getpid())


def test_bodies_are_sent_in_turn_from_the_offset() -> None:
    seen: list[str] = []

    def answer(_path: str, body: bytes) -> bytes:
        seen.append(body.decode())
        return reply_bytes(200, body)

    found = run(answer, seconds=0.5, offset=8)
    assert found.requests > 0
    assert found.errors == {}
    assert seen[:7] == [BODIES[(3 + i) % 5] for i in range(7)]


def test_errors_are_counted_by_status() -> None:
    numbers = iter(range(10_000))

    def answer(_path: str, body: bytes) -> bytes | None:
        number = next(numbers)
        return None if number == 0 else reply_bytes(429 if number in (3, 6) else 200, body)

    found = run(answer, seconds=0.5)
    assert found.requests > 0
    assert found.errors == {"closed": 1, "429": 2}


def test_server_that_only_refuses_ends_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_FAILURES", 3)
    with pytest.raises(MissingError, match="none succeeded"):
        run(lambda path, body: None, seconds=60.0)
