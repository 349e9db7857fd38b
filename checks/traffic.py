"""Sends requests of every task to a server for a short time, for `checks.live_board`."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

LIMIT_SECONDS = 60.0
SENTENCE = "The lions watched the children because they were hungry. "
JSON = "application/json"
BOUNDARY = "part-of-the-form"
FORM = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="target"\r\n\r\npt\r\n'
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    f"{SENTENCE}\r\n--{BOUNDARY}--\r\n"
).encode()

PAIR = {"source": "en", "target": "pt"}
REQUESTS: tuple[tuple[str, Any], ...] = (
    ("/translate", {"q": SENTENCE, **PAIR}),
    ("/translate", {"q": [SENTENCE] * 20, **PAIR}),
    ("/translate", {"q": "The lion, the cat, " * 100, **PAIR}),  # over the length limit
    ("/translate", {"q": SENTENCE, **PAIR, "return_alignment": True}),
    ("/translate", {"q": SENTENCE, "source": "en", "target": "ga"}),  # the remote model
    ("/translate", {"q": SENTENCE, "source": "en", "target": "xx"}),  # invalid
    ("/v2/translate", {"text": [SENTENCE], "source_lang": "EN", "target_lang": "PT-BR"}),
    ("/detect", {"q": SENTENCE}),
    ("/embed", {"inputs": [SENTENCE, SENTENCE * 100]}),
    ("/v1/embeddings", {"input": SENTENCE, "model": "all-MiniLM-L6-v2"}),
    ("/attention", {"text": SENTENCE, **PAIR}),
    ("/rerank", {"query": SENTENCE, "texts": [SENTENCE]}),  # no built-in model reranks
)


def drive(url: str, seconds: float) -> dict[tuple[str, int], int]:
    """Sends requests of every kind; returns the number of responses by path and status."""
    counts = Counter[tuple[str, int]]()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for path, body in REQUESTS:
            counts[path, send(url + path, json.dumps(body).encode())] += 1
        stream = json.dumps({"q": SENTENCE * 3, **PAIR}).encode()
        status = send(f"{url}/translate", stream, {"Accept": "application/x-ndjson"})
        counts["/translate", status] += 1
        form = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        counts["/translate_file", send(f"{url}/translate_file", FORM, form)] += 1
        hang_up(url)
    return counts


def send(url: str, body: bytes, headers: dict[str, str] | None = None) -> int:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    request = urllib.request.Request(
        url, body, {"Content-Type": JSON, "X-Request-Id": "check", **trace, **(headers or {})}
    )
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as response:
            response.read()
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def hang_up(url: str) -> None:
    """Sends a large request, and closes the connection before the response."""
    body = json.dumps({"q": [f"{SENTENCE} {n}" for n in range(200)], **PAIR}).encode()
    address = urlsplit(url)
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n"
    with socket.create_connection((str(address.hostname), int(address.port or 80))) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.05)


@contextmanager
def remote_model() -> Iterator[str]:
    """Runs a chat endpoint that answers each text in capital letters; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            reply = b""
            if self.path.endswith("/chat/completions"):
                text = json.loads(body)["messages"][-1]["content"].upper()
                choice = {"message": {"role": "assistant", "content": text}}
                reply = json.dumps({"choices": [{**choice, "finish_reason": "stop"}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
