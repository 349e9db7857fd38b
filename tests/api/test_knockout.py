"""POST /attention/knockout with the built-in models."""

from typing import Any

import numpy as np
import pytest

from service.errors import InvalidRequestError, RequestTooLargeError
from tests.api.conftest import ServeApart
from tests.api.servers import AnyServer, Server, assert_error
from tests.api.test_attention import CAT, asking, item

pytestmark = pytest.mark.checkpoint

POOL = "The kids played in the pool."
BLIND = {"heads": [{"kind": "cross"}]}


def knock_out(server: AnyServer, *knockouts: Any, **fields: Any) -> dict[str, Any]:
    body = asking(**{"text": POOL, **fields}, knockouts=[*knockouts])
    found: dict[str, Any] = server.reply("/attention/knockout", body)
    return found


def test_nothing_switched_off_changes_nothing(float_server: Server) -> None:
    found = knock_out(float_server, {}, BLIND, {})
    for number in (0, 2):
        assert found["knockouts"][number]["log_probs"] == found["log_probs"]
        assert not any(found["knockouts"][number]["changes"])
        assert found["knockouts"][number]["total_change"] == 0.0
    assert found["knockouts"][1]["total_change"] < -10.0


def test_numbers_without_knockouts_are_nearly_those_of_the_decoder(float_server: Server) -> None:
    """The int8 pass rounds some values to another int8 than the decoder's own code."""
    found = knock_out(float_server, {})
    expected = item(float_server, POOL, probabilities={})
    assert found["target"] == expected["target"]
    own = expected["probabilities"]["log_probs"]
    np.testing.assert_allclose(found["log_probs"], own, rtol=0, atol=0.2)


def test_a_word_that_is_off_takes_its_translation_with_it(float_server: Server) -> None:
    """Of all source words, *pool* is the one without which *piscina* is unlikely."""
    first = knock_out(float_server, {})
    words = [{"source_words": [number]} for number in range(len(first["source_words"]) - 1)]
    found = knock_out(float_server, *words, translate=True)
    place = found["target"]["tokens"].index("▁piscina")
    changes = [effect["changes"][place] for effect in found["knockouts"]]
    tokens = [found["source"]["tokens"][start] for start, _ in found["source_words"][:-1]]
    assert tokens[int(np.argmin(changes))] == "▁pool"
    assert min(changes) < -3.0
    effect = found["knockouts"][tokens.index("▁pool")]
    assert "piscina" not in effect["translation"]["text"]
    assert effect["total_change"] == pytest.approx(sum(effect["changes"]), abs=1e-4)
    assert not any(each["translation"]["is_cut"] for each in found["knockouts"])


def test_new_translation_is_greedy(float_server: Server) -> None:
    """Read again under the same knock-out, each token is the likeliest after those before it."""
    (effect,) = knock_out(float_server, BLIND, translate=True)["knockouts"]
    text = effect["translation"]["text"]
    (again,) = knock_out(float_server, BLIND, target_text=text, translate=True)["knockouts"]
    if not effect["translation"]["is_cut"]:
        assert again["translation"]["text"] == text
    plain = knock_out(float_server, {}, translate=True)
    translated = plain["knockouts"][0]["translation"]
    assert translated == {"text": plain["target"]["text"], "is_cut": False}


def test_a_given_translation_is_scored(float_server: Server) -> None:
    found = knock_out(float_server, {"source_words": [-3]}, target_text="O lago.")
    assert found["target"]["text"] == "O lago."
    assert len(found["log_probs"]) == len(found["target"]["tokens"])


def test_an_edge_of_a_head_moves_what_it_links(float_server: Server) -> None:
    edge = {"query": 5, "key": 5}
    found = knock_out(
        float_server,
        {"edges": [edge]},
        {"edges": [{**edge, "layers": [-1]}]},
        {"edges": [{**edge, "layers": [-1], "heads": [0]}]},
        {"edges": [{"kind": "encoder", "query": 5, "key": -1}]},
    )
    totals = [np.abs(effect["changes"]).sum() for effect in found["knockouts"]]
    assert totals[0] > totals[2] > 0
    for effect in found["knockouts"][:3]:
        assert effect["changes"][:5] == [0.0] * 5


def test_uniform_heads_are_not_heads_that_are_off(float_server: Server) -> None:
    head = {"kind": "cross", "layers": [0], "heads": [5]}
    found = knock_out(
        float_server, {"heads": [head]}, {"heads": [{**head, "uniform": True}]}, {"heads": []}
    )
    off, uniform, nothing = (effect["total_change"] for effect in found["knockouts"])
    assert nothing == 0.0
    assert off != uniform
    assert uniform < -0.01


INVALID: list[tuple[dict[str, Any], str]] = [
    ({}, "missing knockouts parameter"),
    ({"knockouts": []}, "knockouts parameter is an empty list"),
    ({"knockouts": [{}], "text": ""}, "missing text parameter"),
    ({"knockouts": [{}], "task": "embed", "source": None, "target": None}, "only for translations"),
    ({"knockouts": [{"head": []}]}, "there is no knockouts[0][head] parameter"),
    ({"knockouts": [{"source_words": [99]}]}, "word 99 does not exist: the source has words 0"),
    ({"knockouts": [{"source_words": [1, 1]}]}, "words 1, 1 name the same word twice"),
    ({"knockouts": [{"heads": [{"layers": [9]}]}]}, "layer 9 does not exist: the decoder"),
    ({"knockouts": [{"heads": [{"heads": [8]}]}]}, "head 8 does not exist"),
    ({"knockouts": [{"heads": [{"kind": "decoder"}]}]}, "SSRU"),
    ({"knockouts": [{"edges": [{"query": 99, "key": 0}]}]}, "token 99 does not exist: the target"),
    ({"knockouts": [{"edges": [{"query": 0, "key": 99}]}]}, "token 99 does not exist: the source"),
    ({"knockouts": [{"edges": [{"query": 0}]}]}, "missing knockouts[0][edges][0][key] parameter"),
    ({"knockouts": [{"edges": [{"query": 0, "key": 0}] * 1001}]}, "1000"),
]


@pytest.mark.parametrize(("fields", "words"), INVALID)
def test_request_is_refused(float_server: Server, fields: dict[str, Any], words: str) -> None:
    response = float_server.post("/attention/knockout", json=asking(**fields))
    assert_error(response, InvalidRequestError, words)


def test_limits_name_the_way_out(serve_real: ServeApart) -> None:
    server = serve_real(dtype="float32", max_inputs=2, max_attention_values=20)
    body = asking(CAT, knockouts=[{}] * 3)
    refused = server.post("/attention/knockout", json=body)
    assert_error(refused, RequestTooLargeError, "3 knockouts exceed the limit of 2", "MAX_INPUTS")
    body = asking(CAT, knockouts=[{"source_words": [0]}, {"source_words": [1]}])
    refused = server.post("/attention/knockout", json=body)
    assert_error(refused, RequestTooLargeError, "probabilities exceed the limit of 20")
    body = asking(CAT, knockouts=[{"source_words": [0]}])
    assert server.post("/attention/knockout", json=body).status_code == 200
