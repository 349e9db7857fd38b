"""The inputs of embedding requests: accepted values, and refusals with their texts."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from service.api.openai.embeddings import EmbeddingsRequest
from service.api.request.parameters import describe
from service.api.tei import EmbedAllRequest, EmbedRequest, SimilarityRequest
from service.tasks.embedding.inputs import DEFAULT_PARAMETERS, EmbedQuery


def refusal(model: type[BaseModel], fields: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(fields)
    return describe(refused.value).joined


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("a", ["a"]),
        (" ", [" "]),
        ("", [""]),
        (["a", ""], ["a", ""]),
        (["a", "b"], ["a", "b"]),
        ([1, 0], [[1, 0]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        (["a", [3]], ["a", [3]]),
        ([[3], "a"], [[3], "a"]),
    ],
)
def test_one_input_or_several_are_a_list(given: Any, found: list[Any]) -> None:
    assert EmbedRequest.model_validate({"inputs": given}).inputs == found
    assert EmbedAllRequest.model_validate({"inputs": given}).inputs == found
    assert EmbeddingsRequest.model_validate({"input": given}).input == found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "input parameter is an empty list; send one text or more"),
        ([[]], "input[0] parameter is an empty list; send a text or token ids"),
        (7, "input parameter must be a text, a list of token ids, or a list of these"),
        ({"a": 1}, "input parameter must be a text, a list"),
        ([True], "input[0] parameter must be a text or a list of token ids"),
        ([1.0], "input[0] parameter must be a text or a list of token ids"),
        ([1, True], "input parameter must be a text or a list of token ids"),
        ([1, "a"], "input parameter must be a text or a list of token ids"),
        (["a", 1], "input[1] parameter must be a text or a list of token ids"),
        ([[1], [2, None]], "input[1] parameter must be a text or a list of token ids"),
        ([["a"]], "input[0] parameter must be a text or a list of token ids"),
        ([4, -1], "input parameter has the token id -1; ids begin at 0"),
        ([[4], [-7, -9]], "input[1] parameter has the token id -9; ids begin at 0"),
        (None, "missing input parameter"),
    ],
)
def test_other_inputs_are_refused(given: Any, words: str) -> None:
    assert words in refusal(EmbeddingsRequest, {"input": given})
    in_tei = words.replace("input", "inputs", 1)
    assert in_tei in refusal(EmbedRequest, {"inputs": given})


@pytest.mark.parametrize("model", [EmbedRequest, EmbedAllRequest, EmbeddingsRequest])
def test_null_is_as_good_as_nothing(model: type[BaseModel]) -> None:
    inputs = "input" if model is EmbeddingsRequest else "inputs"
    nothing = model.model_validate({inputs: "a"})
    nulls = {name: None for name in model.model_fields if name != inputs}
    assert model.model_validate({inputs: "a", **nulls}) == nothing


def test_unknown_fields_are_ignored() -> None:
    asked = EmbedRequest.model_validate({"inputs": "a", "raw_scores": True})
    assert asked == EmbedRequest.model_validate({"inputs": "a"})


@pytest.mark.parametrize("written", ["left", "Left", "LEFT"])
def test_direction_may_be_written_large(written: str) -> None:
    asked = EmbedRequest.model_validate({"inputs": "a", "truncation_direction": written})
    assert asked.truncation_direction == "left"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"encoding_format": "hex"}, "hex encoding_format is not supported; use float or base64"),
        ({"dimensions": 0}, "dimensions parameter must be >= 1; it is 0"),
        ({"dimensions": "many"}, "dimensions parameter is not a number"),
        ({"truncation_direction": "up"}, "up truncation_direction is not supported; use left or"),
        ({"truncation_direction": 1}, "1 truncation_direction is not supported"),
    ],
)
def test_parameter_is_refused(fields: dict[str, Any], words: str) -> None:
    assert words in refusal(EmbeddingsRequest, {"input": "a", **fields})


def test_similarity_is_of_one_to_the_others() -> None:
    inputs = {"source_sentence": "a", "sentences": ["b", "c"]}
    asked = SimilarityRequest.model_validate({"inputs": inputs, "parameters": None})
    assert asked.query() == EmbedQuery(["a", "b", "c"], "inputs", DEFAULT_PARAMETERS)
    parameters = {"truncate": False, "prompt_name": "query"}
    asked = SimilarityRequest.model_validate({"inputs": inputs, "parameters": parameters})
    reading = asked.query().reading
    assert (reading.truncate, reading.prompt_name) == (False, "query")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"sentences": ["a"]}, "missing inputs[source_sentence] parameter"),
        ({"source_sentence": "a"}, "missing inputs[sentences] parameter"),
        ({"source_sentence": "a", "sentences": []}, "sentences parameter is an empty list"),
        ({"source_sentence": "", "sentences": ["a"]}, "source_sentence parameter is empty"),
        ({"source_sentence": "a", "sentences": ["b", ""]}, "sentences[1] parameter is empty"),
        ({"source_sentence": "a", "sentences": [1]}, "inputs[sentences][0] parameter"),
        ("a", "inputs parameter must be an object with source_sentence (a text) and sentences (a "),
        (["a", "b"], "sentences (a list of texts), not a list"),
    ],
)
def test_nothing_to_compare_is_refused(inputs: Any, words: str) -> None:
    said = refusal(SimilarityRequest, {"inputs": inputs})
    assert words in said
    assert "Similarity" not in said  # the name of a class


@pytest.mark.parametrize("model", [EmbedRequest, EmbeddingsRequest, SimilarityRequest])
def test_empty_name_of_a_model_is_refused(model: type[BaseModel]) -> None:
    pair = {"source_sentence": "a", "sentences": ["b"]}
    inputs = pair if model is SimilarityRequest else "a"
    said = refusal(model, {"input": "a", "inputs": inputs, "model": ""})
    assert "model parameter is empty; name a model of /v1/models, or leave it out" in said


@pytest.mark.parametrize("model", [EmbedRequest, EmbeddingsRequest])
def test_all_four_shapes_of_inputs_are_described(model: type[BaseModel]) -> None:
    properties = model.model_json_schema()["properties"]
    shapes = properties["input" if model is EmbeddingsRequest else "inputs"]["anyOf"]
    text = {"type": "string"}
    ids = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
    assert shapes == [text, ids, {"type": "array", "items": {"anyOf": [text, ids]}, "minItems": 1}]


@pytest.mark.parametrize("place", [0, 1, 2, 5, 63, 64])
@pytest.mark.parametrize("fault", [[], None, 1, True, [1, "a"], [1, True], [1, -1], [[1]]])
@pytest.mark.parametrize("valid", ["a", [1, 2]])
def test_first_fault_of_a_long_list_is_named(place: int, fault: Any, valid: Any) -> None:
    inputs = [valid] * place + [fault] + [valid, [3], "b", ""] * 3
    if place == 0 and type(fault) is int:
        inputs[0] = None  # a list that begins with an integer is one input of token ids
    found = refusal(EmbedRequest, {"inputs": inputs})
    assert f"inputs[{place}] parameter" in found
