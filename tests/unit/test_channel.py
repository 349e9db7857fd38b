import asyncio
import pickle
import socket
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from model.inspection.query import AttentionJob, AttentionKind, resolve_query
from model.sequence import BatchStats, DecodingOptions, Hypothesis
from service.errors import (
    DeadlineExceededError,
    InternalError,
    OverloadedError,
    RequestTooLargeError,
    ServiceError,
    UnavailableError,
    outcome,
)
from service.http_workers.messages import Answer, Release, Results, Submit
from service.ipc.channel import LENGTH, Channel, Inbox, Outbox, pack
from service.items import (
    AttentionItem,
    Done,
    EmbeddingItem,
    Failed,
    Result,
    TranslationItem,
    WorkItem,
)
from service.metrics.figures import Ended
from service.workers.messages import Abort, Compute, Ping, Report
from tests.tiny import tiny_config

QUERY = resolve_query(tiny_config(), [AttentionKind.CROSS])
ITEMS: list[WorkItem] = [
    TranslationItem("en-pt", [5, 0], DecodingOptions(beam_size=2), 7, True, 2, 1),
    TranslationItem("en-pt", [5, 6, 0], DecodingOptions(return_scores=True), id=2),
    EmbeddingItem("tiny", [5, 6], is_per_token=True, is_raw=True, is_bulk=True, id=3),
    AttentionItem("en-pt", AttentionJob([5, 0], [7, 0], (QUERY,)), is_bulk=True, id=4),
]
COMPUTE = Compute(ITEMS)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


Ends = tuple[socket.socket, socket.socket]


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    ours, theirs = map(Channel, ends)
    for message in (COMPUTE, Abort([1]), Ping()):
        ours.send(message)
    assert repr([theirs.receive() for _ in range(3)]) == repr([COMPUTE, Abort([1]), Ping()])


def test_message_larger_than_the_buffers_arrives(ends: Ends) -> None:
    ours, theirs = map(Channel, ends)
    message = Compute([EmbeddingItem("tiny", [*range(1000)], id=n) for n in range(2000)])
    assert len(pack(message)) > 1 << 20
    sender = threading.Thread(target=ours.send, args=(message,))
    sender.start()
    assert theirs.receive() == message
    sender.join()


@pytest.mark.parametrize("sent", [0, 3, LENGTH.size, LENGTH.size + 5])
def test_end_of_the_other_side_is_told_wherever_it_comes(ends: Ends, sent: int) -> None:
    ours, theirs = ends
    ours.sendall(pack(COMPUTE)[:sent])
    ours.close()
    with pytest.raises(EOFError, match="the server is gone"):
        Channel(theirs).receive()


def read_all(data: bytes, size: int = 1, is_late: bool = False) -> list[Any]:
    """What the server's end makes of bytes in parts of a size, which may come before it reads."""

    async def run() -> list[Any]:
        inbox, found = Inbox(), list[Any]()
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        calls: list[tuple[Any, Any]] = [(inbox.data_received, part) for part in parts]
        for call, argument in [*calls, (inbox.connection_lost, None)]:
            if is_late:
                call(argument)
            else:
                asyncio.get_running_loop().call_soon(call, argument)
        await inbox.pass_to(found.append)
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_server_reads_what_a_worker_sends(size: int, is_late: bool) -> None:
    both = pack(COMPUTE) + pack(Ping())
    assert repr(read_all(both, size, is_late)) == repr([COMPUTE, Ping()])
    assert repr(read_all(both[:-1], size)) == repr([COMPUTE])
    assert read_all(pack(Ping())[:5], size) == []


@pytest.mark.parametrize(
    "message",
    [
        COMPUTE,
        Report(
            done=[Done(1, [Hypothesis([4, 0], [-0.5, -0.25], -0.375)]), Done(3, b"\x00\x01")],
            failed=[Failed(4, "RuntimeError", True)],
        ),
        Report(batches={"en-pt": {BatchStats("encode", 1, 2, 3): 4}}),
        Submit(7, 3, 20, (), 0.0),
        Submit(7, 3, 20, ITEMS, 12.5, 40),
        Release(3),
        Results(7, [(1, Result([Hypothesis([5, 0])], 0.1, 0.2)), (0, Result(b"x", 0.1, 0.2))]),
        Answer(7, None),
        Ended("translate", "en-pt", "ok", 200, 1, 0.5, {"queue": 0.1}, {"en-pt": 1}),
    ],
)
def test_message_is_equal_after_the_channel(message: object) -> None:
    """Messages and items of which there are many are pickled by their fields alone."""
    assert repr(pickle.loads(pack(message)[LENGTH.size :])) == repr(message)


@pytest.mark.parametrize(
    "error",
    [
        OverloadedError("full", 3, "tokens"),
        UnavailableError("loading", 1),
        DeadlineExceededError("late"),
        RequestTooLargeError("large"),
        InternalError("a fault"),
    ],
)
def test_error_is_equal_after_the_channel(error: ServiceError) -> None:
    refusal = pickle.loads(pack(Answer(7, error=error))[LENGTH.size :])
    assert refusal.id == 7
    found = refusal.error
    assert type(found) is type(error)
    assert vars(found) == vars(error)
    assert outcome(found) == outcome(error)


class Written:
    """A writer that keeps what is written."""

    def __init__(self) -> None:
        self.lists: list[list[object]] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.lists.append(pickle.loads(data[LENGTH.size :]))

    def is_closing(self) -> bool:
        return self.is_closed


def outbox_of(written: Written) -> Outbox:
    return Outbox(cast("asyncio.WriteTransport", written))


async def test_messages_of_one_turn_go_out_together_and_in_order() -> None:
    written = Written()
    outbox = outbox_of(written)
    outbox.post(1)
    outbox.send(2)
    outbox.post(3)
    outbox.send(4)
    assert not written.lists
    await asyncio.sleep(0)
    assert written.lists == [[1, 2, 3, 4]]
    outbox.send(5)
    await asyncio.sleep(0)
    assert written.lists == [[1, 2, 3, 4], [5]]


async def test_message_without_a_waiting_caller_is_sent_in_the_end() -> None:
    written = Written()
    outbox = outbox_of(written)
    outbox.post(1)
    await asyncio.sleep(0)
    outbox.post(2)
    assert not written.lists
    async with asyncio.timeout(20):
        while not written.lists:
            await asyncio.sleep(0.001)
    assert written.lists == [[1, 2]]
    outbox.flush()
    assert written.lists == [[1, 2]]
    written.is_closed = True
    outbox.send(3)
    await asyncio.sleep(0)
    assert written.lists == [[1, 2]]
