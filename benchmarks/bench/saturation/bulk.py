"""Measures how much slower single sentences are while other clients send long lists."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.bench.attention import median_p99
from benchmarks.bench.client import Address, BenchError, RequestError, send_once
from benchmarks.bench.load import LoadReport, run_load
from benchmarks.bench.translation import LIST_TIMEOUT_SECONDS, translate_request

WARMUP_SECONDS = 3.0
RETRY_SECONDS = 1.0
JOB_LIST = 1000
"""Number of sentences in each list of the additional client. `run_bulk` starts this client."""


@dataclass(frozen=True)
class BulkReport:
    """Figures of one run. Windows without lists and windows with lists alternate."""

    clients: int  # number of clients that send single sentences
    alone: list[LoadReport]  # report of each window without lists
    beside: list[LoadReport]  # report of each window with lists
    # median p99 of single sentences in windows with lists, divided by the median p99 in the other
    # windows
    p99_ratio: float
    lists: int  # number of lists that were translated
    # maps each status other than 200, and each kind of error, to the number of lists that had it
    statuses: dict[str, int]


class ListClients:
    """Clients that send long lists in a loop."""

    def __init__(self, address: Address, pair: str, sentences: Sequence[str]) -> None:
        self.address = address
        self.pair = pair
        self.sentences = sentences
        self.statuses: Counter[str] = Counter()

    async def send_lists(self, size: int) -> None:
        """Sends lists of `size` sentences until cancellation; waits a second after a failure."""
        texts = [*itertools.islice(itertools.cycle(self.sentences), size)]
        request = translate_request(self.address, self.pair, texts, False)
        while True:
            try:
                reply = await send_once(self.address, request, LIST_TIMEOUT_SECONDS)
                status = str(reply.status)
            except RequestError as error:
                status = error.kind
            self.statuses[status] += 1
            if status != "200":
                await asyncio.sleep(RETRY_SECONDS)


async def run_bulk(
    url: str,
    pair: str,
    sentences: Sequence[str],
    num_clients: int,
    list_clients: int,
    list_size: int,
    rounds: int,
    seconds: float,
) -> BulkReport:
    """Measures alternating windows without and with clients that send lists.

    In the windows with lists, one more client sends lists of JOB_LIST sentences.
    """
    address = Address.parse(url)
    lists = ListClients(address, pair, sentences)
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(await run_load(url, pair, sentences, num_clients, WARMUP_SECONDS, seconds))
        sizes = [JOB_LIST, *[list_size] * list_clients]
        tasks = [asyncio.create_task(lists.send_lists(size)) for size in sizes]
        await asyncio.sleep(WARMUP_SECONDS)
        beside.append(await run_load(url, pair, sentences, num_clients, WARMUP_SECONDS, seconds))
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    ratio = median_p99(beside) / median_p99(alone)
    done = lists.statuses.pop("200", 0)
    if any(run.errors for run in alone):
        raise BenchError("the server refused single sentences while no lists were sent")
    return BulkReport(num_clients, alone, beside, ratio, done, dict(lists.statuses))
