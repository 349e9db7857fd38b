"""The fields `probabilities` and `detachment` of POST /attention, with the built-in models."""

import io
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from tests.api.servers import Server
from tests.api.test_attention import CAT, ask, asking, data, item

pytestmark = pytest.mark.checkpoint

POOL = "She swam in the pool."
TEXT = "The children went to the beach with their parents because the weather was beautiful."
UNRELATED = "As ações da empresa caíram dois por cento na segunda-feira."


def probabilities(server: Server, text: str = CAT, **fields: Any) -> dict[str, Any]:
    found = item(server, text, **fields)["probabilities"]
    assert isinstance(found, dict)
    return found


def test_log_probabilities_are_those_of_the_translation(float_server: Server) -> None:
    """Translate returns the scores of its own decode steps."""
    body = {"q": POOL, "source": "en", "target": "pt", "return_scores": True}
    (score,) = float_server.post("/translate", json=body).json()["scores"]
    expected = [token["log_prob"] for token in score["tokens"]]
    found = probabilities(float_server, POOL, probabilities={})
    np.testing.assert_allclose(found["log_probs"], expected, rtol=0, atol=1e-4)
    assert found["ranks"] == [1] * len(expected)


def test_likeliest_tokens_are_sorted_and_contain_the_chosen_one(float_server: Server) -> None:
    found = probabilities(float_server, POOL, probabilities={"top_k": 3})
    likeliest = found["likeliest"]
    target = item(float_server, POOL)["target"]
    assert [tokens[0] for tokens in likeliest["tokens"]] == target["tokens"]
    assert [ids[0] for ids in likeliest["ids"]] == target["ids"]
    first = [row[0] for row in likeliest["log_probs"]]
    assert first == pytest.approx(found["log_probs"], abs=1e-4)
    for row in likeliest["log_probs"]:
        assert len(row) == 3
        assert row == sorted(row, reverse=True)
    assert all(found["is_candidate"])
    assert max(found["entropies"]) < np.log(found["num_candidates"])


def test_named_tokens_are_compared(float_server: Server) -> None:
    """The Portuguese word for a pool is likely, the word for a lake is not even a candidate."""
    target = item(float_server, POOL)["target"]
    place = target["tokens"].index("▁piscina")
    named = probabilities(float_server, POOL, probabilities={"tokens": ["lago", "piscina", 3]})[
        "named"
    ]
    assert named["tokens"] == ["▁lago", "▁piscina", "."]
    assert named["ids"][2] == 3
    assert named["ranks"][place][1] == 1
    lake, pool, _ = named["log_probs"][place]
    assert lake < pool - 5
    assert named["is_candidate"][1]


def test_translation_of_the_client_has_probabilities_too(float_server: Server) -> None:
    text = "Ela nadou no lago."
    found = probabilities(float_server, POOL, target_text=text, probabilities={"top_k": 1})
    own = probabilities(float_server, POOL, probabilities={"top_k": 1})
    assert sum(found["log_probs"]) < sum(own["log_probs"])
    assert max(found["ranks"]) > 1


def test_each_text_has_its_own_numbers_which_may_be_rounded(float_server: Server) -> None:
    texts = [CAT, POOL]
    fields: dict[str, Any] = {"detachment": True, "probabilities": {}}
    together = ask(float_server, texts, **fields, decimals=2)["items"]
    for text, found in zip(texts, together, strict=True):
        alone = item(float_server, text, **fields)
        assert found["detachment"] == pytest.approx(alone["detachment"], abs=0.0051)
        log_probs = found["probabilities"]["log_probs"]
        assert log_probs == pytest.approx(alone["probabilities"]["log_probs"], abs=0.0051)
        assert all(value == round(value, 2) for value in log_probs)


@pytest.mark.parametrize("chosen", ["npz", "safetensors"])
def test_binary_formats_have_the_same_numbers(float_server: Server, chosen: str) -> None:
    wanted = {"top_k": 2, "tokens": ["gato"]}
    body = probabilities(float_server, probabilities=wanted)
    response = float_server.post("/attention", json=asking(probabilities=wanted, format=chosen))
    if chosen == "npz":
        arrays = dict(np.load(io.BytesIO(response.content)))
    else:
        arrays = safetensors.numpy.load(response.content)
    name = "item0.probabilities"
    np.testing.assert_allclose(arrays[f"{name}.log_probs"], body["log_probs"], rtol=1e-6)
    np.testing.assert_array_equal(arrays[f"{name}.likeliest.ids"], body["likeliest"]["ids"])
    np.testing.assert_array_equal(arrays[f"{name}.named.ranks"], body["named"]["ranks"])


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"probabilities": {"tokens": [" "]}}, 400, "a text without tokens; send a word or an id"),
        ({"probabilities": {"tokens": [32000]}}, 400, "the vocabulary has ids 0 to 31999"),
        ({"probabilities": {"top_k": 10**6}}, 413, "lower probabilities.top_k"),
    ],
)
def test_wrong_request_is_refused(
    float_server: Server, fields: dict[str, Any], status: int, message: str
) -> None:
    response = float_server.post("/attention", json=asking(**fields))
    assert response.status_code == status
    assert message in response.json()["error"]


def test_translation_of_another_text_is_detached(float_server: Server) -> None:
    own = item(float_server, TEXT, detachment=True)["detachment"]
    other = item(float_server, TEXT, target_text=UNRELATED, detachment=True)["detachment"]
    assert 0 < own < 0.3 < other < 1


def test_score_is_that_of_the_mean_of_the_last_layer(float_server: Server) -> None:
    found = item(float_server, detachment=True, probabilities={})
    received = data(found)[0, 0].mean(axis=0)
    expected = np.abs(received - 1 / len(received)).sum() / 2
    assert found["detachment"] == pytest.approx(expected, abs=1e-6)
    assert found["probabilities"]["ranks"][0] == 1


def test_without_the_fields_there_is_neither(float_server: Server) -> None:
    assert {"detachment", "probabilities"}.isdisjoint(item(float_server))
