"""The scheduler while models are added and removed."""

import pytest

from service.errors import NotFoundError
from service.items import ATTENTION, EMBED, TRANSLATE
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import FakeWorker, begin, begun, numbers, pairs, sentences, settle, texts

NEW = "pt-de"


async def test_new_model_is_computed_by_the_worker_that_has_loaded_it(scheduler: Scheduler) -> None:
    first, second = (FakeWorker(scheduler, name, rows=8) for name in ("a", "b"))
    with pytest.raises(NotFoundError, match=NEW):
        await begin(scheduler, sentences(1, model=NEW))
    scheduler.metrics.add_model(NEW, (TRANSLATE, EMBED, ATTENTION))
    scheduler.add_model(NEW, (TRANSLATE, EMBED, ATTENTION))
    request = await begun(scheduler, sentences(2, model=NEW))
    assert not first.given
    assert not second.given
    scheduler.worker_loaded(second, NEW, 4)
    assert len(second.given) == 2
    second.finish(*second.given)
    assert numbers(await request) == [2, 3]


async def test_item_of_a_kind_that_its_model_does_not_serve_is_refused(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    with pytest.raises(NotFoundError, match="tiny"):
        await begin(scheduler, [*texts(1), *sentences(1, model="tiny")])
    assert not worker.given  # no item of a refused submission is queued


async def test_worker_receives_no_item_of_a_model_that_it_has_yet_to_load(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    scheduler.worker_ready(worker)
    scheduler.worker_loaded(worker, "pt-en", 4)
    requests = [
        begin(scheduler, sentences(1)),
        begin(scheduler, pairs(1)),
        begin(scheduler, texts(1)),
    ]
    await settle()
    assert not worker.given
    scheduler.worker_loaded(worker, "en-pt", 4)
    assert len(worker.given) == 2
    scheduler.worker_loaded(worker, "tiny")
    assert len(worker.given) == 3
    for request in requests:
        request.cancel()
    await settle()


async def test_items_of_a_removed_model_fail_and_the_others_go_on(scheduler: Scheduler) -> None:
    worker = FakeWorker(scheduler, rows=2)
    others = begin(scheduler, sentences(2, model="pt-en"))
    left = [
        begin(scheduler, sentences(5)),
        begin(scheduler, pairs(9)),
        begin(scheduler, texts(3, model="en-pt")),
    ]
    await settle()
    scheduler.remove_model("en-pt")
    for request in left:
        with pytest.raises(NotFoundError, match="en-pt has been unloaded"):
            await request
    for items in (sentences(1), pairs(1), texts(1, model="en-pt")):
        with pytest.raises(NotFoundError):
            await begin(scheduler, items)
    assert {item.model for item in worker.held.values()} == {"pt-en"}  # it aborted the others
    assert len(worker.held) == 2
    worker.finish(*worker.held)
    assert len(await others) == 2


async def test_removed_model_takes_the_other_items_of_its_requests_along(
    scheduler: Scheduler,
) -> None:
    """A request whose pivot has been unloaded fails as a whole, and leaves nothing behind."""
    worker = FakeWorker(scheduler, rows=2)
    request = await begun(scheduler, [*sentences(3), *sentences(3, model="pt-en")])
    scheduler.remove_model("en-pt")
    assert not worker.held
    with pytest.raises(NotFoundError, match="en-pt has been unloaded"):
        await request


async def test_request_that_is_cancelled_when_its_model_is_removed(scheduler: Scheduler) -> None:
    """Its task is cancelled, and has not run since to close its submission."""
    FakeWorker(scheduler, rows=1)
    request = await begun(scheduler, sentences(3))
    request.cancel()
    scheduler.remove_model("en-pt")
    await settle()
    assert request.cancelled()
