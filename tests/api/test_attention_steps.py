"""POST /attention/steps with the built-in models: the numbers follow from each other."""

from typing import Any

import numpy as np
import pytest

from tests.api.servers import Server
from tests.api.test_attention import CAT, asking, data, item

pytestmark = pytest.mark.checkpoint


def steps(server: Server, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = server.reply("/attention/steps", asking(**fields))
    return body


def column(body: dict[str, Any], name: str) -> Any:
    return np.array([row[name] for row in body["rows"]])


@pytest.mark.parametrize("kind", ["encoder", "cross"])
@pytest.mark.parametrize(("layer", "head", "query"), [(0, 0, 0), (-1, 5, 3), (1, -1, -1)])
def test_numbers_follow_from_the_vectors(
    float_server: Server, kind: str, layer: int, head: int, query: int
) -> None:
    include = ["vectors", "output", "output_weight"]
    place = {"kind": kind, "layer": layer, "head": head, "query": query}
    body = steps(float_server, **place, include=include)
    q, k, v = (np.array(body["vectors"][name]) for name in "qkv")
    assert body["head_dim"] == len(q) == 32
    assert body["scale"] == pytest.approx(32**-0.5)
    scores = k @ q
    scaled = scores / np.sqrt(32)
    weights = np.exp(scaled - scaled.max())
    weights /= weights.sum()
    weighted = weights[:, None] * v
    np.testing.assert_allclose(column(body, "score"), scores, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(column(body, "scaled"), scaled, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(column(body, "weight"), weights, atol=1e-5)
    np.testing.assert_allclose(column(body, "value"), weighted[:, :8], atol=1e-5)
    norms = np.linalg.norm(weighted, axis=-1)
    np.testing.assert_allclose(column(body, "value_norm"), norms, atol=1e-5)
    np.testing.assert_allclose(body["z"], weighted.sum(0), atol=1e-5)
    output = {name: np.array(values) for name, values in body["output"].items()}
    own = slice(32 * body["head"], 32 * body["head"] + 32)
    np.testing.assert_allclose(output["concatenated"][own], body["z"], atol=1e-6)
    result = output["weight"] @ output["concatenated"] + output["bias"]
    np.testing.assert_allclose(output["result"], result, atol=1e-4)


@pytest.mark.parametrize("kind", ["encoder", "cross"])
def test_weights_are_those_of_attention(float_server: Server, kind: str) -> None:
    whole = item(float_server, kinds=[kind], layers="all", reduce="none")
    for layer, head, query in ((0, 3, 2), (-1, -1, -1)):
        body = steps(float_server, kind=kind, layer=layer, head=head, query=query)
        row = data(whole, kind)[layer, head, query]
        np.testing.assert_allclose(column(body, "weight"), row, atol=1e-5)
        shape = data(whole, kind).shape
        assert body["layer"] == layer % shape[0]
        assert body["head"] == head % 8
        assert body["query"]["index"] == query % shape[2]
        for side in ("source", "target"):
            assert body[side] == whole[side]


def test_matrix_is_written_in_chunks(float_server: Server) -> None:
    """W_O was written at once, and no other request was served meanwhile."""
    for include, is_whole in (["output"], True), (["output_weight"], False):
        response = float_server.post("/attention/steps", json=asking(query=0, include=include))
        assert response.json()["output"]
        assert ("content-length" in response.headers) is is_whole


def test_given_translation_and_model_are_taken(float_server: Server) -> None:
    fields = {"source": None, "target": None, "model": "pt-en", "text": "O gato."}
    body = steps(float_server, **fields, target_text="A cat.", query=-1)
    assert (body["model"], body["target"]["text"]) == ("pt-en", "A cat.")
    assert body["query"]["predicted"] == "</s>"
    assert steps(float_server, query=0, text=CAT)["source"]["text"] == CAT


@pytest.mark.parametrize("kind", ["encoder", "cross"])
def test_block_leads_from_layer_to_layer(float_server: Server, kind: str) -> None:
    below, above = (
        steps(float_server, query=2, kind=kind, layer=layer, include=["block", "output"])
        for layer in (0, 1)
    )
    block = below["block"]
    embedding = block["embedding"]
    total = np.add(embedding["token"], embedding["position"])
    np.testing.assert_allclose(total, embedding["sum"], atol=1e-5)
    assert embedding == above["block"]["embedding"]
    np.testing.assert_allclose(block["attention"], below["output"]["result"], atol=0.2)
    if kind == "encoder":
        np.testing.assert_allclose(block["input"], embedding["sum"], atol=1e-6)
        np.testing.assert_allclose(block["output"], above["block"]["input"], atol=0.2)
