"""The scheduler when models come and go."""

import pytest

from service.errors import NotFoundError
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import (
    FakeWorker,
    assert_idle,
    begin,
    begin_embedding,
    begin_inquiry,
    first_tokens,
    inquiries,
    run,
    sentences,
    settle,
    texts,
)

NEW = "pt-de"


def test_new_model_is_translated_by_who_has_loaded_it() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name, rows=8) for name in ("a", "b"))
        with pytest.raises(NotFoundError, match=NEW):
            await begin(scheduler, sentences(1, model=NEW))
        scheduler.add_model(NEW, translates=True)
        task = begin(scheduler, sentences(2, model=NEW))
        await settle()
        assert not first.given
        assert not second.given
        scheduler.worker_loaded(second, NEW, 4)
        assert len(second.given) == 2
        second.finish(*second.given)
        assert first_tokens(await task) == [2, 3]
        assert_idle(scheduler)

    run(test)


def test_worker_gets_nothing_of_a_model_that_it_still_lacks() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        scheduler.worker_ready(worker, {"pt-en": 4}, ["en-pt", "tiny"])
        tasks = [
            begin(scheduler, sentences(1)),
            begin_inquiry(scheduler, inquiries(1)),
            begin_embedding(scheduler, texts(1)),
        ]
        await settle()
        assert not worker.given
        scheduler.worker_loaded(worker, "en-pt", 4)
        assert len(worker.given) == 2
        scheduler.worker_loaded(worker, "tiny", 0)
        assert len(worker.given) == 3
        assert "tiny" not in scheduler.seats[worker].free
        for task in tasks:
            task.cancel()
        await settle()

    run(test)


def test_what_is_left_of_a_model_fails_and_the_others_go_on() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        others = begin(scheduler, sentences(2, model="pt-en"))
        left = [
            begin(scheduler, sentences(5)),
            begin_inquiry(scheduler, inquiries(9)),
            begin_embedding(scheduler, texts(3, model="en-pt")),
        ]
        await settle()
        scheduler.remove_model("en-pt")
        for task in left:
            with pytest.raises(NotFoundError, match="en-pt has been unloaded"):
                await task
        for again in (
            begin(scheduler, sentences(1)),
            begin_inquiry(scheduler, inquiries(1)),
            begin_embedding(scheduler, texts(1, model="en-pt")),
        ):
            with pytest.raises(NotFoundError):
                await again
        assert len(worker.held) == 2  # it was told to drop the others
        assert not worker.tasks
        assert not worker.texts
        worker.finish(*worker.held)
        assert len(await others) == 2
        assert_idle(scheduler)

    run(test)


def test_request_that_is_cancelled_when_its_model_goes() -> None:
    """Its future is done, and it has not yet heard of it."""

    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler, rows=1)
        task = begin(scheduler, sentences(3))
        await settle()
        task.cancel()
        scheduler.remove_model("en-pt")
        await settle()
        assert task.cancelled()

    run(test)
