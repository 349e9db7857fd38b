"""Attention requests that are refused without a look at a model, and the texts of the errors."""

from typing import Any

import pytest
from pydantic import ValidationError

from service.api.request.parameters import describe
from service.tasks.attention.requests import AttentionRequest, StepsRequest

PAIR = {"source": "en", "target": "pt"}


def request(**fields: Any) -> AttentionRequest:
    return AttentionRequest.model_validate({"text": "a", **PAIR, **fields})


def refusal(model: type[AttentionRequest | StepsRequest], fields: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(fields)
    return describe(refused.value).joined


EMBED: dict[str, Any] = {"text": "a", "task": "embed"}
DEFAULTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"kinds": ["cross"], "layers": [-1], "heads": "all", "level": "token", "top_k": None}),
    ({}, {"reduce": "mean_heads", "norm": "weights", "format": None, "split": False}),
    ({"reduce": "rollout"}, {"kinds": ["encoder"]}),
    ({"reduce": "rollout", "kinds": ["decoder"]}, {"kinds": ["decoder"]}),
    ({"format": "bertviz"}, {"reduce": "none", "layers": "all"}),
    ({"format": "bertviz", "layers": None, "reduce": None}, {"reduce": "none", "layers": "all"}),
    ({"format": "bertviz", "layers": [0]}, {"layers": [0]}),
]


@pytest.mark.parametrize(("given", "expected"), DEFAULTS)
def test_default_depends_on_other_fields(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert request(**given).model_dump().items() >= expected.items()


def test_a_text_to_embed_asks_for_its_encoder() -> None:
    asked = AttentionRequest.model_validate(EMBED)
    assert (asked.kinds, asked.layers, asked.reduce) == (["encoder"], [-1], "mean_heads")
    viewed = AttentionRequest.model_validate({**EMBED, "format": "bertviz", "split": False})
    assert (viewed.kinds, viewed.layers, viewed.reduce) == (["encoder"], "all", "none")
    steps = StepsRequest.model_validate({**EMBED, "query": 0, "prompt_name": "query"})
    assert (steps.kind, steps.layer, steps.head) == ("encoder", -1, 0)


def test_steps_are_of_the_first_head_of_the_last_cross_attention() -> None:
    asked = StepsRequest.model_validate({"text": "a", **PAIR, "query": -1, "include": []})
    assert (asked.kind, asked.layer, asked.head, asked.query) == ("cross", -1, 0, -1)


@pytest.mark.parametrize("format", [None, "json", "npz", "bertviz"])
def test_documented_defaults_are_accepted(format: str | None) -> None:
    """Generated clients send the default of every field; with bertviz mean_heads was refused."""
    properties = AttentionRequest.model_json_schema()["properties"]
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}
    assert defaults["reduce"] == "mean_heads"
    asked = request(**{**defaults, **PAIR, "format": format})
    assert asked.reduce == ("none" if format == "bertviz" else "mean_heads")
    assert (asked.layers, asked.kinds) == ([-1], ["cross"])


@pytest.mark.parametrize("name", [*AttentionRequest.model_fields])
def test_null_is_as_good_as_nothing(name: str) -> None:
    given = {"text": "a", "model": "en-pt", **PAIR}
    if name == "text":
        assert "missing text" in refusal(AttentionRequest, {**given, name: None})
    else:
        without = {key: value for key, value in given.items() if key != name}
        found = AttentionRequest.model_validate({**given, name: None})
        assert found == AttentionRequest.model_validate(without)


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "en-pt"},
        {"model": "en-pt", "source": "en"},
        {**PAIR, "api_key": 7},
        {**PAIR, "text": ["a", "b"], "target_text": [None, "b"]},
        {**PAIR, "text": ["a"], "split": True},
        {**PAIR, "target_text": ""},
        {**PAIR, "layers": [0, 1, -1], "heads": [2], "alignment_head": "mean"},
        {**PAIR, "alignment_layer": 0, "alignment_head": -1, "alignment_shift": 1},
        {**PAIR, "reduce": "rollout", "heads": "all", "norm": "weights", "top_k": 1},
        {**PAIR, "format": "bertviz", "kinds": ["encoder", "cross"], "norm": "value_norms"},
    ],
)
def test_request_is_taken(fields: dict[str, Any]) -> None:
    AttentionRequest.model_validate({"text": "a", **fields})


CONFLICTS: list[tuple[dict[str, Any], str]] = [
    ({"text": ""}, "missing text parameter"),
    ({"text": []}, "missing text parameter"),
    ({"text": 7}, "text parameter: Input should be a valid string (it is a number)"),
    ({"text": ["a", 3]}, "text[1] parameter: Input should be a valid string (it is a number)"),
    ({"source": None}, "missing source parameter"),
    ({"target": " "}, "missing target parameter"),
    ({"source": "", "model": "en-pt"}, "missing source parameter"),
    ({"source": None, "target": None, "model": ""}, "missing model parameter"),
    ({"model": " "}, "missing model parameter"),
    ({"layer": 0}, "there is no layer parameter; /docs lists all parameters"),
    ({"target_text": ["b"]}, "target_text is a list of 1 and text is one text; send one"),
    ({"text": ["a", "b"], "target_text": "b"}, "target_text is one text and text is a list of 2"),
    ({"text": ["a"], "target_text": ["a", None]}, "a list of 2 and text is a list of 1"),
    ({"split": True, "target_text": "b"}, "target_text cannot be split; send sentences as lists"),
    ({"task": "detect"}, "detect task is not supported; use translate, embed or rerank"),
    ({"prompt_name": "query"}, "prompt_name is only for embedding; leave it out, or use task"),
    ({"kinds": ["cross", "self"]}, "self kinds[1] is not supported; use encoder, decoder or cross"),
    ({"layers": "last"}, 'layers parameter must be "all" or a list of numbers, such as [0, -1]'),
    ({"layers": 1}, 'layers parameter must be "all" or a list of numbers'),
    ({"heads": [True]}, 'heads parameter must be "all" or a list of numbers'),
    ({"heads": [1.0]}, 'heads parameter must be "all" or a list of numbers'),
    ({"reduce": "sum"}, "sum reduce is not supported; use none, mean_heads, max_heads, mean_"),
    ({"norm": "l2"}, "l2 norm is not supported; use weights, value_norms, alti or value_zeroing"),
    ({"level": "char"}, "char level is not supported; use token or word"),
    ({"format": "csv"}, "csv format is not supported; use json, npz, safetensors or bertviz"),
    ({"top_k": 0}, "top_k parameter must be >= 1; it is 0"),
    ({"top_k": "many"}, "top_k parameter is not a number"),
    ({"decimals": 10}, "decimals parameter must be <= 9; it is 10"),
    ({"decimals": -1}, "decimals parameter must be >= 0; it is -1"),
    ({"alignment_layer": "last"}, "alignment_layer parameter is not a number"),
    ({"alignment_head": "max"}, 'alignment_head parameter must be a number or "mean"'),
    ({"alignment_shift": 2}, "2 alignment_shift is not supported; use 0 or 1"),
    ({"format": "bertviz", "reduce": "max_heads"}, "so reduce max_heads is not possible"),
    ({"format": "bertviz", "top_k": 3}, "so it refuses top_k 3; leave top_k out"),
    ({"format": "bertviz", "detachment": True}, "bertviz has no detachment"),
    ({"format": "bertviz", "probabilities": {}}, "bertviz has no probabilities"),
    ({"probabilities": True}, 'must be an object, such as {"top_k": 5}'),
    ({"probabilities": {"tokens": ["a"] * 101}}, "100"),
    ({"probabilities": {"top_k": 0}}, "probabilities[top_k] parameter must be >= 1"),
    ({"probabilities": {"top": 3}}, "there is no probabilities[top] parameter"),
]


OF_TRANSLATIONS: list[tuple[dict[str, Any], str]] = [
    ({"source": "en"}, "source is only for translations; leave it out, or use task"),
    ({"target": "pt"}, "target is only for translations"),
    ({"target_text": "b"}, "target_text is only for translations"),
    ({"split": True}, "split is only for translations"),
    ({"detachment": True}, "detachment is only for translations"),
    ({"probabilities": {}}, "probabilities is only for translations"),
    ({"alignment_layer": 0}, "alignment_layer is only for translations"),
    ({"alignment_shift": 0}, "alignment_shift is only for translations"),
    ({"kinds": ["cross"]}, "task embed has no cross attention; ask for encoder"),
    ({"model": " "}, "missing model parameter"),
    ({"text": ""}, "missing text parameter"),
    ({"text_pair": "b"}, "text_pair is only for reranking; leave it out, or use task rerank"),
    ({"raw_scores": True}, "raw_scores is only for reranking"),
    ({"task": "rerank"}, "missing text_pair parameter; a cross-encoder reads a query, which is"),
    ({"task": None, "text_pair": ["b"]}, "text, and repeat a query for each of its documents"),
    ({"task": "rerank", "text_pair": "b", "prompt_name": "query"}, "prompt_name is only for embed"),
    ({"task": "rerank", "text_pair": "b", "target": "pt"}, "target is only for translations"),
    ({"task": "rerank", "text_pair": "b", "kinds": ["cross"]}, "task rerank has no cross"),
]


STEPS: list[tuple[dict[str, Any], str]] = [
    ({"query": None}, "missing query parameter"),
    ({"query": "sat"}, "query parameter is not a number"),
    ({"query": True}, "query parameter is not a number"),
    ({"query": 0, "task": "embed", "kind": ""}, " kind is not supported; use encoder, decoder"),
    ({"query": 0, "text": ["a"]}, "text parameter: Input should be a valid string"),
    ({"query": 0, "text": ""}, "missing text parameter"),
    ({"query": 0, "source": None}, "missing source parameter"),
    ({"query": 0, "kind": "self"}, "self kind is not supported; use encoder, decoder or cross"),
    ({"query": 0, "layer": "all"}, "layer parameter is not a number"),
    ({"query": 0, "layers": [0]}, "there is no layers parameter"),
    ({"query": 0, "include": ["z"]}, "z include[0] is not supported; use vectors, output, "),
    ({"query": 0, "task": "embed", "source": None}, "target is only for translations"),
    (
        {"query": 0, "task": "embed", "source": None, "target": None, "kind": "decoder"},
        "has no decoder",
    ),
]


@pytest.mark.parametrize(
    ("model", "fields", "message"),
    [
        *((AttentionRequest, {"text": "a", **PAIR, **each}, text) for each, text in CONFLICTS),
        *((AttentionRequest, {**EMBED, **each}, text) for each, text in OF_TRANSLATIONS),
        *((StepsRequest, {"text": "a", **PAIR, **each}, text) for each, text in STEPS),
    ],
)
def test_refusal_names_the_value_and_the_way_out(
    model: type[AttentionRequest | StepsRequest], fields: dict[str, Any], message: str
) -> None:
    assert message in refusal(model, fields)


@pytest.mark.parametrize("model", [AttentionRequest, StepsRequest])
def test_request_is_described(model: type[AttentionRequest | StepsRequest]) -> None:
    schema = model.model_json_schema()
    assert "text" in schema["required"]
    model.model_validate(schema["example"])
    assert all(field.get("description") for field in schema["properties"].values())


def test_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValidationError):
        AttentionRequest.model_validate([])


def test_text_is_not_repeated() -> None:
    fields = {"text": ["fine", "secret"], "target_text": ["secret"], **PAIR}
    assert "secret" not in refusal(AttentionRequest, fields)
