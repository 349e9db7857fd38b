import subprocess
import sys
from typing import Any

import pytest

from model.config import DecoderKind
from model.errors import AttentionQueryError, InputError
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionNorm,
    AttentionQuery,
    Reduction,
    TraceQuery,
    check_job,
    resolve_query,
    resolve_trace,
)
from tests.tiny import tiny_config

ENCODER, DECODER, CROSS = AttentionKind
SSRU = tiny_config(encoder_layers=6, num_heads=4)
SELF_ATTENTION = tiny_config(
    encoder_layers=6, decoder_layers=3, num_heads=4, decoder=DecoderKind.SELF_ATTENTION
)


def test_numbers_from_the_end_are_looked_up_for_each_kind() -> None:
    query = resolve_query(SELF_ATTENTION, [CROSS, ENCODER, DECODER], [-1, 0], [3, -4])
    assert query.layers == {CROSS: (2, 0), ENCODER: (5, 0), DECODER: (2, 0)}
    assert query.kinds == (CROSS, ENCODER, DECODER)
    assert query.heads == (3, 0)


def test_what_is_left_out_is_all() -> None:
    query = resolve_query(SSRU, [ENCODER, CROSS])
    assert query == AttentionQuery({ENCODER: (0, 1, 2, 3, 4, 5), CROSS: (0, 1)}, (0, 1, 2, 3))


def test_rollout_starts_at_the_first_layer() -> None:
    query = resolve_query(SELF_ATTENTION, [ENCODER, DECODER], [-2, 0], reduce=Reduction.ROLLOUT)
    assert query.layers == {ENCODER: (0, 1, 2, 3, 4), DECODER: (0, 1)}
    named = resolve_query(SSRU, [ENCODER], [1], [0, 1, 2, -1], Reduction.ROLLOUT)
    assert named.layers == {ENCODER: (0, 1)}


ROLLOUT, VALUE_NORMS = Reduction.ROLLOUT, AttentionNorm.VALUE_NORMS
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kinds": []}, "kinds are none: name one or more of encoder, cross, each once"),
    ({"kinds": [CROSS, CROSS]}, "kinds are cross, cross: name one or more of"),
    (
        {"layers": [7]},
        "layer 7 does not exist: the decoder has layers 0 to 1, or -2 to -1 from the end",
    ),
    ({"layers": [0, -3, 2]}, "layer -3, 2 does not exist: the decoder has"),
    ({"kinds": [ENCODER], "layers": [6]}, "layer 6 does not exist: the encoder has layers 0 to 5"),
    ({"kinds": [ENCODER, CROSS], "layers": [5]}, "layer 5 does not exist: the decoder has"),
    ({"layers": []}, "no layer is named: the decoder has layers 0 to 1"),
    ({"heads": []}, "layer has heads 0 to 3, or -4 to -1 from the end. Name at least one."),
    ({"layers": [1, -1]}, "layers 1, -1 name the same layer twice: the decoder has layers 0 to 1"),
    ({"heads": [4]}, "head 4 does not exist: a layer has heads 0 to 3, or -4 to -1 from the end"),
    ({"heads": [0, 0]}, "heads 0, 0 name the same head twice"),
    ({"kinds": [DECODER]}, "has an SSRU in place of self-attention: ask for encoder or cross"),
    ({"reduce": ROLLOUT}, "or reduce cross by mean_layers_heads"),
    (
        {"kinds": [ENCODER], "reduce": ROLLOUT, "norm": VALUE_NORMS},
        "rollout is computed from rows that sum to 1, not from value_norms: ask for norm weights",
    ),
    (
        {"reduce": Reduction.NONE, "norm": AttentionNorm.ALTI},
        "alti gives one value for all heads of a layer together, so reduce none is not possible:",
    ),
    (
        {"heads": [1], "reduce": Reduction.MEAN_HEADS, "norm": AttentionNorm.VALUE_ZEROING},
        "value_zeroing is computed from all heads of a layer together, not from heads 1: ask for",
    ),
    (
        {"kinds": [ENCODER], "reduce": ROLLOUT, "heads": [2, 1]},
        "rollout is computed from all heads of a layer together, not from heads 2, 1: ask for all",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_the_model_does_not_have_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AttentionQueryError) as caught:
        resolve_query(SSRU, **{"kinds": [CROSS], **changes})
    assert message in str(caught.value)


def test_steps_are_looked_up_in_the_sequence_that_attends() -> None:
    named = TraceQuery(ENCODER, -1, -1, -2)
    assert resolve_trace(SSRU, named, 9, 0) == TraceQuery(ENCODER, 5, 3, 7)
    named = TraceQuery(CROSS, -1, 0, -1)
    assert resolve_trace(SSRU, named, 9, 4) == TraceQuery(CROSS, 1, 0, 3)


@pytest.mark.parametrize(
    ("steps", "tokens", "message"),
    [
        (TraceQuery(ENCODER, 0, 0, 9), 4, "token 9 does not exist: the source has tokens 0 to 8"),
        (TraceQuery(CROSS, 0, 0, 4), 4, "token 4 does not exist: the target has tokens 0 to 3, or"),
        (TraceQuery(CROSS, 2, 0, 0), 4, "layer 2 does not exist: the decoder"),
        (TraceQuery(CROSS, 0, -5, 0), 4, "head -5 does not exist: a layer"),
        (TraceQuery(DECODER, 0, 0, 0), 4, "SSRU"),
        (TraceQuery(CROSS, 0, 0, 0), 0, "the target has no tokens"),
    ],
)
def test_steps_that_are_not_there_are_refused(steps: TraceQuery, tokens: int, message: str) -> None:
    with pytest.raises(AttentionQueryError) as caught:
        resolve_trace(SSRU, steps, 9, tokens)
    assert message in str(caught.value)


def job(source: list[int], target: list[int], *kinds: AttentionKind) -> AttentionJob:
    return AttentionJob(source, target, (AttentionQuery(dict.fromkeys(kinds, (0,)), (0,)),))


@pytest.mark.parametrize(
    ("job", "error", "message"),
    [
        (job([], [5, 0], CROSS), InputError, "the source has no tokens"),
        (job([5, 64], [5], CROSS), InputError, "source has ids from 5 to 64; the vocab"),
        (job([5], [-1], CROSS), InputError, "the target has ids from -1 to -1"),
        (
            job([5], [], ENCODER, CROSS),
            AttentionQueryError,
            "need a target, but the target has no tokens",
        ),
    ],
)
def test_a_job_that_cannot_be_computed_is_refused(
    job: AttentionJob, error: type[InputError], message: str
) -> None:
    with pytest.raises(error) as caught:
        check_job(tiny_config(), job)
    assert message in str(caught.value)


def test_attention_query_does_not_import_torch() -> None:
    check = (
        "import sys, model.inspection.query, model.inspection.results; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
