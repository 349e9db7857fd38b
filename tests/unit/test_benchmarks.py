"""The benchmark harness's own arithmetic, tables and processes; no peer is needed."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import contestants, gpu, options, report, throughput, tree
from benchmarks.environments import MissingError, find_interpreter
from benchmarks.peers.protocol import Translate
from benchmarks.peers.server import MAX_BATCH, Batcher
from benchmarks.processes import Contestant, Engine, Server, ending, running
from benchmarks.random_weights import CASES, step_bytes
from benchmarks.report import Result, Sample

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


def test_ratio_to_somebody_absent_is_none() -> None:
    result = result_of({"a": [1.0]})
    assert report.ratio(result, "a", "offline", "sentences_per_second", "b") is None
    assert report.spread(result, "a", "offline", "p50_ms") is None


def test_block_goes_between_its_own_markers() -> None:
    text = "a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n<!-- bench:y -->\n<!-- /bench:y -->\n"
    written = report.replace_marked(text, "x", "new")
    assert "old" not in written
    assert written.startswith("a\n<!-- bench:x -->\n\nnew\n\n<!-- /bench:x -->\nb\n")
    assert report.replace_marked(written, "x", "new") == written


@pytest.mark.parametrize(
    "text", ["", "<!-- /bench:x --> <!-- bench:x -->", "<!-- bench:x --><!-- /bench:x -->" * 2]
)
def test_missing_or_doubled_markers_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="<!-- bench:x -->"):
        report.replace_marked(text, "x", "new")


def test_every_section_has_its_markers() -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    for name in options.SECTIONS:
        report.replace_marked(page, name, "")


def parsed(tmp_path: Path, *words: str) -> options.Options:
    path = tmp_path / "lines"
    path.write_text("one\n")
    return options.parse(["--source", str(path), "--reference", str(path), *words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "offline,nothing"], "nothing"),
        (["--rounds", "0"], "--rounds"),
        (["--clients", "8,0"], "--clients"),
        (["--clients", ""], "--clients"),
        (["--seconds", "0"], "--seconds"),
    ],
)
def test_bad_options_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        parsed(tmp_path, *words)
    assert said in capsys.readouterr().err


def test_stat_of_a_name_with_brackets_and_spaces() -> None:
    text = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0"
    assert tree.parse_stat(text) == tree.Stat(parent=3, ticks=125)


def test_rollup_gives_rss_and_pss() -> None:
    text = "00400000-7ff0 ---p 00000000 00:00 0 [rollup]\nRss:  2048 kB\nPss:  512 kB\n"
    assert tree.parse_rollup(text) == (2048, 512)


def test_tree_has_the_children_of_children() -> None:
    command = ["sh", "-c", "sh -c 'sleep 60 & echo; wait' & wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout
        process.stdout.readline()
        assert len(tree.members(process.pid)) == 3
        memory = tree.memory(process.pid)
        assert 0 < memory.pss < memory.rss
        os.killpg(process.pid, 9)
    assert tree.members(process.pid) == {}
    assert tree.cpu_seconds(os.getpid()) > 0


def test_interpreter_that_is_not_there_or_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="not on PATH"):
        find_interpreter("python-that-is-not", "3.10")
    with pytest.raises(MissingError, match=r"no Python 2\.0"):
        find_interpreter(sys.executable, "2.0")
    shim = tmp_path / "shim"
    shim.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    with pytest.raises(MissingError, match="command not found"):
        find_interpreter(str(shim), None)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert find_interpreter(sys.executable, version) == sys.executable


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


COUNTING = """
import http.server, signal, threading
def end(*_):
    print("SIGTERM", flush=True)
    threading.Timer(0.2, server.shutdown).start()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", {port}), Handler)
signal.signal(signal.SIGTERM, end)
threading.Thread(target=server.serve_forever).start()
"""


def test_servers_that_run_together_get_one_sigterm_each(logs: Path) -> None:
    with ending() as servers:
        for number in range(2):
            server = Server(Contestant(f"server-{number}", [sys.executable, "-c", COUNTING]))
            servers.append(server)
            server.until_ready()
    assert [each.process.returncode for each in servers] == [0, 0]
    for each in servers:
        assert each.log.read_text().count("SIGTERM") == 1


def test_server_that_ends_early_says_why(logs: Path) -> None:
    server = Server(Contestant("broken", [sys.executable, "-c", "raise SystemExit('no port')"]))
    with pytest.raises(MissingError, match="broken: the server ended with status 1: no port"):
        server.until_ready()


def batch_sizes() -> Translate:
    return lambda texts: [f"{text} in {len(texts)}" for text in texts]


async def test_batcher_takes_what_waits_up_to_its_limit() -> None:
    batcher = Batcher(batch_sizes, workers=1)
    waiting = [asyncio.create_task(batcher.translate(str(i))) for i in range(MAX_BATCH + 3)]
    await asyncio.sleep(0)  # all are in the queue
    batcher.start()
    outputs = await asyncio.gather(*waiting)
    for task in batcher.tasks:
        task.cancel()
    outputs = outputs
    assert outputs[0] == f"0 in {MAX_BATCH}"
    assert outputs[-1] == f"{MAX_BATCH + 2} in 3"


def test_step_moves_decoder_weights_and_caches() -> None:
    shape = CASES["opus-mt"]
    weights = 6 * (6 * 512**2 + 2 * 512 * 2048) + 58101 * 512
    caches = shape.rows * 6 * 2 * 512 * (30 + 14.5 + 1)
    assert step_bytes(shape, 2) == 2 * (weights + caches)


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
