"""POST /v1/chat/completions: the pair, the text, streams and errors. The workers echo texts."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from service.text.language_names import code_of
from tests.api.conftest import Serve
from tests.api.servers import AnyServer, LiveServer, Server
from tests.workers import Script

PATH = "/v1/chat/completions"
TEXT = "The cat sat. A dog."


def user(content: Any = TEXT) -> dict[str, Any]:
    return {"role": "user", "content": content}


def system(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


def ask(server: AnyServer, *messages: dict[str, Any], **fields: Any) -> httpx.Response:
    return server.post(PATH, json={"messages": messages or [user()], "model": "en-pt", **fields})


def content(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    text: str = response.json()["choices"][0]["message"]["content"]
    return text


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    *events, end, rest = response.text.split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_reply_has_openais_shape(server: Server) -> None:
    response = ask(server, temperature=0.3, max_tokens=7, top_p=1, user="me", n=1, seed=1)
    body = response.json()
    usage = body.pop("usage")
    assert body.pop("created") > 1e9
    assert body.pop("id") == f"chatcmpl-{response.headers['x-request-id']}"
    message = {"role": "assistant", "content": TEXT, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    assert body == {"object": "chat.completion", "model": "en-pt", "choices": [choice]}
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 10


@pytest.mark.parametrize(
    ("model", "messages", "fields"),
    [
        ("en-pt", [user()], {}),
        ("regard/en-pt", [user()], {}),
        ("translate-en-pt", [user()], {}),
        ("EN_PT-BR", [user()], {}),
        ("gpt", [user()], {"source": "en", "target": "pt"}),
        ("gpt", [user()], {"source_language": "English", "target_language": "português"}),
        ("qwen", [user()], {"translation_options": {"source_lang": "en", "target_lang": "pt"}}),
        ("gpt", [system("Translate from English to Portuguese. Add nothing."), user()], {}),
        ("gpt", [system('{"source": "en", "to": "pt"}'), user()], {}),
        ("gpt", [user(f"Translate from English to Portuguese, be brief:\n\n{TEXT}")], {}),
        ("gpt", [user("Translate from English to Portuguese."), user()], {}),
        ("gpt", [user(json.dumps({"from": "en", "to": "pt", "text": TEXT}))], {}),
        ("", [user(f"Translate the following English text into Portuguese: {TEXT}")], {}),
        ("en-pt", [user(f"Translate to Portuguese:\n{TEXT}")], {}),
        (
            "gemma",
            [user([{"type": "text", "source_lang_code": "en", "target_lang_code": "pt"}])],
            {},
        ),
    ],
)
def test_pair_is_named_in_many_ways(
    server: Server,
    script: Script,
    model: str,
    messages: list[dict[str, Any]],
    fields: dict[str, Any],
) -> None:
    for each in messages:
        if isinstance(each["content"], list):
            each["content"][0]["text"] = TEXT
    assert content(ask(server, *messages, model=model, **fields)) == TEXT
    assert len(script.admitted) == 2
    assert server.num_requests("ok") >= 1


def test_source_is_detected(server: Server) -> None:
    text = "The weather is very nice today and we go to the beach."
    for fields in ({"model": "auto-pt"}, {"model": "x", "target": "pt", "source": "auto"}):
        assert content(ask(server, user(text), **fields)) == text
    assert content(ask(server, user("Bom dia a todos."), model="auto-pt")) == "Bom dia a todos."


def test_parts_of_a_message_are_lines(server: Server) -> None:
    parts = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    assert content(ask(server, user(parts))) == "One.\nTwo."


def test_history_is_not_translated(server: Server) -> None:
    messages = [user("One."), {"role": "assistant", "content": "Two."}, user("Three.")]
    assert content(ask(server, *messages)) == "Three."


@pytest.mark.parametrize(("number", "status"), [(15, 200), (16, 400)])
def test_pair_is_looked_for_in_few_messages(server: Server, number: int, status: int) -> None:
    """Each message takes milliseconds, and a body may have thousands of messages."""
    later = [user("A.")] * (number + 1)
    messages = [user("Translate from English to Portuguese"), *later]
    assert ask(server, *messages, model="x").status_code == status


def test_prompt_is_the_text_if_fields_name_the_target(server: Server) -> None:
    text = "Translate this to German:\nA cat."
    assert content(ask(server, user(text), target="pt")) == text


def test_batch_in_json_gets_json(server: Server) -> None:
    items = [{"position": 1, "line": "One."}, {"position": 2, "line": "Two. Three."}]
    expected = [{**item, "sourceLanguage": "en"} for item in items]
    text = content(ask(server, user(json.dumps(items))))
    assert json.loads(text) == {"translations": expected}
    streamed = chunks(ask(server, user(json.dumps(items)), stream=True))
    deltas = [each["choices"][0]["delta"].get("content", "") for each in streamed]
    assert "".join(deltas) == text


def test_stream_has_a_chunk_for_each_sentence(serve: Serve) -> None:
    options = {"include_usage": True}
    server = serve()
    *events, usage = chunks(ask(server, user("One. Two."), stream=True, stream_options=options))
    choices = [event["choices"][0] for event in events]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": ""},
        {"content": "One. "},
        {"content": "Two."},
        {},
    ]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert len({event["id"] for event in [*events, usage]}) == 1
    assert usage["choices"] == []
    assert usage["usage"] == ask(server, user("One. Two.")).json()["usage"]


def test_error_in_the_middle_of_a_stream(serve: Serve, script: Script) -> None:
    server = serve(request_timeout_seconds=1)
    script.stuck.add(server.token("Two."))
    response = ask(server, user("One. Two."), stream=True)
    *_, error, end = response.text.split("\n\n")
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "deadline_exceeded"
    assert end == ""


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"model": "gpt-4o-mini"}, "model", ("gpt-4o-mini", "source and target", "pairs: en-pt")),
        ({"model": ""}, "model", ("Translate from English to Portuguese",)),
        ({"model": "en-de"}, "model", ("en-de",)),
        ({"model": "x", "target": "de"}, "target", ("de is not supported",)),
        ({"model": "x", "target": "Klingon"}, "target", ("tlh is not supported",)),
        ({"model": "x", "source": "pt", "target": "pt-PT", "n": 2}, "n", ("n parameter", "1")),
        ({"messages": []}, "messages", ("role user",)),
        ({"messages": None}, "messages", ("missing messages",)),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages", ("role user",)),
        ({"messages": [user("")]}, "messages", ("messages",)),
        ({"messages": [user([{"type": "image_url", "image_url": {}}])]}, "messages", ("type",)),
        ({"messages": [user("Translate to German:\nx")]}, "messages", ("asks for de", "en-pt")),
    ],
)
def test_refusal_says_what_to_do(
    server: Server, fields: dict[str, Any], param: str, words: tuple[str, ...]
) -> None:
    for stream in (False, True):
        response = ask(server, stream=stream, **fields)
        error = response.json()["error"]
        assert response.status_code == 400, error
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
        for word in words:
            assert word in error["message"]


def test_pairs_in_an_error_are_few(server: Server) -> None:
    assert code_of("German", server.catalog.languages) == "de"
    message = ask(server, model="x").json()["error"]["message"]
    assert message.endswith("pairs: en-pt, pt-en")


@pytest.fixture
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    url = f"http://127.0.0.1:{live.port}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as opened:
        yield opened


def test_openais_client_translates(client: openai.OpenAI) -> None:
    messages: list[Any] = [user()]
    reply = client.chat.completions.create(model="en-pt", messages=messages, temperature=0)
    assert reply.choices[0].message.content == TEXT
    assert reply.usage is not None
    stream = client.chat.completions.create(
        model="auto", messages=messages, stream=True, extra_body={"source": "en", "target": "pt"}
    )
    assert "".join(event.choices[0].delta.content or "" for event in stream) == TEXT
