import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from model.sequence import Sequence
from service import channel
from service.channel import LENGTH, Channel, pack
from service.messages import Abort, Stop, Work

WORK = Work({"en-pt": [Sequence(1, [5, 6, 0]), Sequence(2, [7, 0])]})


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


Ends = tuple[socket.socket, socket.socket]


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    ours, theirs = map(Channel, ends)
    for message in (WORK, Abort([1]), Stop()):
        ours.send(message)
    assert [theirs.receive() for _ in range(3)] == [WORK, Abort([1]), Stop()]


def test_message_that_came_is_noticed(ends: Ends) -> None:
    ours, theirs = map(Channel, ends)
    assert not theirs.has_message()
    ours.send(Stop())
    assert theirs.has_message()
    theirs.receive()
    assert not theirs.has_message()


def test_message_larger_than_the_buffers_arrives(ends: Ends) -> None:
    ours, theirs = map(Channel, ends)
    message = Work({"en-pt": [Sequence(number, [*range(1000)]) for number in range(2000)]})
    assert len(pack(message)) > 1 << 20
    sender = threading.Thread(target=ours.send, args=(message,))
    sender.start()
    assert theirs.receive() == message
    sender.join()


@pytest.mark.parametrize("sent", [0, 3, LENGTH.size, LENGTH.size + 5])
def test_end_of_the_other_side_is_told_wherever_it_comes(ends: Ends, sent: int) -> None:
    ours, theirs = ends
    ours.sendall(pack(WORK)[:sent])
    ours.close()
    with pytest.raises(EOFError, match="the server is gone"):
        Channel(theirs).receive()


def test_sending_to_nobody_is_an_error(ends: Ends) -> None:
    ours, theirs = ends
    theirs.close()
    with pytest.raises(OSError, match="pipe"):
        Channel(ours).send(WORK)


def read_all(data: bytes) -> list[Any]:
    """What the server's end makes of bytes that come one at a time."""

    async def run() -> list[Any]:
        reader = asyncio.StreamReader()
        for position in range(len(data)):
            reader.feed_data(data[position : position + 1])
        reader.feed_eof()
        messages = []
        try:
            while True:
                messages.append(await channel.read(reader))
        except asyncio.IncompleteReadError as error:
            messages.append(len(error.partial))
        return messages

    return asyncio.run(run())


def test_server_reads_what_a_worker_sends() -> None:
    assert read_all(pack(WORK) + pack(Stop())) == [WORK, Stop(), 0]
    assert read_all(pack(WORK) + pack(Stop())[:-1])[0] == WORK
    assert read_all(pack(Stop())[:5]) == [5]
