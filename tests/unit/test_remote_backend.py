"""The leases of an HTTP worker: from its backend over a socket to the core."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from unittest.mock import Mock

import pytest

from service.errors import (
    DeadlineExceededError,
    InternalError,
    OverloadedError,
    RequestTooLargeError,
    ServiceError,
    UnavailableError,
)
from service.http_workers import remote_backend
from service.http_workers.main_process import HttpWorkerLink
from service.http_workers.messages import Answer, Call, Release, Submit
from service.items import WorkItem
from service.workers.messages import ModelSet
from tests.unit.remote import Ends, begin, compute, connected
from tests.unit.scheduling import (
    core_of,
    deadline,
    lease_of,
    make_scheduler,
    numbers,
    pairs,
    sentences,
    texts,
)

SECRET = "Rumpelstiltskin"


@pytest.fixture
def ends() -> AbstractAsyncContextManager[Ends]:
    return connected()


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("make", [sentences, texts, pairs])
async def test_items_are_submitted_with_their_admission_or_after_it(
    make: Callable[[int], list[WorkItem]], at_once: bool, ends: Ends
) -> None:
    lease = await ends.backend.admit(9, at_once)
    assert (ends.core.admission.requests, ends.core.admission.tokens) == (
        (1, 9) if at_once else (0, 0)
    )
    stream = lease.submit(make(2), deadline())
    await ends.until_held(2)
    assert ends.core.admission.requests == 1
    ends.worker.finish_all()
    results = await stream.in_order()
    assert numbers(results) == [2, 3]
    assert all(result.queue_seconds >= 0 and result.device_seconds > 0 for result in results)
    lease.release()
    await ends.until_idle()
    assert ends.kinds == [*[Submit] * at_once, Submit, Release]


async def test_results_stream_in_the_order_in_which_they_finish(ends: Ends) -> None:
    """Each arrives while the others are still computed."""
    lease = await ends.backend.admit(9, at_once=False)
    stream = lease.submit(sentences(3), deadline())
    await ends.until_held(3)
    found = aiter(stream)
    for item_id in (3, 1, 2):
        ends.worker.finish(item_id)
        index, result = await anext(found)
        assert (index, numbers([result])) == (item_id - 1, [item_id + 1])
    with pytest.raises(StopAsyncIteration):
        await anext(found)
    lease.release()


async def test_requests_of_all_kinds_are_kept_apart(ends: Ends) -> None:
    makers = [make for make in (sentences, texts) for _ in range(2)] + [pairs]
    tasks = [await begin(ends, make(2), at_once=True) for make in makers]
    assert len(ends.link.leases) == 5
    ends.worker.finish(*reversed(ends.worker.held))
    assert [numbers(found) for found in await asyncio.gather(*tasks)] == [[2, 3]] * 5


async def test_one_lease_serves_several_submissions(ends: Ends) -> None:
    lease = await ends.backend.admit(9, at_once=True)
    first = lease.submit(sentences(2), deadline())
    await ends.until_held(2)
    ends.worker.finish_all()
    assert numbers(await first.in_order()) == [2, 3]
    assert ends.core.admission.requests == 1
    second = lease.submit(pairs(2), deadline())
    await ends.until_held(2)
    assert (ends.core.admission.requests, len(ends.link.leases)) == (1, 1)
    ends.worker.finish_all()
    assert numbers(await second.in_order()) == [2, 3]
    lease.release()


@pytest.mark.parametrize("at_once", [False, True])
async def test_refusal_reaches_the_request(at_once: bool, ends: Ends) -> None:
    others = [lease_of(ends.core) for _ in range(100)]
    with pytest.raises(OverloadedError, match="100 requests") as refused:
        await compute(await ends.backend.admit(9, at_once), sentences(1))
    assert refused.value.retry_after_seconds == 1
    assert refused.value.limit == "requests"
    for other in others:
        other.release()
    task = await begin(ends, sentences(1))
    assert ends.kinds == [*([Submit] if at_once else [Submit, Release]), Submit]
    ends.worker.finish_all()
    assert numbers(await task) == [2]


@pytest.mark.parametrize("at_once", [False, True])
async def test_counted_tokens_may_be_refused_after_the_estimate(at_once: bool, ends: Ends) -> None:
    ends.core.admission.max_tokens = 9
    with pytest.raises(RequestTooLargeError, match="about 10 tokens"):
        await compute(await ends.backend.admit(9, at_once), sentences(5))
    assert not ends.worker.given


@pytest.mark.parametrize("at_once", [False, True])
async def test_cancelled_request_leaves_the_worker(at_once: bool, ends: Ends) -> None:
    task = await begin(ends, pairs(2), at_once=at_once)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while ends.worker.held:
        await asyncio.sleep(0)
    await ends.until_idle()
    assert ends.kinds[-1] is Release


async def test_cancelled_admission_is_released(ends: Ends) -> None:
    """The main process may admit it after the client has gone."""
    task = asyncio.create_task(ends.backend.admit(9, at_once=True))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ends.until_received(Submit, Release)


@pytest.mark.parametrize("at_once", [False, True])
async def test_unused_lease_is_given_back(at_once: bool, ends: Ends) -> None:
    lease = await ends.backend.admit(9, at_once)
    assert ends.core.admission.requests == int(at_once)
    for _ in range(2):
        lease.release()
    await ends.until_idle()
    assert ends.kinds == [Submit, Release][: 2 * at_once]


@pytest.mark.parametrize("make", [sentences, texts, pairs])
async def test_release_read_with_its_submit_leaves_nothing_behind(
    make: Callable[[int], list[WorkItem]], ends: Ends
) -> None:
    """A task that handled the Submit later would admit it after the Release of its lease."""
    lease = await ends.backend.admit(9, at_once=False)
    lease.submit(make(2), deadline())
    lease.release()
    await ends.until_received(Submit, Release)
    assert not ends.worker.held
    assert not ends.link.leases
    await ends.until_idle()


async def test_release_forgets_all_open_submissions_of_a_request(ends: Ends) -> None:
    """Guards a fault: only those up to the first open one were forgotten."""
    lease = await ends.backend.admit(9, at_once=False)
    for make in (sentences, texts, pairs):
        lease.submit(make(2), deadline())
    await ends.until_held(6)
    assert len(ends.backend.streams) == 3
    lease.release()
    assert not ends.backend.streams
    await ends.until_idle()


async def test_release_with_finished_results_waits_for_a_later_message(ends: Ends) -> None:
    """The end of a request needs no message of its own; the end of open items does."""
    task = await begin(ends, sentences(1))
    ends.worker.finish_all()
    await task
    await asyncio.sleep(0)
    assert Release not in ends.kinds
    other = await begin(ends, sentences(1, first=9))
    assert ends.kinds == [Submit, Release, Submit]
    ends.worker.finish_all()
    assert numbers(await other) == [9]


async def test_failed_item_ends_its_request_at_once_and_alone(ends: Ends) -> None:
    bad, good = await begin(ends, sentences(3)), await begin(ends, texts(1, first=9))
    ends.worker.fail(2)
    with pytest.raises(InternalError, match="RuntimeError"):
        await bad
    assert [*ends.worker.held] == [4]
    ends.worker.finish(4)
    assert numbers(await good) == [9]


class OtherClock:
    """Replaces the time module of the HTTP worker by the clock of another machine."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead

    def perf_counter(self) -> float:
        return time.perf_counter() + self.ahead


@pytest.mark.parametrize("ahead", [1e6, -1e6])
async def test_deadline_is_sent_as_a_duration(
    monkeypatch: pytest.MonkeyPatch, ahead: float, ends: Ends
) -> None:
    """The clocks of an HTTP worker and of the main process need not agree."""
    clock = OtherClock(ahead)
    monkeypatch.setattr(remote_backend, "time", clock)
    lease = await ends.backend.admit(9, at_once=False)
    stream = lease.submit(sentences(1), clock.perf_counter() + 30)
    await ends.until_held(1)
    (message,) = ends.messages
    assert isinstance(message, Submit)
    assert message.seconds == pytest.approx(30, abs=5)
    ends.worker.finish_all()
    assert numbers(await stream.in_order()) == [2]
    late = lease.submit(sentences(2), clock.perf_counter() - 1)
    with pytest.raises(DeadlineExceededError, match="0 of 2"):
        await late.batch()
    lease.release()


async def test_lost_http_worker_drops_its_requests(ends: Ends) -> None:
    task = await begin(ends, sentences(2))
    lease = await ends.backend.admit(9, at_once=True)
    assert ends.core.admission.requests == 2
    ends.link.lose()
    ends.is_closed = True
    assert (ends.core.admission.requests, ends.core.admission.tokens) == (0, 0)
    assert not ends.worker.held
    task.cancel()
    lease.release()


async def test_change_of_models_does_not_wait_for_a_lost_or_starting_worker() -> None:
    """The disk of a starting worker may hang; a lost worker never answers."""

    async def serve(link: HttpWorkerLink) -> str | None:
        return await asyncio.wait_for(link.serve(ModelSet(())), 5)

    link = HttpWorkerLink(core_of(make_scheduler()), Mock(), lambda: None)
    assert await serve(link) is None
    (number,) = link.served
    link.receive(Answer(number, None))
    await asyncio.sleep(0)
    assert not link.served
    link.receive(Call("listening"))
    waiting = asyncio.create_task(serve(link))
    while not link.served:
        await asyncio.sleep(0)
    link.receive(Answer(number + 1, "no"))
    assert await waiting == "no"
    assert not link.served
    waiting = asyncio.create_task(serve(link))
    while not link.served:
        await asyncio.sleep(0)
    link.lose()
    assert await waiting is None
    assert await serve(link) is None


async def test_requests_fail_when_the_main_process_is_gone(ends: Ends) -> None:
    waiting = await begin(ends, sentences(2))
    lease = await ends.backend.admit(9, at_once=True)
    ends.link.outbox.writer.close()
    for request in (waiting, compute(lease, sentences(1)), ends.backend.admit(9, at_once=True)):
        with pytest.raises(UnavailableError, match="stopping"):
            await request
    assert ends.lost == [True]
    later = await ends.backend.admit(9, at_once=False)
    with pytest.raises(ServiceError, match="stopping"):
        await compute(later, sentences(1))
    ends.link.lose()
    ends.is_closed = True


@pytest.mark.parametrize("at_once", [False, True])
async def test_fault_is_logged_without_what_it_quotes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, at_once: bool, ends: Ends
) -> None:
    def fail(_tokens: int) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(ends.core.admission, "admit", fail)
    with pytest.raises(InternalError, match="main process"):
        await compute(await ends.backend.admit(9, at_once), sentences(1))
    assert "ValueError" in caplog.text
    assert "in fail" in caplog.text
    assert SECRET not in caplog.text


async def test_fault_in_the_handling_of_a_message_does_not_end_the_channel(
    caplog: pytest.LogCaptureFixture, ends: Ends
) -> None:
    """The HTTP worker would hear nothing more: its requests would wait for ever."""

    def fail(_: bool) -> None:
        raise ValueError(SECRET)

    ends.backend.drain = fail
    ends.link.outbox.send(Call("drain", (False,)))
    request = await begin(ends, sentences(1))
    ends.worker.finish_all()
    assert numbers(await request) == [2]

    assert "a message of the main process was not handled (Call): ValueError" in caplog.text
    assert SECRET not in caplog.text
