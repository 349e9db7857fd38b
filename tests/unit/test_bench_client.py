import asyncio
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.bench.client import Address, BenchError, Connection, RequestError
from tests.unit.bench_server import OK, TRANSLATED, Answer, FakeTranslator, reply_bytes, served

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def test_address_is_read_from_a_plain_http_url() -> None:
    address = Address.parse("http://host:81/base/")
    assert address == ("host", 81, "/base")
    head = address.request("GET", "/metrics")
    assert head.startswith(b"GET /base/metrics HTTP/1.1\r\nHost: host:81\r\n")
    assert Address.parse("http://host").port == 80
    assert b"\r\nHost: [::1]:81\r\n" in Address.parse("http://[::1]:81").request("GET", "/")
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


def test_chunked_reply_is_put_together() -> None:
    whole = CHUNKED + b"4\r\nab\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n"
    expected = (200, b"ab\r\n0123456789", False, False)
    assert exchange(lambda path, body: whole, (b"", b"")) == ([expected, expected], False)


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
    assert exchange(lambda path, body: last) == ([(200, b"{}", True, False)], True)


@pytest.mark.parametrize(
    ("received", "kind"),
    [
        (OK + b"\r\n", "protocol"),
        (CHUNKED + b"-1\r\n", "protocol"),
        (CHUNKED + b"1" * 200_000, "protocol"),
        (b"SSH-2.0\r\ncontent-length: 1\r\n\r\nx", "protocol"),
        (None, "closed"),
        (b"", "timeout"),
    ],
)
def test_requests_without_a_reply_fail_by_kind(received: bytes | None, kind: str) -> None:
    timeout_seconds = 0.05 if kind == "timeout" else 10.0
    answer = exchange(lambda path, body: received, timeout_seconds=timeout_seconds)
    assert answer == ([kind], True)


def test_bytes_without_a_request_are_not_taken_for_a_reply() -> None:
    outcomes, closed = exchange(lambda path, body: TRANSLATED + b"more", (b"", b""))
    assert (outcomes[0].status, outcomes[1], closed) == (200, "closed", True)


def test_refused_connection_is_an_error_of_kind_connect() -> None:
    with served(FakeTranslator()) as url:
        pass
    with pytest.raises(RequestError, match="127.0.0.1") as caught:
        asyncio.run(Connection.open(Address.parse(url)))
    assert caught.value.kind == "connect"


def test_bench_does_not_import_torch() -> None:
    check = "import sys, benchmarks.bench.commands; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
