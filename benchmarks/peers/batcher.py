"""A simple batcher around an engine that takes lists, such as a user could write in a day.

The caller chooses the number of worker processes. A free worker takes up to 32 of the waiting
sentences at once. The worker does not wait for more sentences or for the batches of other workers.
"""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from benchmarks.peers.protocol import Translate

MAX_BATCH = 32

Load = Callable[[], Translate]
Waiting = asyncio.Queue[tuple[str, "asyncio.Future[str]"]]


class Batcher:
    """Batches the sentences of many requests for worker processes."""

    def __init__(self, load: Load, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connections = []
        for _ in range(workers):
            here, there = context.Pipe()
            context.Process(target=work, args=(there, load), daemon=True).start()
            self.connections.append(here)
        for connection in self.connections:
            connection.recv()  # The worker has loaded its model.
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
            outputs = await loop.run_in_executor(self.pool, exchange, connection, texts)
            for (_, future), output in zip(batch, outputs):  # noqa: B905 - equal lengths
                if not future.done():
                    future.set_result(output)


def exchange(connection: Connection, texts: list[str]) -> list[str]:
    connection.send(texts)
    outputs: list[str] = connection.recv()
    return outputs


def work(connection: Connection, load: Load) -> None:
    """Runs a worker process until the server process has ended."""
    translate = load()
    connection.send([])
    while True:
        try:
            texts = connection.recv()
        except EOFError:
            return
        connection.send(translate(texts))
