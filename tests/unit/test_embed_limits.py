"""Each limit lets through what is at it, and refuses what is one beyond, with the numbers."""

import re

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


def refused(kind: type[ServiceError], words: str) -> "pytest.RaisesExc[ServiceError]":
    return pytest.raises(kind, match=re.escape(words))


def test_number_of_inputs() -> None:
    check_num_inputs(["a", "b"], 2, "input")
    with refused(RequestTooLargeError, "input has 3 texts; the limit is 2. Send") as error:
        check_num_inputs(["a", "b", [1]], 2, "input")
    assert error.value.param == "input"


def test_number_of_tokens() -> None:
    check_num_tokens([3, 4], 7, "input")
    with refused(RequestTooLargeError, "inputs has 8 tokens in all; the limit is 7") as error:
        check_num_tokens([4, 4], 7, "inputs")
    assert error.value.param == "inputs"


def test_number_of_vectors() -> None:
    check_num_vectors([3, 4], 7, "inputs")
    words = "inputs has 8 tokens in all, each with a vector; the limit is 7. Send it in parts, ask"
    with refused(RequestTooLargeError, words) as error:
        check_num_vectors([4, 4], 7, "inputs")
    assert error.value.param == "inputs"


def test_ids() -> None:
    check_ids(["9", [0, 8], [1]], 9, "input")
    words = "input[1] has the token id 9; the largest id of this model is 8"
    with refused(InvalidRequestError, words) as error:
        check_ids(["a", [9, 1]], 9, "input")
    assert error.value.param == "input"


def test_long_inputs_are_found_where_they_may_be_cut() -> None:
    assert find_long([5, 6, 1, 9], 5, truncate=True, param="inputs") == [1, 3]
    assert find_long([5, 5], 5, truncate=False, param="inputs") == []


def test_long_inputs_are_refused_where_they_may_not() -> None:
    words = "input[1] has 6 tokens; this model takes 5. Send it in parts, or cut it with truncate"
    with refused(RequestTooLargeError, words) as error:
        find_long([5, 6], 5, truncate=False, param="input")
    assert error.value.param == "input[1]"
    with refused(
        RequestTooLargeError,
        "input[0] has 7 tokens; this model takes 5; inputs that are too long: 2",
    ):
        find_long([7, 6], 5, truncate=False, param="input")


def test_text_that_was_not_counted_to_its_end_has_so_many_tokens_at_least() -> None:
    with pytest.raises(RequestTooLargeError, match=r"input\[1\] has at least 7 tokens; this model"):
        find_long([5, 7], 5, truncate=False, param="input", uncounted=[1])
    with pytest.raises(RequestTooLargeError, match=r"input\[0\] has 7 tokens"):
        find_long([7, 7], 5, truncate=False, param="input", uncounted=[1])


def test_dimensions() -> None:
    assert [check_dimensions(asked, 4) for asked in (None, 1, 4)] == [4, 1, 4]
    with refused(InvalidRequestError, "dimensions parameter must be <= 4") as error:
        check_dimensions(5, 4)
    assert error.value.param == "dimensions"


def test_prompt() -> None:
    prompts = {"query": "query: ", "passage": ""}
    assert find_prompt(None, prompts, None) == ""
    assert find_prompt(None, prompts, "query") == "query: "
    assert find_prompt("passage", prompts, "query") == ""
    with refused(InvalidRequestError, "x prompt_name is not supported; this model has: query, pa"):
        find_prompt("x", prompts, None)
    with refused(InvalidRequestError, "this model has: none") as error:
        find_prompt("x" * 99, {}, None)
    assert error.value.param == "prompt_name"
    assert "x" * 41 not in error.value.message
