"""Random sequences of everything that can happen to a scheduler, from seeds."""

import asyncio
import random
from typing import Any

import pytest

from service.errors import (
    ServiceError,
)
from service.scheduling.lanes import Shown, Translated
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import (
    FOREVER,
    MODELS,
    FakeWorker,
    assert_idle,
    begin,
    begin_inquiry,
    first_tokens,
    inquiries,
    run,
    sentences,
    settle,
    shown_tokens,
)


class Play:
    """A random sequence of all that can happen, from a seed."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        self.scheduler = scheduler
        self.random = random.Random(seed)
        self.workers: list[FakeWorker] = []
        self.gone: list[FakeWorker] = []
        self.tasks: list[asyncio.Task[list[Any]]] = []
        self.wanted: list[list[int]] = []

    def come(self) -> None:
        name = f"worker-{len(self.workers) + len(self.gone)}"
        self.workers.append(FakeWorker(self.scheduler, name, self.random.randint(4, 12)))

    def go(self) -> None:
        if self.workers:
            worker = self.workers.pop(self.random.randrange(len(self.workers)))
            worker.die()
            self.gone.append(worker)

    def ask(self) -> None:
        count, beam = self.random.randint(1, 6), self.random.choice([1, 1, 1, 4])
        model, first = self.random.choice(MODELS), 100 * len(self.tasks)
        seconds = self.random.choice([FOREVER, FOREVER, 0.0])  # now: another is not from the seed
        wanted = sentences(count, beam, model, first)
        self.wanted.append([sentence.source[0] for sentence in wanted])
        self.tasks.append(begin(self.scheduler, wanted, self.random.random() < 0.4, seconds))

    def inquire(self) -> None:
        model, first = self.random.choice(MODELS), 100 * len(self.tasks)
        seconds = self.random.choice([FOREVER, FOREVER, 0.0])
        wanted = inquiries(self.random.randint(1, 6), model, first)
        self.wanted.append([inquiry.job.source[0] for inquiry in wanted])
        self.tasks.append(begin_inquiry(self.scheduler, wanted, seconds))

    def leave(self) -> None:
        if self.tasks:
            self.random.choice(self.tasks).cancel()

    def work(self, share: float = 0.5) -> None:
        for worker in self.workers:
            ids = [i for i in (*worker.held, *worker.tasks) if self.random.random() < share]
            fails = [i for i in ids if self.random.random() < 0.05]
            worker.fail(*fails)
            worker.finish(*(i for i in ids if i in worker.held and i not in fails))
            worker.show(*(i for i in ids if i in worker.tasks and i not in fails))

    def check(self) -> None:
        queues = self.scheduler.queues.rows.values()
        waiting = [job for q in queues for lane in q.lanes for job in lane.jobs.values()]
        held = [job for seat in self.scheduler.seats.values() for job in seat.held.values()]
        ids = [job.id for job in waiting + held]
        assert len(ids) == len(set(ids))
        assert not [job for job in waiting + held if job.future.done()]
        assert {link.name for link in self.scheduler.seats} == {w.name for w in self.workers}
        for worker in self.workers:
            seat = self.scheduler.seats[worker]
            assert seat.held.keys() == worker.held.keys() | worker.tasks.keys()
            assert seat.num_tasks == len(worker.tasks)
            for model in MODELS:
                assert seat.free[model] == worker.rows - worker.rows_used(model)

    async def finish(self) -> None:
        self.come()
        while not all(task.done() for task in self.tasks):
            self.work(share=1)
            self.check()
            await settle()


def tokens_of(results: list[Any]) -> list[int]:
    """What a request's results can be told by."""
    return [
        *first_tokens([each for each in results if isinstance(each, Translated)]),
        *shown_tokens([each for each in results if isinstance(each, Shown)]),
    ]


@pytest.mark.parametrize("seed", range(25))
def test_every_request_ends_once_and_no_row_leaks(seed: int) -> None:
    async def test(scheduler: Scheduler) -> None:
        play = Play(scheduler, seed)
        steps = [
            play.come,
            play.go,
            play.leave,
            *[play.ask] * 6,
            *[play.inquire] * 3,
            *[play.work] * 4,
        ]
        for _ in range(150):
            play.random.choice(steps)()
            await settle()
            play.check()
        await play.finish()
        results = await asyncio.gather(*play.tasks, return_exceptions=True)
        for result, wanted in zip(results, play.wanted, strict=True):
            if isinstance(result, BaseException):
                assert isinstance(result, ServiceError | asyncio.CancelledError)
            else:
                assert tokens_of(result) == wanted
        done = [type(r[0]) for r in results if not isinstance(r, BaseException)]
        assert {*done} == {Shown, Translated}
        assert_idle(scheduler)
        attempts = [i for worker in (*play.workers, *play.gone) for i in worker.given]
        assert max(attempts.count(i) for i in attempts) <= 2

    run(test)
