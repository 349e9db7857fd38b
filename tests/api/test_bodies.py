"""Bodies that are broken, too large, or not what they say: refused, and never a fault."""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidRequestError, RequestTooLargeError
from tests.api.conftest import Serve
from tests.api.servers import Server, assert_error, translation

JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Invalid JSON format"),
        (b"{", "Invalid JSON format"),
        (b'{"q": "a",}', "Invalid JSON format"),
        (b'["a"]', "Invalid JSON format; the body must be an object"),
        (b'"a"', "the body must be an object"),
        (b"null", "the body must be an object"),
        (b'{"q": NaN}', "Invalid JSON format"),
        (b'{"q": "\xff", "source": "en", "target": "pt"}', "Invalid JSON format"),
        (rb'{"q": "\ud800", "source": "en", "target": "pt"}', "Invalid JSON format"),
        (b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "Invalid JSON format"),
        (b'{"q": "a", "source": "en", "target": "pt", "beam_size": 1e999}', "number is infinity"),
        (b'{"q": ' + b'{"a": ' * 900 + b"1" + b"}" * 900 + b"}", "more than 16 levels"),
    ],
)  # fmt: skip
def test_broken_json_is_refused(server: Server, body: bytes, message: str) -> None:
    response = server.post("/translate", content=body, headers=JSON)
    assert_error(response, InvalidRequestError, message)


@pytest.mark.parametrize("headers", [FORM, {}, {"content-type": "text/plain;charset=UTF-8"}])
def test_json_is_read_without_its_media_type(server: Server, headers: dict[str, str]) -> None:
    body = "\n " + json.dumps(translation("Hello."))
    response = server.post("/translate", content=body, headers=headers)
    assert response.json() == {"translatedText": "Hello."}
    response = server.post("/translate", content="{q", headers=headers)
    assert_error(response, InvalidRequestError, "Invalid JSON format")


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        ({"content-type": "text/plain"}, b"Hello.", "text/plain is not supported"),
        ({"content-type": "multipart/form-data"}, b"x", "the multipart form cannot be read"),
        ({"content-type": "multipart/form-data; boundary=b"}, b"x", "cannot be read"),
        ({"content-type": "multipart/form-data; boundary=b"}, b"--b\r\n\r\nx\r\n--b--", "cannot"),
        (FORM, b"&".join([b"q=a"] * 5000), "more than 4096 fields"),
        (FORM, b"q=a%E7%E3o&source=pt&target=en", "the form has the byte 0xE7"),
        (FORM, b"q=a\xe7\xe3o&source=pt&target=en", "the form has the byte 0xE7"),
        ({**JSON, "content-encoding": "gzip"}, b"\x1f\x8b", "Content-Encoding gzip is not"),
    ],
)
def test_body_of_the_wrong_kind_is_refused(
    server: Server, headers: dict[str, str], body: bytes, message: str
) -> None:
    response = server.post("/translate", content=body, headers=headers)
    assert_error(response, InvalidRequestError, message)


def test_query_in_another_charset_is_refused(server: Server) -> None:
    response = server.post("/translate?q=Ol%C3%A1&source=en&target=en")
    assert response.json() == {"translatedText": "Olá"}
    response = server.post("/translate?q=Ol%E1&source=en&target=en")
    assert_error(response, InvalidRequestError, "the query has the byte 0xE1")


def test_nothing_of_a_form_that_cannot_be_read_is_logged(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Its parser warned of the character that it found."""
    headers = {"content-type": "multipart/form-data; boundary=b"}
    response = server.post("/translate", content=b"secret", headers=headers)
    assert response.status_code == 400
    assert not caplog.records


def multipart(text: bytes, charset: str) -> dict[str, Any]:
    fields = {b"q": text, b"source": b"en", b"target": b"en"}
    parts = [
        b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % field
        for field in fields.items()
    ]
    kind = f"multipart/form-data; boundary=b; charset={charset}"
    return {"content": b"".join(parts) + b"--b--\r\n", "headers": {"content-type": kind}}


@pytest.mark.parametrize(
    ("text", "charset", "answer"),
    [
        ("Olá".encode("latin-1"), "latin-1", "Olá"),
        (b"+2AA-", "utf-7", "?"),
        (b"Hello", "no-such-charset", "Hello"),
        (b"Hello", "hex", "Hello"),
    ],
)
def test_charset_of_a_multipart_form_is_honoured(
    server: Server, text: bytes, charset: str, answer: str
) -> None:
    """UTF-7 can spell lone surrogates, which no tokenizer takes."""
    response = server.post("/translate", **multipart(text, charset))
    assert response.json() == {"translatedText": answer}


def test_form_in_another_charset_than_it_says_is_refused(server: Server) -> None:
    response = server.post("/translate", **multipart(b"Hello", "undefined"))
    assert_error(response, InvalidRequestError, "charset")


def test_file_is_refused(server: Server) -> None:
    response = server.post("/translate", files={"q": ("a.txt", b"Hello.")})
    assert_error(response, InvalidRequestError, "send a text as a field, without a file name")


def test_announced_body_over_the_limit_is_not_read(serve: Serve) -> None:
    read = []

    async def body() -> AsyncIterator[bytes]:
        read.append(b"x")
        yield b"x"

    server = serve(max_body_bytes=100)
    response = server.post("/translate", content=body(), headers={**JSON, "content-length": "101"})
    assert_error(response, RequestTooLargeError, "101 bytes", "limit is 100", "MAX_BODY_BYTES")
    assert not read
    assert server.num_requests("too_large", model="none") == 1


def test_streamed_body_is_read_up_to_the_limit(serve: Serve) -> None:
    sent = []

    async def body() -> AsyncIterator[bytes]:
        for number in range(1000):
            sent.append(number)
            yield b"x" * 60

    response = serve(max_body_bytes=100).post("/translate", content=body(), headers=JSON)
    assert_error(response, RequestTooLargeError, "120 bytes or more")
    assert len(sent) == 2


def test_body_of_the_limit_is_taken(serve: Serve) -> None:
    body = json.dumps(translation("a")).encode()
    server = serve(max_body_bytes=len(body))
    assert server.post("/translate", content=body, headers=JSON).status_code == 200


def test_detect_has_the_same_limits(serve: Serve) -> None:
    server = serve(max_body_bytes=100, max_inputs=2)
    assert_error(server.post("/detect", json={}), InvalidRequestError, "missing q parameter")
    assert_error(server.post("/detect", json={"q": ["a"] * 3}), InvalidRequestError, "limit (2)")
    assert_error(server.post("/detect", json={"q": "a" * 100}), RequestTooLargeError)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
FIELDS = ("q", "source", "target", "alternatives", "beam_size", "split_sentences", "return_scores")


@given(st.dictionaries(st.sampled_from(FIELDS), ANY_JSON))
def test_no_json_makes_the_server_fail(shared_server: Server, changes: dict[str, Any]) -> None:
    body = json.dumps(translation("Hello.") | changes)
    response = shared_server.post("/translate", content=body, headers=JSON)
    assert response.status_code in (200, 400, 413), response.text


@given(
    st.binary(max_size=300), st.sampled_from(["json", "form", "multipart"]), st.binary(max_size=40)
)
def test_no_bytes_make_the_server_fail(
    shared_server: Server, body: bytes, kind: str, query: bytes
) -> None:
    types = {
        "json": JSON,
        "form": FORM,
        "multipart": {"content-type": "multipart/form-data; boundary=b"},
    }
    url = "/translate?" + quote(query, safe="&=%+")
    response = shared_server.post(url, content=body, headers=types[kind])
    assert response.status_code in (200, 400), response.text
