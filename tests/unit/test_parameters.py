"""Reading parameters without a server: requests are made of ASGI messages."""

import asyncio
import json
import pickle
import secrets
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from starlette.requests import ClientDisconnect, Request

from service.api.context import HttpContext
from service.api.libretranslate.schemas import DetectRequest, TranslateRequest
from service.api.openai.embeddings import EmbeddingsRequest
from service.api.request.body import MAX_FIELDS, parse_json, read_body
from service.api.request.parameters import describe, described, move_definitions
from service.api.request.reading import read_permitted, validated
from service.api.tei import EmbedRequest, SimilarityRequest
from service.errors import DeadlineExceededError, InvalidRequestError
from service.settings import Settings
from service.tasks.attention.requests import AttentionRequest, StepsRequest

TEXT = st.characters(exclude_categories=["Cs"])
FORM = "application/x-www-form-urlencoded"
SETTINGS = Settings.model_validate({})
TEXT_AND_PAIR = {"q": "Hello.", "source": "en", "target": "pt"}


class Anything(BaseModel):
    """Takes every field as it is."""

    model_config = ConfigDict(extra="allow")


def request(*chunks: bytes, query: bytes = b"", **headers: str) -> Request:
    """Returns a request whose body arrives in chunks."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    context = HttpContext("id", headers=dict(raw))
    services: Any = SimpleNamespace(settings=SETTINGS, keys=SimpleNamespace(is_required=False))
    context.services = services
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": query,
        "headers": raw,
        "state": {"context": context},
    }
    return Request(scope, receive)


def read(
    *chunks: bytes, query: bytes = b"", model: type[BaseModel] = Anything, **headers: str
) -> dict[str, Any]:
    fields = read_permitted(request(*chunks, query=query, **headers))
    return validated(asyncio.run(fields), model).model_dump()


@pytest.mark.parametrize(
    ("kind", "body", "fields"),
    [
        ("Application/JSON; charset=utf-8", b'{"q": "a\\r\\n"}', {"q": "a\r\n"}),
        (FORM.upper() + "; charset=utf-8", b"q=1&q=2&q=3", {"q": ["1", "2", "3"]}),
        ("", b"q=a+b", {"q": "a b"}),
    ],
)
def test_media_type_decides_how_a_body_is_read(kind: str, body: bytes, fields: object) -> None:
    assert read(body, content_type=kind) == fields


@given(st.text(TEXT))
def test_multipart_keeps_all_but_line_ends(text: str) -> None:
    boundary = secrets.token_hex(16)
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="q"\r\n\r\n'
    body = f"{head}{text}\r\n--{boundary}--\r\n".encode()
    found = read(body, content_type=f"multipart/form-data; boundary={boundary}")
    assert found == {"q": text.replace("\r\n", "\n")}


@pytest.mark.parametrize("length", [str(SETTINGS.max_body_bytes), "0", "x", "²", "-5", ""])
def test_announced_length_is_only_believed_when_it_is_too_large(length: str) -> None:
    assert asyncio.run(read_body(request(b"ab", b"c", content_length=length))) == b"abc"


def test_end_of_the_connection_is_no_end_of_the_body() -> None:
    gone = request()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        asyncio.run(read_body(Request(gone.scope, receive)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"q": "a", "source": True},
            "source parameter: Input should be a valid string (it is true)",
        ),
        ({**TEXT_AND_PAIR, "format": ["a"]}, "a list format is not supported"),
        ({"q": [1], "source": 3}, "q[0] parameter"),
    ],
)
def test_first_fault_is_told_where_it_is(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as told:
        TranslateRequest.model_validate(fields)
    assert message in describe(told.value).joined


@pytest.mark.parametrize("name", ["str", "int", "layers[]"])
def test_unknown_parameter_is_named(name: str) -> None:
    with pytest.raises(ValidationError) as told:
        AttentionRequest.model_validate({"text": "a", "source": "en", "target": "pt", name: 1})
    assert describe(told.value).message == f"Invalid request: there is no {name} parameter"


@pytest.mark.parametrize(
    ("model", "fields", "name", "value", "message"),
    [
        (EmbedRequest, {"inputs": "a"}, "dimensions", True, "is not a number"),
        (EmbeddingsRequest, {"input": "a"}, "dimensions", 2.5, "up to 64 bits, not 2.5"),
        (EmbedRequest, {"inputs": "a"}, "dimensions", 1e30, "up to 64 bits, not 1e+30"),
        (AttentionRequest, {"text": "a", "model": "en-pt"}, "top_k", True, "is not a number"),
        (AttentionRequest, {"text": "a", "model": "en-pt"}, "decimals", False, "is not a number"),
        (TranslateRequest, TEXT_AND_PAIR, "alternatives", True, "bits, not true"),
        (TranslateRequest, TEXT_AND_PAIR, "beam_size", True, "is not a number"),
        (TranslateRequest, TEXT_AND_PAIR, "alternatives", "9" * 5000, "is not a number"),
    ],
)
def test_what_is_no_whole_number_is_refused(
    model: type[BaseModel], fields: dict[str, Any], name: str, value: object, message: str
) -> None:
    with pytest.raises(ValidationError) as told:
        model.model_validate({**fields, name: value})
    assert f"{name} parameter" in describe(told.value).joined
    assert message in describe(told.value).joined


def test_value_at_fault_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as told:
        TranslateRequest.model_validate({"q": ["fine", {"secret": "text"}]})
    assert "secret" not in describe(told.value).joined
    assert "text" not in describe(told.value).joined


WRONG = [{"wrong": number} for number in range(1000)]


@pytest.mark.parametrize(
    ("model", "fields", "where"),
    [
        (TranslateRequest, {"q": WRONG, "source": "en", "target": "pt"}, "q[0]"),
        (DetectRequest, {"q": WRONG}, "q[0]"),
        (AttentionRequest, {"text": WRONG, "model": "en-pt"}, "text[0]"),
        (AttentionRequest, {"text": "a", "target_text": WRONG, "model": "en-pt"}, "target_text[0]"),
        (AttentionRequest, {"text": "a", "kinds": WRONG, "model": "en-pt"}, "kinds[0]"),
        (AttentionRequest, {"text": "a", "layers": WRONG, "model": "en-pt"}, "layers"),
        (StepsRequest, {"text": "a", "include": WRONG, "model": "en-pt", "query": 0}, "include[0]"),
        (EmbedRequest, {"inputs": WRONG}, "inputs[0]"),
        (EmbeddingsRequest, {"input": WRONG}, "input[0]"),
        (SimilarityRequest, {"inputs": {"source_sentence": "a", "sentences": WRONG}}, "inputs"),
    ],
)
def test_a_list_that_is_all_wrong_has_one_fault(
    model: type[BaseModel], fields: dict[str, Any], where: str
) -> None:
    """400,000 faults of one request took seconds, and no other request was answered."""
    with pytest.raises(ValidationError) as told:
        model.model_validate(fields)
    assert where in describe(told.value).joined
    assert told.value.error_count() <= 3  # one for each kind that the parameter may be of


def test_too_many_fields_are_refused() -> None:
    fields = {f"field{number}": 1 for number in range(MAX_FIELDS + 1)}
    with pytest.raises(InvalidRequestError, match="has 4097 fields; the limit is 4096"):
        parse_json(json.dumps(fields).encode())
    del fields["field0"]
    assert parse_json(json.dumps(fields).encode()) == fields


def test_a_body_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.request.body.BODY_SECONDS", 0.01)
    first = {"type": "http.request", "body": b'{"q"', "more_body": True}
    messages = [first]

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlineExceededError, match=r"4 bytes .* within 0\.01 s"):
        asyncio.run(read_body(Request(request().scope, receive)))


class Inside(BaseModel):
    b: int


class Outside(BaseModel):
    """As requests with objects in them are."""

    a: Inside


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (b"{}", "a", "missing a parameter"),
        (b'{"a": {}}', "a", "missing a[b] parameter"),
        (b'{"a": {"b": "x"}}', "a", "a[b] parameter is not a number"),
        (b"[]", None, "must be an object"),
    ],
)
def test_error_knows_the_parameter_at_fault(body: bytes, param: str | None, words: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(body, content_type="application/json", model=Outside)
    assert words in refused.value.joined
    assert refused.value.param == param
    assert pickle.loads(pickle.dumps(refused.value)).param == param


def test_two_schemas_of_one_name_are_refused() -> None:
    models = [create_model("Asked", text=(kind, ...)) for kind in (str, int)]
    fields = [described(each, None)["openapi_extra"] for each in models]
    paths = {f"/{number}": {"post": each} for number, each in enumerate(fields)}
    with pytest.raises(TypeError, match="name Asked"):
        move_definitions({"components": {"schemas": {}}, "paths": paths})
