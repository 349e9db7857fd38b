"""Remote models: their references, tokens and prompts, and the requests to several endpoints."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from unittest.mock import Mock

import pytest

from model.sequence import DecodingOptions, Hypothesis
from service.errors import OverloadedError
from service.items import Result, ResultStream, WorkItem
from service.models.prompts import Hints
from service.models.remote import (
    CharacterTokenizer,
    RemoteFiles,
    RemoteItem,
    ServedRemote,
    find_remote,
)
from service.remote import endpoint
from service.remote.endpoint import Endpoints, translation_of
from service.remote.routing import RoutingLease
from service.tasks.translation.pivoting import item_for
from service.text.chunking import chunk_sentences
from service.text.segmentation import one_sentence
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

    async def translate(self, text: str, model: RemoteFiles, hints: Hints) -> str:
        self.texts.append(text)
        if len(self.texts) == 1:
            raise OverloadedError("too many requests", 60, "requests")
        if text == "held":
            await self.release.wait()
        return text.upper()


async def test_pause_of_one_request_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    pause, endpoints, client = asyncio.Event(), Endpoints(ONE, Mock()), Endpoint()
    monkeypatch.setattr(endpoints, "ask", client.translate)
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


def test_slow_endpoint_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    arrived, may_answer = threading.Event(), threading.Event()

    def wait(text: str) -> str:
        arrived.set()
        may_answer.wait()
        return text

    async def test(slow: str, other: str) -> None:
        client = Endpoints(ONE, Mock())
        begun = asyncio.create_task(client.ask("a", RemoteFiles("m", slow, "en", "de")))
        try:
            await asyncio.to_thread(arrived.wait)
            async with asyncio.timeout(20):
                files = RemoteFiles("m", other, "en", "de")
                assert await client.ask("b", files) == "B"
        finally:
            may_answer.set()
        assert await begun == "a"
        await client.aclose()

    with chat_server() as first, chat_server() as second:
        first.translate = wait
        asyncio.run(test(first.url, second.url))


async def test_silent_endpoint_leaves_time_for_the_fallback() -> None:
    served, other = ServedRemote.load(BUSY), ServedRemote.load(OTHER)
    endpoints = Endpoints(ONE, Mock())
    endpoints.translate = Mock(side_effect=lambda *_: asyncio.Event().wait())  # type: ignore[method-assign]
    submitted: list[WorkItem] = []
    tokenizer = served.vocabularies.source
    answers = [tokenizer.encode(each) for each in ("Ein Satz.", "Zwei.")]

    def submit(items: Sequence[WorkItem], _: float) -> ResultStream:
        submitted.extend(items)
        stream = ResultStream(len(items))
        stream.add([(place, Result([Hypothesis(ids)], 0, 0)) for place, ids in enumerate(answers)])
        return stream

    lease = RoutingLease(Mock(submit=submit), {served.name: served}, endpoints)
    fallback = replace(other.direction("en", "de"), name="local")
    ids = tokenizer.encode("A cat. A dog.")
    item = item_for(served.direction("en", "de", fallback), ids, DecodingOptions(), False)
    result = await lease._translate(cast("RemoteItem", item), time.perf_counter() + 0.1)
    assert tokenizer.decode(result.value[0].tokens) == "Ein Satz. Zwei."
    assert (result.substitute, [each.model for each in submitted]) == ("local", ["local"] * 2)


FILES = RemoteFiles("maker/large", "http://h:1/v1", "en", "pt-BR")


def test_reference_names_each_pair() -> None:
    found = find_remote("openai:maker/large@http://h:1/v1/#en-pt_br+zh_hans-en")
    assert found == [FILES, RemoteFiles("maker/large", "http://h:1/v1", "zh-Hans", "en")]
    assert [files.name for files in found] == ["large-en-pt-BR", "large-zh-Hans-en"]
    assert len({files.revision for files in found}) == 1
    assert find_remote("/models/ende") == []
    assert find_remote("openai:m@http://h:abc/v1#en-de") == []
    assert find_remote("openai:m@http:///v1#en-de") == []
    assert find_remote("openai:m@http://:80/v1#en-de") == []
    assert find_remote("openai:m@http://h/v1#en-de&prompt=tower") == []
    (preferred,) = find_remote("openai:m@http://h/v1#en-de&prompt=tower-plus&first")
    assert (preferred.prompt_name, preferred.is_first) == ("tower-plus", True)


@pytest.mark.parametrize("text", ["", "a", "A cat.", "日本語", "🙂‍↔️ x", "a\n b", "\U0010ffff"])
def test_every_text_comes_back(text: str) -> None:
    tokenizer = CharacterTokenizer()
    ids = tokenizer.encode(text)
    assert tokenizer.decode([*ids, tokenizer.eos_id]) == text
    assert tokenizer.encode_with_offsets(text).ids == ids
    assert not tokenizer.unknown_spans(text)
    assert all(0 <= each < tokenizer.vocab_size for each in ids)


@pytest.mark.parametrize("text", ["one two  three four " * 9, "onetwo" * 40, "日本語" * 50])
def test_text_is_cut_between_words(text: str) -> None:
    chunked = chunk_sentences(one_sentence(text), CharacterTokenizer(), 50)
    assert chunked.segments.join(chunked.segments.sentences) == text
    assert all(len(each) <= 50 for each in chunked.segments.sentences)
    words = set(text.split())
    if len(words) > 1:
        assert {word for each in chunked.segments.sentences for word in each.split()} == words


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (" Ein Satz.\n", "Ein Satz."),
        ("<think>so</think>Ein Satz.", "Ein Satz."),
        ("Ein <think>Satz</think>.", "Ein <think>Satz</think>."),
        ("Ein \ud83d Satz.", "Ein ? Satz."),
    ],
)
def test_translation_is_the_whole_reply(content: str, expected: str) -> None:
    reply = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    assert translation_of(reply, "m") == expected
