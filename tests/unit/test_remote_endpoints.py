"""The requests to several endpoints of remote models do not wait for each other."""

import asyncio
import threading
import time
from typing import cast
from unittest.mock import Mock

import pytest

from service.errors import OverloadedError
from service.models.remote import RemoteFiles
from service.remote import endpoint
from service.remote.chat_client import ChatClient
from service.remote.endpoint import Endpoints
from tests.api.servers import make_settings
from tests.chat_server import chat_server
from tests.unit.scheduling import settle

ONE = make_settings(remote_requests=1)
BUSY, OTHER = (RemoteFiles("m", f"http://{host}/v1", "en", "de") for host in ("busy", "other"))


class Endpoint:
    """A client whose endpoint `busy` refuses the first request; it records all requests."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.release = asyncio.Event()

    async def translate(self, text: str, model: RemoteFiles) -> str:
        self.texts.append(text)
        if len(self.texts) == 1:
            raise OverloadedError("too many requests", 60, "requests")
        if text == "held":
            await self.release.wait()
        return text.upper()


def test_pause_of_one_request_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        pause, endpoints, client = asyncio.Event(), Endpoints(ONE, Mock()), Endpoint()
        endpoints.opened = cast(ChatClient, client)
        clock = Mock(sleep=lambda _: pause.wait(), Semaphore=asyncio.Semaphore)
        clock.CancelledError = asyncio.CancelledError
        monkeypatch.setattr(endpoint, "asyncio", clock)

        def begin(text: str, model: RemoteFiles) -> "asyncio.Task[tuple[str, float, float]]":
            deadline = time.perf_counter() + 1000
            return asyncio.create_task(endpoints.translate(text, model, deadline))

        refused = begin("a", BUSY)
        await settle()
        others = [begin("b", BUSY), begin("c", OTHER)]
        await settle()
        assert [other.done() for other in others] == [True, True]
        held = begin("held", BUSY)
        pause.set()
        await settle()
        assert client.texts == ["a", "b", "c", "held"]  # still one request at a time
        client.release.set()
        assert (await refused)[0] == "A"
        assert (await held)[0] == "HELD"

    asyncio.run(test())


def test_slow_endpoint_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    arrived, may_answer = threading.Event(), threading.Event()

    def wait(text: str) -> str:
        arrived.set()
        may_answer.wait()
        return text

    async def test(slow: str, other: str) -> None:
        client = ChatClient(ONE)
        begun = asyncio.create_task(client.translate("a", RemoteFiles("m", slow, "en", "de")))
        try:
            await asyncio.to_thread(arrived.wait)
            async with asyncio.timeout(20):
                files = RemoteFiles("m", other, "en", "de")
                assert await client.translate("b", files) == "B"
        finally:
            may_answer.set()
        assert await begun == "a"
        await client.close()

    with chat_server() as first, chat_server() as second:
        first.translate = wait
        asyncio.run(test(first.url, second.url))
