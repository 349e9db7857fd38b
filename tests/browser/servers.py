"""The server that the browser talks to: the fake, or the whole of it in a process of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from service.private_server import running_server
from tests.browser.fake import create_fake
from tests.workers import until


@contextmanager
def fake_server() -> Iterator[str]:
    config = uvicorn.Config(create_fake(), port=0, log_config=None, access_log=False, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def serve(choice: str) -> Iterator[str]:
    if choice == "fake":
        with fake_server() as address:
            yield address
    else:
        with running_server(None if choice == "real" else choice.rstrip("/")) as address:
            yield address
