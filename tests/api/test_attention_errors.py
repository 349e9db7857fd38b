"""Requests that the routes of attention refuse, and the errors. No model computes anything."""

from typing import Any

import pytest

from service.errors import (
    InvalidRequestError,
    NotFoundError,
    RequestTooLargeError,
    ServiceError,
    UnavailableError,
    UnsupportedLanguageError,
)
from tests.api.conftest import Serve, ServeApart
from tests.api.servers import AnyServer, Server, assert_error
from tests.api.test_attention import CAT, asking
from tests.workers import Script

pytestmark = pytest.mark.checkpoint

INVALID: list[tuple[dict[str, Any], str]] = [
    ({"text": ""}, "missing text parameter"),
    ({"text": " \n"}, "text has nothing to read"),
    ({"text": ["Yes.", " "]}, "text[1] has nothing to read"),
    ({"text": " \n", "split": True}, "text has nothing to read"),
    ({"text": [" ", ""], "split": True}, "text has nothing to read"),
    ({"target_text": " "}, "target_text has nothing to read"),
    ({"text": ["a", "b"], "target_text": [None, ""]}, "target_text[1] has nothing to read"),
    ({"target": "en"}, "nothing is translated from en to en"),
    ({"model": "pt-en"}, "source en is not the source language of pt-en (pt); leave source or"),
    ({"model": "en-pt", "target": "en"}, "target en is not the target language of en-pt (pt)"),
    ({"kinds": ["decoder"]}, "decoder has an SSRU in place of self-attention: ask for encoder"),
    ({"layers": [2]}, "layer 2 does not exist: the decoder has layers 0 to 1, or -2 to -1"),
    ({"layers": [-7], "kinds": ["encoder"]}, "layer -7 does not exist: the encoder has layers 0"),
    ({"layers": [1, -1]}, "layers 1, -1 name the same layer twice"),
    ({"heads": [8]}, "head 8 does not exist: a layer has heads 0 to 7, or -8 to -1 from the end"),
    ({"format": "bertviz", "kinds": ["encoder", "cross"]}, "not 6 of encoder, 2 of cross"),
    ({"alignment_layer": 2}, "layer 2 does not exist"),
    ({"alignment_head": 8}, "head 8 does not exist"),
]
"""Faults that a loaded model or its vocabulary shows, and one that the schema finds.

tests/unit/test_attention_schemas.py has all faults that the schema finds.
"""


def assert_refused(
    server: AnyServer, path: str, body: dict[str, Any], kind: type[ServiceError], *words: str
) -> None:
    """Without any call of a model."""
    phases = [("attention", "attention"), ("translate", "encode"), ("translate", "decode")]

    def calls() -> list[float]:
        name, model = "regard_batches_total", "en-pt"
        return [server.sample(name, task=t, model=model, phase=p) for t, p in phases]

    before = calls()
    assert_error(server.post(path, json=body), kind, *words)
    assert calls() == before


@pytest.mark.parametrize(("fields", "words"), INVALID)
def test_request_is_refused(float_server: Server, fields: dict[str, Any], words: str) -> None:
    assert_refused(float_server, "/attention", asking(**fields), InvalidRequestError, words)


@pytest.mark.parametrize("path", ["/attention", "/attention/steps"])
def test_model_and_languages_have_to_be_served(float_server: Server, path: str) -> None:
    body = asking() if path == "/attention" else asking(query=0)
    unknown = {**body, "model": "en-xx"}
    assert_refused(
        float_server, path, unknown, NotFoundError, "no model en-xx; there are en-pt, pt-en"
    )
    for field in ("source", "target"):
        wrong = {**body, field: "zz"}
        assert_refused(float_server, path, wrong, UnsupportedLanguageError, "zz", "en, pt")


STEPS: list[tuple[dict[str, Any], str]] = [
    ({}, "missing query parameter"),
    ({"query": 0, "layer": 2}, "layer 2 does not exist: the decoder has layers 0 to 1"),
    ({"query": 0, "head": -9}, "head -9 does not exist: a layer has heads 0 to 7"),
    ({"query": 0, "kind": "decoder"}, "this model's decoder has an SSRU"),
    ({"query": 0, "text": " "}, "text has nothing to read"),
    ({"query": 0, "target_text": ""}, "target_text has nothing to read"),
    ({"query": 0, "target": "en"}, "nothing is translated from en to en"),
]


@pytest.mark.parametrize(("fields", "words"), STEPS)
def test_steps_are_refused(float_server: Server, fields: dict[str, Any], words: str) -> None:
    assert_refused(float_server, "/attention/steps", asking(**fields), InvalidRequestError, words)


@pytest.mark.parametrize("query", [99, -99])
@pytest.mark.parametrize("kind", ["encoder", "cross"])
def test_steps_of_no_token_are_refused(float_server: Server, query: int, kind: str) -> None:
    response = float_server.post("/attention/steps", json=asking(query=query, kind=kind))
    assert_error(
        response, InvalidRequestError, f"token {query} does not exist: the", "has tokens 0"
    )


@pytest.mark.parametrize("path", ["/attention", "/attention/steps"])
@pytest.mark.parametrize(("field", "limit"), [("text", 128), ("target_text", 320)])
def test_text_too_long_for_one_sequence_is_refused(
    float_server: Server, path: str, field: str, limit: int
) -> None:
    body = asking() if path == "/attention" else asking(query=0)
    words = f"{field} has 501 tokens, and one sequence has {limit} at most"
    long = {**body, field: "cat " * 500 if field == "text" else "gato " * 500}
    assert_refused(float_server, path, long, RequestTooLargeError, words, "MAX_SOURCE_TOKENS")


def test_more_values_or_texts_than_allowed_are_refused_before_any_is_computed(
    serve_real: ServeApart,
) -> None:
    """Counted on the source alone where that is enough; else when the translation is there."""
    server = serve_real(dtype="float32", max_attention_values=300, max_inputs=8)
    size = 8  # tokens of CAT
    whole = {"kinds": ["encoder"], "layers": "all", "reduce": "none"}
    cases: list[tuple[dict[str, Any], int, int]] = [
        (whole, 48 * size * size, 300),
        ({**whole, "layers": [0]}, 8 * size * size, 300),
        ({**whole, "text": [CAT] * 5, "reduce": "mean_layers_heads"}, 5 * size * size, 300),
        ({**whole, "top_k": 1}, 48 * size, 300),
        ({**whole, "text": [CAT] * 5, "layers": [0], "top_k": 1}, 40 * size, 300),
    ]
    for fields, count, limit in cases:
        words = f"{count} attention values exceed the limit of {limit}:"
        assert_refused(server, "/attention", asking(**fields), RequestTooLargeError, words)
    given = {"target_text": "O gato sentou-se no tapete.", "layers": "all", "reduce": "none"}
    words = f"{16 * size * 10} attention values exceed the limit of 300"
    assert_refused(server, "/attention", asking(**given), RequestTooLargeError, words)
    assert server.post("/attention", json=asking()).status_code == 200
    words = "request (9) exceeds text limit (8)"
    assert_refused(server, "/attention", asking(["a"] * 9), RequestTooLargeError, words)


def test_long_lists_do_not_come_back_in_messages(float_server: Server) -> None:
    body = asking(layers=list(range(50_000)))
    response = float_server.post("/attention", json=body)
    assert_error(response, InvalidRequestError, "layer 2, 3, 4", "more does not exist")
    assert len(response.content) < 1000


def test_nothing_is_shown_while_the_models_load(serve: Serve, script: Script) -> None:
    script.may_load.clear()
    server = serve(is_ready=False)
    for path, body in (("/attention", asking()), ("/attention/steps", asking(query=0))):
        assert_error(server.post(path, json=body), UnavailableError, "the models are loading")


def test_language_that_nothing_is_translated_to_has_no_source(
    serve: Serve, float_server: Server
) -> None:
    """With `auto` there was no language to choose, which was taken for a fault of the server."""
    folder = float_server.catalog.models["en-pt"].files.weights.parent
    server = serve(models=(str(folder),))
    response = server.post("/attention", json=asking(source="auto", target="en"))
    assert_error(response, UnsupportedLanguageError, "nothing is translated to en")
