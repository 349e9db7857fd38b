"""Each limit lets through what is at it, and refuses what is one beyond, with the numbers."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from service.errors import InvalidRequestError, RequestTooLargeError, ServiceError
from service.tasks.embedding.limits import (
    check_dimensions,
    check_ids,
    check_num_inputs,
    check_num_tokens,
    check_num_vectors,
    find_long,
    find_prompt,
)


def found(lengths: list[int], truncate: bool = False, **fields: Any) -> list[int]:
    return find_long(lengths, 5, truncate=truncate, param="input", **fields)


def test_values_at_the_limits_pass() -> None:
    check_num_inputs(["a", "b"], 2, "input")
    check_num_tokens([3, 4], 7, "input")
    check_num_vectors([3, 4], 7, "inputs")
    check_ids(["9", [0, 8], [1]], 9, "input")
    assert found([5, 6, 1, 9], truncate=True) == [1, 3]
    assert found([5, 5]) == []
    assert [check_dimensions(asked, 4) for asked in (None, 1, 4)] == [4, 1, 4]


LARGE, INVALID = RequestTooLargeError, InvalidRequestError
LIMIT_OF_5 = "tokens; this model takes 5"


@pytest.mark.parametrize(
    ("check", "kind", "param", "words"),
    [
        (
            lambda: check_num_inputs(["a", "b", [1]], 2, "input"),
            *(LARGE, "input", "input has 3 texts; the limit is 2. Send"),
        ),
        (
            lambda: check_num_tokens([4, 4], 7, "inputs"),
            *(LARGE, "inputs", "inputs has 8 tokens in all; the limit is 7"),
        ),
        (
            lambda: check_num_vectors([4, 4], 7, "inputs"),
            *(LARGE, "inputs", "8 tokens in all, each with a vector; the limit is 7. Send it in"),
        ),
        (
            lambda: check_ids(["a", [9, 1]], 9, "input"),
            *(INVALID, "input", "input[1] has the token id 9; the largest id of this model is 8"),
        ),
        (lambda: found([5, 6]), LARGE, "input[1]", f"input[1] has 6 {LIMIT_OF_5}. Send it in"),
        (lambda: found([7, 6]), LARGE, "input[0]", "5; inputs that are too long: 2"),
        (
            lambda: found([5, 7], uncounted=[1]),
            *(LARGE, "input[1]", f"input[1] has at least 7 {LIMIT_OF_5}"),
        ),
        (lambda: found([7, 7], uncounted=[1]), LARGE, "input[0]", f"input[0] has 7 {LIMIT_OF_5}"),
        (
            lambda: check_dimensions(5, 4),
            *(INVALID, "dimensions", "dimensions parameter must be <= 4"),
        ),
    ],
)
def test_value_beyond_a_limit_is_refused_with_the_numbers(
    check: Callable[[], object], kind: type[ServiceError], param: str, words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)) as error:
        check()
    assert error.value.param == param


def test_prompt() -> None:
    prompts = {"query": "query: ", "passage": ""}
    assert find_prompt(None, prompts, None) == ""
    assert find_prompt(None, prompts, "query") == "query: "
    assert find_prompt("passage", prompts, "query") == ""
    with pytest.raises(INVALID, match="x prompt_name is not supported; this model has: query, pa"):
        find_prompt("x", prompts, None)
    with pytest.raises(INVALID, match="this model has: none") as error:
        find_prompt("x" * 99, {}, None)
    assert error.value.param == "prompt_name"
    assert "x" * 41 not in error.value.message
