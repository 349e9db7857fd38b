"""The parts of a reply, as they reach the transport."""

import asyncio
from collections.abc import Callable, Iterable

from service.http_server.reply_writer import ReplyWriter


class Transport(asyncio.Transport):
    """Records the bytes of each system call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.calls.append(b"".join(list_of_data))

    def close(self) -> None:
        self.calls.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.calls


def written(act: Callable[[ReplyWriter], None]) -> list[bytes]:
    transport = Transport()

    async def run() -> None:
        act(ReplyWriter(transport, asyncio.get_running_loop()))
        await asyncio.sleep(0)

    asyncio.run(run())
    return transport.calls


def test_headers_and_body_are_one_call() -> None:
    def act(writer: ReplyWriter) -> None:
        for part in (b"headers", b"body", b"more"):
            writer.write(part)

    assert written(act) == [b"headersbody", b"more"]


def test_headers_do_not_wait_for_a_later_body() -> None:
    assert written(lambda writer: writer.write(b"headers")) == [b"headers"]


def test_reply_without_a_body_is_written_before_the_next_one() -> None:
    def act(writer: ReplyWriter) -> None:
        writer.write(b"headers")
        writer.flush()
        writer.transport.write(b"next")

    assert written(act) == [b"headers", b"next"]


def test_headers_are_written_before_the_end() -> None:
    def act(writer: ReplyWriter) -> None:
        writer.write(b"headers")
        writer.close()
        assert writer.is_closing()

    assert written(act) == [b"headers", b"closed"]
