"""POST /translate as a stream: sentences in order, errors in the middle, clients that go."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from service.api import streams
from service.api.libretranslate import streaming
from service.errors import InvalidRequestError, RequestTooLargeError, UnsupportedLanguageError
from tests.api.conftest import Serve, ServeAny, ServeTcp
from tests.api.servers import AnyServer, Server, SocketServer, assert_error, translation
from tests.api.test_disconnect import post_of
from tests.workers import Script, until

SSE, NDJSON = "text/event-stream", "application/x-ndjson"
LINES = {"headers": {"Accept": NDJSON}}

TEXT = """The cat sat on the mat.  It was happy!

Hello {name}, see https://example.org/a?b=1 today. SAVE YOUR WORK NOW
🎉 --- 🎉
 - First item
 - Second item: press <b>OK</b>. """

PAGE = (
    "<!doctype html><h1 title='A red house'>Good <em>morning</em></h1>\n"
    "<p>The cat. <b>The dog is big.</b> It is "
    "<a href='/a'>here &amp; there</a>.</p><ul><li>One day</li><li><code>ls -l</code></li></ul>"
)


def stream(server: AnyServer, q: str | list[str], **fields: Any) -> httpx.Response:
    return server.post("/translate", json=translation(q, **fields), **LINES)


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200
    assert response.headers["content-type"] == NDJSON
    return [json.loads(line) for line in response.text.splitlines()]


def joined(sentences: list[dict[str, Any]]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for each in sentences:
        texts[each["input"]] = texts.get(each["input"], "") + each["translatedText"]
    return texts


def test_sentences_come_one_by_one_in_order(serve_any: ServeAny) -> None:
    *sentences, done = lines(stream(serve_any(), ["One. Two.\n", "", "Three."]))
    assert sentences == [
        {"input": 0, "sentence": 0, "translatedText": "One. "},
        {"input": 0, "sentence": 1, "translatedText": "Two.\n"},
        {"input": 1, "sentence": 0, "translatedText": ""},
        {"input": 2, "sentence": 0, "translatedText": "Three."},
    ]
    assert done == {"done": True, "sentences": 4}


def test_events_have_the_same_objects(server: Server) -> None:
    response = server.post(
        "/translate", json=translation("One. Two."), headers={"Accept": f"{SSE}, */*;q=0.1"}
    )
    assert response.headers["content-type"] == f"{SSE}; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert "content-length" not in response.headers
    assert response.text == (
        'event: sentence\ndata: {"input":0,"sentence":0,"translatedText":"One. "}\n\n'
        'event: sentence\ndata: {"input":0,"sentence":1,"translatedText":"Two."}\n\n'
        'event: done\ndata: {"done":true,"sentences":2}\n\n'
    )


@pytest.mark.parametrize("accept", ["Text/Event-Stream", "APPLICATION/X-NDJSON;q=0.9"])
def test_case_of_the_media_type_does_not_matter(server: Server, accept: str) -> None:
    response = server.post("/translate", json=translation("One."), headers={"Accept": accept})
    found = response.headers["content-type"].partition(";")[0]
    assert found == accept.partition(";")[0].lower()


@pytest.mark.parametrize("accept", ["*/*", "application/json", f"application/json, {SSE};q=0.5"])
def test_other_clients_get_the_plain_reply(server: Server, accept: str) -> None:
    response = server.post("/translate", json=translation("One."), headers={"Accept": accept})
    assert response.json() == {"translatedText": "One."}


@pytest.mark.parametrize(
    ("q", "fields"),
    [
        (TEXT, {}),
        ([TEXT, "", "...", "Good day."], {"beam_size": 2}),
        (TEXT, {"split_sentences": False}),
        (TEXT, {"source": "auto"}),
        (TEXT, {"target": "en"}),
        (PAGE, {"format": "html"}),
        ([PAGE, "<p></p>", "The <b>cat</b>"], {"format": "html", "beam_size": 2}),
        ("<p>A <img alt='A cat'> cat.</p><p>No <img alt='A cat'> dog.</p>", {"format": "html"}),
    ],
)
def test_joined_sentences_are_the_plain_reply(
    real_server: Server, q: str | list[str], fields: dict[str, Any]
) -> None:
    plain = real_server.translate(q, **fields).json()
    *sentences, done = lines(stream(real_server, q, **fields))
    texts = plain["translatedText"] if isinstance(q, list) else [plain["translatedText"]]
    assert joined(sentences) == dict(enumerate(texts))
    assert done == {"done": True, "sentences": len(sentences)}
    assert sentences[0].get("detectedLanguage") == plain.get("detectedLanguage")


def test_long_text_is_whole(server: Server) -> None:
    text = " ".join(f"Sentence {number} of many." for number in range(1000))
    *sentences, done = lines(stream(server, text))
    assert joined(sentences) == {0: text}
    assert [each["sentence"] for each in sentences] == [*range(1000)]
    assert done["sentences"] == 1000


def test_many_streams_at_once(serve: Serve) -> None:
    server = serve()
    texts = [f"One {number}. Two. Three." for number in range(200)]
    begun = [server.begin("POST", "/translate", json=translation(text), **LINES) for text in texts]
    for text, response in zip(texts, begun, strict=True):
        assert joined(lines(response.result(60))[:-1]) == {0: text}
    server.until_released()
    assert server.sample("regard_first_sentence_seconds_count", model="en-pt") == 200


@pytest.mark.parametrize(("name", "value"), [("alternatives", 1), ("return_scores", True)])
def test_extras_that_a_stream_does_not_have_are_refused(
    server: Server, name: str, value: object
) -> None:
    assert_error(stream(server, "One.", **{name: value}), InvalidRequestError, name, "Accept")


def test_fault_before_the_first_sentence_is_a_plain_error(serve: Serve) -> None:
    server = serve(max_pending_tokens=50)
    assert_error(stream(server, "One.", target="zz"), UnsupportedLanguageError)
    assert_error(stream(server, "A. " * 30), RequestTooLargeError, "50")
    server.until_released()
    assert server.num_requests("too_large") == 1
    assert server.sample("regard_first_sentence_seconds_count", model="en-pt") == 0


def test_fault_in_the_middle_is_the_last_event(serve_any: ServeAny, script: Script) -> None:
    server = serve_any()
    script.poison.add(server.token("Three."))
    first, second, error = lines(stream(server, "One. Two. Three. Four."))
    assert (first["sentence"], second["sentence"]) == (0, 1)
    assert error.keys() == {"error", "error_type", "request_id"}
    assert error["error_type"] == "internal"
    server.until_released()
    server.until_answered()
    assert server.num_requests("error") == 1


def test_fault_of_the_server_itself_is_the_last_event(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = streaming._body

    def fail(sentence: Any) -> dict[str, Any]:
        if sentence.index:
            raise RuntimeError("Rumpelstiltskin")
        return body(sentence)

    monkeypatch.setattr(streaming, "_body", fail)
    _, error = lines(stream(server, "One. Two."))
    assert error["error_type"] == "internal"
    assert "Rumpelstiltskin" not in str(error)


def test_deadline_in_the_middle(serve: Serve, script: Script) -> None:
    server = serve(request_timeout_seconds=1)
    script.stuck.add(server.token("Three."))
    *sentences, error = lines(stream(server, "One. Two. Three. Four."))
    assert len(sentences) == 2
    assert error["error_type"] == "deadline_exceeded"
    assert "2 of 4" in str(error)
    server.until_released()


def open_stream(server: SocketServer, q: str) -> socket.socket:
    connection = server.connect()
    connection.sendall(post_of(translation(q), "/translate", f"Accept: {NDJSON}"))
    return connection


def test_client_that_goes_frees_its_rows(serve_tcp: ServeTcp, script: Script) -> None:
    server = serve_tcp()
    script.may_finish.clear()
    text = " ".join(f"Sentence {number}." for number in range(500))
    with open_stream(server, text) as connection:
        until(lambda: script.admitted)
        script.num_steps = 10
        script.may_finish.set()
        received = b""
        while b'"sentence":0' not in received:
            received += connection.recv(4096)
        script.may_finish.clear()
        until(lambda: len(script.admitted) > 1)
    until(lambda: server.num_requests("cancelled") == 1)
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    assert server.core.admission.requests == 0
    assert server.core.admission.tokens == 0
    assert len(script.admitted) < 500
    script.may_finish.set()
    assert server.translate("Next.").status_code == 200


def test_client_that_never_reads_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SECONDS_LEFT_TO_READ", 0.0)
    server = serve(request_timeout_seconds=0.5)
    body = json.dumps(translation("One. Two.")).encode()
    messages: list[Message] = [{"type": "http.request", "body": body}]
    headers = [(b"content-type", b"application/json"), (b"accept", NDJSON.encode())]
    scope = {"type": "http", "method": "POST", "path": "/translate", "query_string": b""}

    async def receive() -> Message:
        return messages.pop() if messages else await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Future()

    async def call() -> None:
        await server.app({**scope, "headers": headers}, receive, send)

    server.run(call())
    server.until_released()


def test_all_characters_count_from_the_first_sentence_on(
    serve: Serve, script: Script, tmp_path: Path
) -> None:
    server = serve(monthly_characters=1000, state=str(tmp_path))
    script.poison.add(server.token("Three."))
    headers = {"Authorization": "DeepL-Auth-Key none"}

    def used() -> int:
        count: int = server.get("/v2/usage", headers=headers).json()["character_count"]
        return count

    stream(server, "Three. One.")
    assert used() == 0
    stream(server, "One. Three.")
    assert used() == len("One. Three.")
    assert_error(stream(server, "One.", target="zz"), UnsupportedLanguageError)
    assert used() == len("One. Three.")
