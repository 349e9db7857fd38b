"""A peer behind HTTP, as a user without Regard would do it: FastAPI, one sentence a POST.

    python -m benchmarks.peers.server --port P --mode naive --engine bergamot CONFIG
    python -m benchmarks.peers.server --port P --mode batched --engine ctranslate2 FOLDER [vmap]

`naive` makes one call of the engine for each request, from a pool of threads; `batched` puts the
batcher in between. Request and reply are LibreTranslate's, so that one load fits all.
"""

import argparse
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.peers import bergamot, ctranslate2
from benchmarks.peers.batcher import Batcher, Load
from benchmarks.peers.protocol import Translate

NAIVE_THREADS = 40
"""What Starlette gives to handlers that block."""


class Request(BaseModel):
    """What is read of a request."""

    q: str


def load_engine(engine: str, words: list[str], workers: int) -> Translate:
    """The engine, in this process."""
    if engine == "bergamot":
        return bergamot.load(words[0], workers)
    return ctranslate2.load(words[0], workers, "vmap" in words)


def create_app(start: Callable[[], None], translate: Callable[[str], Awaitable[str]]) -> FastAPI:
    """Two routes: a translation, and whether the models are loaded (they are)."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        start()
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/translate")
    async def post(request: Request) -> dict[str, str]:
        return {"translatedText": await translate(request.q)}

    @app.get("/health/ready")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    return app


def naive(load: Load) -> FastAPI:
    """One native call a request."""
    import asyncio

    engine = load()
    pool = ThreadPoolExecutor(NAIVE_THREADS)

    async def translate(text: str) -> str:
        outputs = await asyncio.get_running_loop().run_in_executor(pool, engine, [text])
        return outputs[0]

    return create_app(lambda: None, translate)


def batched(load: Load, workers: int) -> FastAPI:
    """Up to 32 requests a call."""
    batcher = Batcher(load, workers)
    return create_app(batcher.start, batcher.translate)


def main() -> None:
    """Loads, then serves until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mode", choices=("naive", "batched"), required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", choices=("bergamot", "ctranslate2"), required=True)
    parser.add_argument("words", nargs="+")
    args = parser.parse_args()
    inside = args.workers if args.mode == "naive" else 1
    load = functools.partial(load_engine, args.engine, args.words, inside)
    app = naive(load) if args.mode == "naive" else batched(load, args.workers)
    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
