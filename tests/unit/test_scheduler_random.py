"""Random sequences of all events of a scheduler, from seeds."""

import asyncio
import random
from collections.abc import Callable, Sequence

import pytest

from service.errors import ServiceError
from service.items import ATTENTION, BUCKET_TOKENS, EMBED, NUM_BUCKETS, TRANSLATE, WorkItem
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import (
    FOREVER,
    MODEL_KINDS,
    MODELS,
    FakeWorker,
    Request,
    assert_idle,
    begin,
    number_of,
    numbers,
    pairs,
    sentences,
    settle,
    texts,
)

LENGTHS = (3, *[limit + 1 for limit in BUCKET_TOKENS])
"""A length of each bucket."""


class Play:
    """A random sequence of events, from a seed.

    Attributes:
        wanted: Kinds of the items of each request, and the numbers of its items.
    """

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        self.scheduler = scheduler
        self.random = random.Random(seed)
        self.workers: list[FakeWorker] = []
        self.dead: list[FakeWorker] = []
        self.requests: list[Request] = []
        self.wanted: list[tuple[set[str], list[int]]] = []

    def start_worker(self) -> None:
        name = f"worker-{len(self.workers) + len(self.dead)}"
        self.workers.append(FakeWorker(self.scheduler, name, self.random.randint(4, 12)))

    def kill_worker(self) -> None:
        if self.workers:
            worker = self.workers.pop(self.random.randrange(len(self.workers)))
            worker.die()
            self.dead.append(worker)

    def _first(self) -> int:
        return 100 * len(self.requests) + 2

    def _begin(self, items: Sequence[WorkItem]) -> None:
        # A deadline is now or never: any other would not depend on the seed alone.
        seconds = self.random.choice([FOREVER, FOREVER, 0.0])
        self.wanted.append(({item.kind for item in items}, [*map(number_of, items)]))
        self.requests.append(begin(self.scheduler, items, seconds, self.random.choice("abc")))

    def translate(self) -> None:
        count, beam = self.random.randint(1, 6), self.random.choice([1, 1, 1, 4])
        model, is_bulk = self.random.choice(MODELS), self.random.random() < 0.4
        self._begin(sentences(count, beam, model, self._first(), is_bulk))

    def attend(self) -> None:
        model, is_bulk = self.random.choice([*MODEL_KINDS]), self.random.random() < 0.4
        self._begin(pairs(self.random.randint(1, 6), model, self._first(), is_bulk))

    def embed(self) -> None:
        model, is_bulk = self.random.choice([*MODEL_KINDS]), self.random.random() < 0.4
        length = self.random.choice(LENGTHS)
        self._begin(texts(self.random.randint(1, 6), model, self._first(), length, is_bulk))

    def ask_for_all_kinds(self) -> None:
        first = self._first()
        self._begin(
            [*sentences(2, first=first), *texts(2, first=first + 2), *pairs(2, first=first + 4)]
        )

    def leave(self) -> None:
        if self.requests:
            self.random.choice(self.requests).cancel()

    def work(self, share: float = 0.5) -> None:
        for worker in self.workers:
            ids = [item_id for item_id in worker.held if self.random.random() < share]
            fails = [item_id for item_id in ids if self.random.random() < 0.05]
            worker.fail(*fails)
            # A failed item has taken the other items of its request along.
            worker.finish(*(i for i in ids if i not in fails and i in worker.held))

    def check(self) -> None:
        """Checks that each open item is in one place, and that every count agrees."""
        queues = [queue for each in self.scheduler.queues.values() for queue in each.values()]
        waiting = [item for queue in queues for item in queue.items()]
        held = [item for w in self.scheduler.workers.values() for item in w.held.values()]
        ids = [item.id for item in waiting + held]
        assert len(ids) == len(set(ids))
        assert not [item for item in waiting + held if item.receiver.is_closed]
        for queue in queues:
            for pair in queue.buckets:
                for lane in (pair.interactive, pair.bulk):
                    items = [*lane]
                    assert lane.tokens == sum(item.tokens for item in items)
                    assert lane.rows == sum(item.rows for item in items)
                    for name, client in lane.clients.items():
                        assert lane.work[name] == sum(each.work for each in client.values())
                    assert lane.work.keys() == lane.clients.keys()
                    assert len(lane) == len(items)
        assert {link.name for link in self.scheduler.workers} == {w.name for w in self.workers}
        for worker in self.workers:
            self.check_worker(worker)

    def check_worker(self, worker: FakeWorker) -> None:
        state = self.scheduler.workers[worker]
        assert state.held.keys() == worker.held.keys()
        assert state.total_used(ATTENTION) == len(worker.ids(ATTENTION))
        for model in MODELS:
            assert state.used[TRANSLATE, model, 0] == worker.used_rows(model)
            held = [item for item in worker.held.values() if item.is_bulk and item.model == model]
            bulk_rows = sum(item.num_rows for item in held if item.kind == TRANSLATE)
            assert state.bulk_rows[TRANSLATE, model] == bulk_rows
        for model in MODEL_KINDS:
            for bucket in range(NUM_BUCKETS):
                assert state.used[EMBED, model, bucket] == worker.used_tokens(model, bucket)

    async def finish(self) -> None:
        self.start_worker()
        while not all(request.done() for request in self.requests):
            self.work(share=1)
            self.check()
            await settle()


@pytest.mark.parametrize("seed", range(6))
async def test_every_request_ends_once_and_no_capacity_leaks(
    seed: int, scheduler: Scheduler
) -> None:
    play = Play(scheduler, seed)
    events: list[Callable[[], None]] = [
        play.start_worker,
        play.kill_worker,
        play.leave,
        play.ask_for_all_kinds,
        *[play.translate] * 6,
        *[play.attend] * 3,
        *[play.embed] * 3,
        *[play.work] * 5,
    ]
    for _ in range(150):
        play.random.choice(events)()
        await settle()
        play.check()
    await play.finish()
    results = await asyncio.gather(*play.requests, return_exceptions=True)
    done: set[str] = set()
    for result, (kinds, wanted) in zip(results, play.wanted, strict=True):
        if isinstance(result, BaseException):
            assert isinstance(result, ServiceError | asyncio.CancelledError)
        else:
            assert numbers(result) == wanted
            done |= kinds
    assert done == {TRANSLATE, ATTENTION, EMBED}
    assert_idle(scheduler)
    attempts = [i for worker in (*play.workers, *play.dead) for i in worker.given]
    assert max(attempts.count(i) for i in attempts) <= 2
