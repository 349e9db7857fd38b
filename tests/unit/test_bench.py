"""The benchmark commands, against a small HTTP server of the test's own: no model is loaded.

The fake is enough because the commands know a server by its replies and its /metrics alone.
"""

import asyncio
import contextlib
import json
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from service.bench import load
from service.bench.client import Address, BenchError, Connection, RequestError, parse_reply
from service.bench.commands import app
from service.bench.load import LoadReport, Window
from service.bench.quality import Scorer, read_lines, split_pair
from service.bench.sentences import SENTENCES
from service.bench.server import running_server

OK = b"HTTP/1.1 200 OK\r\n"
TRANSLATED = OK + b'content-length: 25\r\n\r\n{"translatedText": "Ola"}'


def reply_bytes(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


Answer = Callable[[str, bytes], bytes | None]
"""Path and body to the bytes of a reply; None ends the connection without one."""


@contextlib.contextmanager
def served(answer: Answer) -> Iterator[str]:
    """Serve keep-alive connections from threads, because the commands block theirs."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while request := self.rfile.readline():
                length = 0
                while (line := self.rfile.readline()) != b"\r\n":
                    name, _, value = line.lower().partition(b":")
                    length = int(value) if name == b"content-length" else length
                reply = answer(request.split()[1].decode(), self.rfile.read(length))
                if reply is None:
                    return
                self.wfile.write(reply)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class FakeTranslator:
    """Translates to upper case; each request is one decode step of 4 rows, 9 tokens, 1 padding."""

    def __init__(self, fails: Callable[[int], bool] = lambda number: False) -> None:
        self.requests: list[dict[str, Any]] = []
        self.fails = fails

    def __call__(self, path: str, body: bytes) -> bytes:
        if path != "/translate":
            return reply_bytes(200, self.metrics().encode())
        self.requests.append(json.loads(body))
        if self.fails(len(self.requests)):
            return reply_bytes(429, b'{"error": "full", "error_type": "overloaded"}')
        text = self.requests[-1]["q"]
        upper = [part.upper() for part in text] if isinstance(text, list) else text.upper()
        return reply_bytes(200, json.dumps({"translatedText": upper}).encode())

    def metrics(self) -> str:
        return metrics_text(rows=4, steps=1, source=9, padding=1, times=len(self.requests))


def metrics_text(rows: int, steps: int, source: int, padding: int, times: int = 1) -> str:
    batch = '{task="translate",model="en-pt",phase="decode"}'
    return (
        "# TYPE regard_batch_rows histogram\n"
        f'regard_batch_rows_bucket{{phase="decode",le="+Inf"}} {steps * times}\n'
        f"regard_batch_rows_sum{batch} {rows * times}\n"
        f"regard_batch_rows_count{batch} {steps * times}\n"
        'regard_batch_rows_sum{phase="encode"} 1000\nregard_batch_rows_count{phase="encode"} 1\n'
        "# TYPE regard_tokens_total counter\n"
        f'regard_tokens_total{{kind="source",model="en-pt"}} {source * times}\n'
        f'regard_tokens_total{{kind="padding",model="en-pt"}} {padding * times}\n'
        f'regard_tokens_total{{kind="target",model="en-pt"}} {7 * times}\n'
    )


def bench(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def report(
    clients: int = 1, rate: float = 10.0, errors: dict[str, int] | None = None
) -> LoadReport:
    return LoadReport(clients, 1.0, 10, rate, 1.0, 2.0, 3.0, errors or {}, None, None)


# Figures


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([7], 99, 7), ([1, 2, 3, 4], 50, 2), (list(range(1, 101)), 95, 95)],
)
def test_percentile_is_a_value_that_was_measured(
    values: list[float], percent: float, expected: float | None
) -> None:
    assert load.percentile(values, percent) == expected


def test_rows_and_padding_are_differences_of_two_readings() -> None:
    before = metrics_text(rows=100, steps=10, source=500, padding=500)
    after = metrics_text(rows=400, steps=20, source=800, padding=600)
    assert load.mean_decode_rows(before, after) == 30.0
    assert load.padding_share(before, after) == 0.25


def test_rows_and_padding_are_unknown_when_nothing_ran_or_no_metrics_exist() -> None:
    same = metrics_text(rows=100, steps=10, source=500, padding=500)
    for before, after in [(same, same), ("", "")]:
        assert load.mean_decode_rows(before, after) is None
        assert load.padding_share(before, after) is None


def test_samples_of_all_other_labels_are_summed() -> None:
    text = (
        'a_total{kind="x",m="1"} 2\na_total{kind="x",m="2"} 3\na_total{kind="y"} 100\nab_total 7\n'
    )
    assert load.sum_samples(text, "a_total", kind="x") == 5


def test_window_counts_sentences_inside_it_and_errors_always() -> None:
    window = Window(start=10.0, end=20.0)
    for finished in (9.9, 10.0, 20.0, 20.1):
        window.record(finished - 1.0, finished, None)
        window.record(finished - 1.0, finished, "429")
    result = load.summarise(8, window, "", "")
    assert (result.sentences, result.sentences_per_second, result.p99_ms) == (2, 0.2, 1000.0)
    assert result.errors == {"429": 4}


def test_ratios_are_to_the_first_run() -> None:
    assert load.ratios([report(rate=10.0), report(rate=25.0)]) == [1.0, 2.5]
    assert load.ratios([report(rate=0.0), report(rate=25.0)]) == [None, None]


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (TRANSLATED, None),
        (reply_bytes(200, b"{}"), "200 without translatedText"),
        (reply_bytes(429, b'{"error": "full", "error_type": "overloaded"}'), "429 overloaded"),
        (reply_bytes(502, b"<html>"), "502"),
        (reply_bytes(500, b"[]"), "500"),
    ],
)
def test_failures_are_named_by_status_and_error_type(reply: bytes, failure: str | None) -> None:
    parsed = parse_reply(reply)
    assert parsed is not None
    assert load.failure_of(parsed) == failure


def test_client_counts_are_a_list_of_positive_numbers() -> None:
    assert load.parse_clients("1,64") == [1, 64]
    for text in ("0", "", "1,,2", "-1", "x", "1.5"):
        with pytest.raises(BenchError, match="whole numbers above 0"):
            load.parse_clients(text)


@pytest.mark.parametrize("language", ["en", "pt"])
def test_built_in_sentences_are_plain_and_of_many_lengths(language: str) -> None:
    lengths = [len(sentence.split()) for sentence in SENTENCES[language]]
    assert len(lengths) == len(set(SENTENCES[language])) == 40
    assert (min(lengths), max(lengths) > 30, max(lengths) <= 35) == (5, True, True)
    assert all(sentence[-1] in ".?" for sentence in SENTENCES[language])
    assert load.built_in_sentences(f"{language}-xx") == SENTENCES[language]


def test_a_language_without_built_in_sentences_asks_for_a_file() -> None:
    with pytest.raises(BenchError, match="'de'.*--source FILE"):
        load.built_in_sentences("de-en")


# Files and addresses


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes("um\u2028dois\r\n\ntrês\x0c!\n".encode())
    assert read_lines(file) == ["um\u2028dois", "", "três\x0c!"]


def test_pair_splits_at_its_first_dash() -> None:
    assert split_pair("en-zh-Hans") == ("en", "zh-Hans")
    for pair in ("en", "-pt", "en-"):
        with pytest.raises(BenchError, match="give it as en-pt"):
            split_pair(pair)


def test_address_is_read_from_a_plain_http_url() -> None:
    address = Address.parse("http://host:81/base/")
    assert address == ("host", 81, "/base")
    assert address.request("GET", "/metrics").startswith(
        b"GET /base/metrics HTTP/1.1\r\nHost: host"
    )
    assert Address.parse("http://host").port == 80
    for url in ("https://host", "host:8000", "http://", "http://host:99999"):
        with pytest.raises(BenchError, match="http://HOST:PORT"):
            Address.parse(url)


# Connection


def exchange(answer: Answer, timeout_seconds: float = 10.0) -> tuple[Any, bool]:
    """Send one request; give the reply or the error's kind, and whether the connection closed."""

    async def run(url: str) -> tuple[Any, bool]:
        address = Address.parse(url)
        connection = await Connection.open(address, timeout_seconds)
        try:
            outcome: Any = await connection.send(address.request("POST", "/translate", b"{}"))
        except RequestError as error:
            outcome = error.kind
        closed = connection.is_closed
        connection.close()
        return outcome, closed

    with served(answer) as url:
        return asyncio.run(run(url))


def test_reply_is_whole_only_with_its_last_byte() -> None:
    for end in range(len(TRANSLATED)):
        assert parse_reply(TRANSLATED[:end]) is None
    assert parse_reply(TRANSLATED) == (200, b'{"translatedText": "Ola"}', False)


def test_connection_carries_one_request_after_the_other() -> None:
    seen: list[bytes] = []

    def answer(path: str, body: bytes) -> bytes:
        seen.append(body)
        return reply_bytes(200, body * 2)

    async def run(url: str) -> list[bytes]:
        address = Address.parse(url)
        connection = await Connection.open(address)
        requests = [address.request("POST", "/x", text) for text in (b"a", b"", b"c" * 300_000)]
        bodies = [(await connection.send(request)).body for request in requests]
        connection.close()
        return bodies

    with served(answer) as url:
        bodies = asyncio.run(run(url))
    assert seen == [b"a", b"", b"c" * 300_000]
    assert bodies == [body * 2 for body in seen]


def test_connection_that_the_server_closes_is_not_used_again() -> None:
    last = OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    assert exchange(lambda path, body: last) == ((200, b"{}", True), True)
    assert exchange(lambda path, body: reply_bytes(200, b"{}")) == ((200, b"{}", False), False)


def test_requests_without_a_reply_fail_by_kind() -> None:
    chunked = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    assert exchange(lambda path, body: chunked) == ("protocol", True)
    assert exchange(lambda path, body: b"SSH-2.0\r\ncontent-length: 1\r\n\r\nx") == (
        "protocol",
        True,
    )
    assert exchange(lambda path, body: None) == ("closed", True)
    assert exchange(lambda path, body: b"", timeout_seconds=0.05) == ("timeout", True)


def test_bytes_that_nobody_asked_for_close_the_connection() -> None:
    async def run(url: str) -> bool:
        address = Address.parse(url)
        connection = await Connection.open(address)
        await connection.send(address.request("POST", "/translate"))
        connection.data_received(TRANSLATED)
        return connection.is_closed

    with served(lambda path, body: TRANSLATED) as url:
        assert asyncio.run(run(url))


def test_refused_connection_is_an_error_of_kind_connect() -> None:
    with served(FakeTranslator()) as url:
        pass
    with pytest.raises(RequestError, match="127.0.0.1") as caught:
        asyncio.run(Connection.open(Address.parse(url)))
    assert caught.value.kind == "connect"


# regard bench load


def test_load_reports_the_measured_window() -> None:
    fake = FakeTranslator()
    with served(fake) as url:
        result = bench(
            *("load", "--clients", "1,3", "--duration", "0.3", "--warmup", "0.1"),
            *("--url", url, "--json"),
        )
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    assert [run["clients"] for run in runs] == [1, 3]
    for run in runs:
        assert (run["mean_rows"], run["padding_share"], run["errors"]) == (4.0, 0.1, {})
        assert run["sentences_per_second"] == pytest.approx(run["sentences"] / run["seconds"])
        assert 0 < run["p50_ms"] <= run["p95_ms"] <= run["p99_ms"]
    assert runs[0]["ratio"] == 1.0
    assert sum(run["sentences"] for run in runs) < len(fake.requests)
    assert {(request["source"], request["target"]) for request in fake.requests} == {("en", "pt")}
    assert {request["q"] for request in fake.requests} <= set(SENTENCES["en"])


def test_load_with_errors_counts_them_and_exits_with_1() -> None:
    with served(FakeTranslator(fails=lambda number: number == 3)) as url:
        result = bench("load", "--clients", "2", "--duration", "0.5", "--warmup", "0", "--url", url)
    assert result.exit_code == 1
    assert "1 x 429 overloaded" in result.stdout
    headings = result.stdout.splitlines()[1].split()  # none is cut off in 80 columns
    assert headings[:2] + headings[-2:] == ["clients", "sentences/s", "%", "errors"]
    assert result.stdout.splitlines()[3].split()[-3:] == ["4.00", "10.00", "1"]


def test_load_goes_on_after_lost_connections(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("um\n\ndois\n")
    fake = FakeTranslator()

    def answer(path: str, body: bytes) -> bytes | None:
        reply = fake(path, body)
        return None if len(fake.requests) == 2 and path == "/translate" else reply

    arguments = ["--clients", "1", "--duration", "0.5", "--warmup", "0", "--json"]
    with served(answer) as url:
        result = bench("load", *arguments, "--source", source, "--pair", "pt-en", "--url", url)
    (run,) = json.loads(result.stdout)["runs"]
    assert result.exit_code == 1
    assert run["errors"] == {"closed": 1}
    assert run["sentences"] > 0
    assert {request["q"] for request in fake.requests} == {"um", "dois"}


def test_load_stops_at_once_when_the_server_refuses_the_first_sentence() -> None:
    with served(FakeTranslator(fails=lambda number: True)) as url:
        result = bench("load", "--url", url)
    assert result.exit_code == 1
    assert "429" in result.stderr
    assert "full" in result.stderr


def test_load_reads_the_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_URL", "https://host")
    result = bench("load")
    assert result.exit_code == 1
    assert "give it as http://HOST:PORT" in result.stderr


def test_load_without_a_finished_sentence_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing_finished(*arguments: object) -> LoadReport:
        return LoadReport(1, 5.0, 0, 0.0, None, None, None, {}, None, None)

    monkeypatch.setattr("service.bench.commands.run_load", nothing_finished)
    result = bench("load", "--clients", "1", "--url", "http://host")
    assert result.exit_code == 1
    assert "nothing finished in 5 s" in result.stdout


# regard bench quality


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {
        "source": "the cat sat on the mat\na red house by the sea\nit is late now\n",
        "reference": "THE CAT SAT ON THE MAT\nA RED HOUSE BY THE SEA\nIT IS LATE NOW\n",
        "other": "THE CAT SAT ON THE MAT\nA BLUE HOUSE BY THE SEA\nIT IS EARLY NOW\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in texts}


def test_quality_translates_in_order_and_scores(files: dict[str, Path]) -> None:
    fake = FakeTranslator()
    output = files["source"].with_name("output")
    with served(fake) as url:
        result = bench(
            *("quality", "--source", files["source"], "--reference", files["reference"]),
            *("--compare", files["other"], "--output", output, "--batch", "2", "--clients", "2"),
            *("--url", url, "--json"),
        )
    assert result.exit_code == 0, result.output
    scores = json.loads(result.stdout)
    assert scores["scores"] == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    assert 0 < scores["compared"]["bleu"] < 100
    assert (scores["sentences"], scores["equal"]) == (3, 1)
    assert "tok:13a" in scores["signatures"][0]
    assert output.read_text() == files["reference"].read_text()
    assert sorted(len(request["q"]) for request in fake.requests) == [1, 2]


def test_quality_prints_scores_with_their_signatures(files: dict[str, Path]) -> None:
    with served(FakeTranslator()) as url:
        result = bench(
            *("quality", "--source", files["source"], "--reference", files["reference"]),
            *("--compare", files["other"], "--url", url),
        )
    assert result.exit_code == 0, result.output
    for part in ("100.00", "tok:13a", "1 equal", "sentences/s"):
        assert part in result.stdout


def test_quality_names_both_line_counts_when_they_differ(files: dict[str, Path]) -> None:
    files["reference"].write_text("one line\n")
    result = bench("quality", "--source", files["source"], "--reference", files["reference"])
    assert result.exit_code == 1
    assert "has 3 lines" in result.stderr
    assert "has 1;" in result.stderr


def test_quality_shows_what_the_server_answered(files: dict[str, Path]) -> None:
    files.pop("other")
    arguments = [part for name, file in files.items() for part in (f"--{name}", str(file))]
    short = reply_bytes(200, b'{"translatedText": ["one"]}')
    cases: list[tuple[Answer, str]] = [
        (FakeTranslator(fails=lambda number: True), "answered 429 to 3 texts"),
        (lambda path, body: short, '["one"]'),
        (lambda path, body: reply_bytes(200, b"<html>"), "<html>"),
        (lambda path, body: None, "is the server running?"),
    ]
    for answer, shown in cases:
        with served(answer) as url:
            result = bench("quality", *arguments, "--url", url)
        assert result.exit_code == 1
        assert shown in result.stderr


def test_missing_sacrebleu_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(BenchError, match=r"pip install 'regard\[bench\]'"):
        Scorer(["one"])


# The server of the run

READY_SERVER = """
import http.server, pathlib, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        self.send_response(503 if len(asked) == 1 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()
def stop(*_):
    pathlib.Path(sys.argv[2]).write_text(" ".join(asked))
    sys.exit(0)
asked = []
signal.signal(signal.SIGTERM, stop)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_own_server_is_awaited_until_ready_and_terminated(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    with running_server(
        None, lambda port: [sys.executable, "-c", READY_SERVER, str(port), str(asked)]
    ) as url:
        assert url.startswith("http://127.0.0.1:")
        assert not asked.exists()
    assert asked.read_text() == "/health/ready /health/ready"


def test_server_that_ends_early_shows_its_last_lines() -> None:
    script = "import sys; print('first'); sys.exit('no model en-xx')"
    with (
        pytest.raises(BenchError, match=r"status 1(.|\n)*no model en-xx"),
        running_server(None, lambda port: [sys.executable, "-c", script]),
    ):
        pass


def test_server_that_never_listens_is_given_up() -> None:
    script = "import time; print('loading', flush=True); time.sleep(600)"
    with (
        pytest.raises(BenchError, match=r"not ready in 0.3 s"),
        running_server(None, lambda port: [sys.executable, "-c", script], 0.3),
    ):
        pass


def test_given_url_is_used_as_it_is() -> None:
    with running_server("http://host:8000/") as url:
        assert url == "http://host:8000"


def test_bench_does_not_import_torch() -> None:
    check = "import sys, service.bench.commands; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
