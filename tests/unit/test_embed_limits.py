"""The limits of embedding requests, and the names of prompts."""

import pytest

from service.errors import InvalidRequestError, RequestTooLargeError
from service.tasks.embedding.limits import (
    check_dimensions,
    check_ids,
    check_num_inputs,
    check_num_tokens,
    check_num_vectors,
    find_long,
    find_prompt,
)


def test_values_at_the_limits_pass() -> None:
    check_num_inputs(["a", "b"], 2, "input")
    check_num_tokens([3, 4], 7, "input")
    check_num_vectors([3, 4], 7, "inputs")
    check_ids(["9", [0, 8], [1]], 9, "input")
    assert find_long([5, 6, 1, 9], 5, truncate=True, param="input") == [1, 3]
    assert find_long([5, 5], 5, truncate=False, param="input") == []
    assert [check_dimensions(asked, 4) for asked in (None, 1, 4)] == [4, 1, 4]


def test_too_many_tokens_are_refused_with_the_numbers() -> None:
    """tests/api/test_embeddings.py has the other limits."""
    words = "inputs has 8 tokens in all; the limit is 7"
    with pytest.raises(RequestTooLargeError, match=words) as error:
        check_num_tokens([4, 4], 7, "inputs")
    assert error.value.param == "inputs"


def test_prompt() -> None:
    prompts = {"query": "query: ", "passage": ""}
    assert find_prompt(None, prompts, None) == ""
    assert find_prompt(None, prompts, "query") == "query: "
    assert find_prompt("passage", prompts, "query") == ""
    with pytest.raises(
        InvalidRequestError, match="x prompt_name is not supported; this model has: query, pa"
    ):
        find_prompt("x", prompts, None)
    with pytest.raises(InvalidRequestError, match="this model has: none") as error:
        find_prompt("x" * 99, {}, None)
    assert error.value.param == "prompt_name"
    assert "x" * 41 not in error.value.message
