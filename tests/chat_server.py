"""A chat endpoint in OpenAI's format, in a thread: it answers by a script of the test."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Translate = Callable[[str], str]


@dataclass
class ChatServer:
    """What the endpoint is asked, and how it answers.

    Attributes:
        translate: Makes the reply of the text of a user.
        statuses: Statuses of the next replies; 200 when there are none left.
        bodies: Bodies of the next replies, in place of chat replies.
        headers: Headers of replies with another status than 200.
        seconds: Time before each reply.
        requests: Bodies of all requests.
        keys: Header Authorization of all requests.
        most: Most requests that were open at once.
    """

    translate: Translate = str.upper
    statuses: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    most: int = 0
    open: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[str]:
        return [str(body["messages"][-1]["content"]) for body in self.requests]

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if path != "/v1/chat/completions":
            return 404, b"{}"
        with self.lock:
            self.requests.append(body)
            status = self.statuses.pop(0) if self.statuses else 200
            made = self.bodies.pop(0) if self.bodies else None
        text = self.translate(body["messages"][-1]["content"])
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return status, made if made is not None else json.dumps({"choices": [choice]}).encode()


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    chat = ChatServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with chat.lock:
                chat.keys.append(self.headers["authorization"])
                chat.open += 1
                chat.most = max(chat.most, chat.open)
            time.sleep(chat.seconds)
            status, reply = chat.answer(self.path, body)
            with chat.lock:
                chat.open -= 1
            self.send_response(status)
            for name, value in (chat.headers if status != 200 else {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            with suppress(ConnectionError):  # the client has gone
                self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    chat.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
