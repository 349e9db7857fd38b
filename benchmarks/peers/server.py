"""Serves native Bergamot over HTTP with FastAPI, one sentence per POST.

    python -m benchmarks.peers.server --port P --mode batched CONFIG

`naive` calls the engine once for each request, from a pool of threads. `batched` collects the
sentences of many requests. Requests and replies have LibreTranslate's format, so all servers get
the same load.

The batcher is one that a user could write in a day. A free worker process takes up to 32 of the
waiting sentences at once. It waits neither for more sentences nor for the batches of other workers.
"""

import argparse
import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.peers import bergamot
from benchmarks.peers.protocol import Load, start_workers

MAX_BATCH = 32

Waiting = asyncio.Queue[tuple[str, "asyncio.Future[str]"]]


class Batcher:
    """Batches the sentences of many requests for worker processes."""

    def __init__(self, load: Load, workers: int) -> None:
        self.connections = start_workers(load, workers)
        self.pool = ThreadPoolExecutor(workers)
        self.waiting: Waiting = asyncio.Queue()
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.tasks = [asyncio.create_task(self._serve(c)) for c in self.connections]

    async def translate(self, text: str) -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting.put_nowait((text, future))
        return await future

    async def _serve(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self.waiting.get()]
            while len(batch) < MAX_BATCH and not self.waiting.empty():
                batch.append(self.waiting.get_nowait())
            texts = [text for text, _ in batch]
            connection.send(texts)
            outputs = await loop.run_in_executor(self.pool, connection.recv)
            for (_, future), output in zip(batch, outputs):  # noqa: B905 - equal lengths
                if not future.done():
                    future.set_result(output)


NAIVE_THREADS = 40
"""Number of threads that Starlette has for blocking handlers."""


class Request(BaseModel):
    """Body of a translation request; other fields are ignored."""

    q: str | list[str]  # sentences to translate


def create_app(start: Callable[[], None], translate: Callable[[str], Awaitable[str]]) -> FastAPI:
    """Creates an app with two routes: translation, and readiness, which always answers 200."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        start()
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/translate")
    async def post(request: Request) -> dict[str, str | list[str]]:
        if isinstance(request.q, str):
            return {"translatedText": await translate(request.q)}
        return {"translatedText": [await translate(text) for text in request.q]}

    @app.get("/health/ready")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    return app


def naive(load: Load) -> FastAPI:
    engine = load()
    pool = ThreadPoolExecutor(NAIVE_THREADS)

    async def translate(text: str) -> str:
        outputs = await asyncio.get_running_loop().run_in_executor(pool, engine, [text])
        return outputs[0]

    return create_app(lambda: None, translate)


def batched(load: Load, workers: int) -> FastAPI:
    batcher = Batcher(load, workers)
    return create_app(batcher.start, batcher.translate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--port", type=int, required=True, help="port on the loopback")
    add("--mode", choices=("naive", "batched"), required=True, help="one request a call, or many")
    add("--workers", type=int, default=2, help="number of threads (naive) or processes (batched)")
    add("config", help="configuration of Bergamot")
    args = parser.parse_args()
    inside = args.workers if args.mode == "naive" else 1
    load = functools.partial(bergamot.load, args.config, inside)
    app = naive(load) if args.mode == "naive" else batched(load, args.workers)
    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
