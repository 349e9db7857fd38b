import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.bench.client import Address, BenchError, Connection, RequestError, read_reply
from service.bench.server import running_server
from tests.unit.bench_server import OK, TRANSLATED, Answer, FakeTranslator, reply_bytes, served

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def test_address_is_read_from_a_plain_http_url() -> None:
    address = Address.parse("http://host:81/base/")
    assert address == ("host", 81, "/base")
    head = address.request("GET", "/metrics")
    assert head.startswith(b"GET /base/metrics HTTP/1.1\r\nHost: host:81\r\n")
    assert Address.parse("http://host").port == 80
    for url in ("https://host", "host:8000", "http://", "http://host:99999"):
        with pytest.raises(BenchError, match="http://HOST:PORT"):
            Address.parse(url)


def exchange(
    answer: Answer, bodies: tuple[bytes, ...] = (b"{}",), timeout_seconds: float = 10.0
) -> tuple[list[Any], bool]:
    """Send requests on one connection; give replies or kinds of error, and whether it closed."""

    async def run(url: str) -> tuple[list[Any], bool]:
        address = Address.parse(url)
        connection = await Connection.open(address, timeout_seconds)
        outcomes: list[Any] = []
        for body in bodies:
            try:
                outcomes.append(await connection.send(address.request("POST", "/x", body)))
            except RequestError as error:
                outcomes.append(error.kind)
        closed = connection.is_closed
        connection.close()
        return outcomes, closed

    with served(answer) as url:
        return asyncio.run(run(url))


async def read(received: bytes) -> Any:
    reader = asyncio.StreamReader()
    reader.feed_data(received)
    reader.feed_eof()
    return await read_reply(reader)


@pytest.mark.parametrize(
    ("whole", "body"),
    [
        (TRANSLATED, b'{"translatedText": "Ola"}'),
        (CHUNKED + b"4\r\nab\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", b"ab\r\n0123456789"),
    ],
)
def test_reply_is_whole_only_with_its_last_byte(whole: bytes, body: bytes) -> None:
    for end in range(len(whole)):
        with pytest.raises(EOFError):
            asyncio.run(read(whole[:end]))
    assert asyncio.run(read(whole)) == (200, body, False)


def test_connection_carries_one_request_after_the_other() -> None:
    seen: list[bytes] = []

    def answer(path: str, body: bytes) -> bytes:
        seen.append(body)
        return reply_bytes(200, body * 2)

    bodies = (b"a", b"", b"c" * 300_000)
    replies, closed = exchange(answer, bodies)
    assert seen == [*bodies]
    assert [reply.body for reply in replies] == [body * 2 for body in bodies]
    assert not closed


def test_connection_that_the_server_closes_is_not_used_again() -> None:
    last = OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    assert exchange(lambda path, body: last) == ([(200, b"{}", True)], True)


@pytest.mark.parametrize(
    ("received", "kind"),
    [
        (OK + b"\r\n", "protocol"),
        (CHUNKED + b"-1\r\n", "protocol"),
        (CHUNKED + b"1" * 200_000, "protocol"),
        (b"SSH-2.0\r\ncontent-length: 1\r\n\r\nx", "protocol"),
        (OK + b"X: " + b"x" * 200_000, "protocol"),
        (None, "closed"),
        (b"", "timeout"),
    ],
)
def test_requests_without_a_reply_fail_by_kind(received: bytes | None, kind: str) -> None:
    timeout_seconds = 0.05 if kind == "timeout" else 10.0
    answer = exchange(lambda path, body: received, timeout_seconds=timeout_seconds)
    assert answer == ([kind], True)


def test_bytes_that_nobody_asked_for_are_not_taken_for_a_reply() -> None:
    outcomes, closed = exchange(lambda path, body: TRANSLATED + b"more", (b"", b""))
    assert (outcomes[0].status, outcomes[1], closed) == (200, "protocol", True)


def test_refused_connection_is_an_error_of_kind_connect() -> None:
    with served(FakeTranslator()) as url:
        pass
    with pytest.raises(RequestError, match="127.0.0.1") as caught:
        asyncio.run(Connection.open(Address.parse(url)))
    assert caught.value.kind == "connect"


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


@pytest.mark.parametrize(
    ("script", "limit_seconds", "message"),
    [
        ("import sys; sys.exit('no model en-xx')", 60.0, r"status 1(.|\n)*no model en-xx"),
        ("import time; time.sleep(600)", 0.3, r"not ready in 0.3 s"),
    ],
    ids=["ends early", "never listens"],
)
def test_own_server_that_does_not_get_ready_is_given_up(
    script: str, limit_seconds: float, message: str
) -> None:
    with (
        pytest.raises(BenchError, match=message),
        running_server(None, lambda port: [sys.executable, "-c", script], limit_seconds),
    ):
        pass


def test_given_url_is_used_as_it_is() -> None:
    with running_server("http://host:8000/") as url:
        assert url == "http://host:8000/"


def test_bench_does_not_import_torch() -> None:
    check = "import sys, service.bench.commands; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
