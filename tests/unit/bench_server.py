"""A small HTTP server for tests, such as those of `regard bench`: no model is loaded.

It is enough because the commands know a server by its replies and its /metrics alone.
"""

import contextlib
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from benchmarks.bench.commands import app

OK = b"HTTP/1.1 200 OK\r\n"
TRANSLATED = OK + b'content-length: 25\r\n\r\n{"translatedText": "Ola"}'

Answer = Callable[[str, bytes], bytes | None]
"""Path and body to the bytes of a reply; None ends the connection without one."""


def bench(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def reply_bytes(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


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
                time.sleep(0.002)  # clients send at once again, and would keep a processor busy
                self.wfile.write(reply)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True  # a client may keep its connection beyond the end of the server
        request_queue_size = 128  # with 5, a sixth client at once waits a second to connect

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class FakeTranslator:
    """Translates to upper case; counts a decode step of 4 rows, 9 + 10 tokens and 1 padding.

    It counts one step for each reading of /metrics, not for each request: two readings differ even
    if the machine was too busy to answer a request between them.
    """

    def __init__(self, fails: Callable[[int], bool] = lambda number: False) -> None:
        self.requests: list[dict[str, Any]] = []
        self.readings = 0
        self.fails = fails

    def __call__(self, path: str, body: bytes) -> bytes:
        if path != "/translate":
            return reply_bytes(200, self.metrics().encode())
        self.requests.append(json.loads(body))
        if self.fails(len(self.requests)):
            return reply_bytes(429, b'{"error": "full", "error_type": "overloaded"}')
        q = self.requests[-1]["q"]
        answer = self.translate(q) if isinstance(q, list) else self.translate([q])[0]
        return reply_bytes(200, json.dumps({"translatedText": answer}).encode())

    def translate(self, texts: list[str]) -> list[str]:
        return [text.upper() for text in texts]

    def metrics(self) -> str:
        self.readings += 1
        return metrics_text(rows=4, steps=1, source=9, padding=1, times=self.readings)


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
        f'regard_tokens_total{{kind="target",model="en-pt"}} {10 * times}\n'
    )
