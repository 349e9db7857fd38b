"""Attention of an embedding model's encoder, in slices, against explicit attention."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from model.architectures.stack import TextEncoder
from model.config import TextEncoderConfig
from model.encoding.capture_pass import TextCapturePass
from model.errors import AttentionQueryError, InputError
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionQuery,
    TraceQuery,
    attention_layers,
    resolve_query,
    resolve_trace,
)
from tests.attention_jobs import assert_steps_add_up, finished, text_maps, text_steps
from tests.text_models import text_config

ENCODER, DECODER, CROSS = AttentionKind
LENGTHS = [7, 2, 7, 1, 31, 40]
CONFIGS = {
    "bert": text_config(16, 4, 32, 3, 50, 80, token_types=2),
    "roberta": text_config(16, 2, 32, 2, 50, 80, position_offset=2),
    "mpnet": text_config(16, 4, 32, 3, 50, 80, relative_buckets=32),
}


@pytest.fixture(params=CONFIGS)
def encoder(request: pytest.FixtureRequest) -> TextEncoder:
    return new_encoder(CONFIGS[request.param])


def new_encoder(config: TextEncoderConfig) -> TextEncoder:
    made = TextEncoder(config).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return made


def texts() -> list[list[int]]:
    rng = np.random.default_rng(3)
    return [rng.integers(50, size=length).tolist() for length in LENGTHS]


def test_steps_add_up_and_are_those_of_the_weights(encoder: TextEncoder) -> None:
    """With what a relative position bias adds, where the model has one."""
    ids = texts()[4]
    (weights,) = text_maps(encoder, [ids])
    for layer, head, token in ((0, 0, 0), (1, 1, 17), (0, 1, 30)):
        found = text_steps(encoder, ids, layer, head, token)
        assert_steps_add_up(found)
        assert_allclose(found.weights, weights[layer, head, token], rtol=0, atol=1e-6)
        assert (found.bias is None) == (encoder.relative_bias is None)


def test_bfloat16_is_shown_in_float32() -> None:
    encoder = new_encoder(CONFIGS["mpnet"]).to(torch.bfloat16)
    for found in text_maps(encoder, texts()):
        assert found.dtype == np.float32
        assert_allclose(found.sum(-1, dtype=np.float64), 1.0, rtol=0, atol=1e-5)


REFUSED: list[tuple[AttentionJob, type[InputError], str]] = [
    (AttentionJob([], [], ()), InputError, "no tokens"),
    (AttentionJob([1] * 81, [], ()), InputError, "81 tokens; the limit is 80"),
    (AttentionJob([50], [], ()), InputError, "50 to 50; the vocabulary has 50"),
    (
        AttentionJob([1], [1], (AttentionQuery({CROSS: (0,)}, (0,)),)),
        AttentionQueryError,
        "this model has only an encoder: ask for encoder attention, not cross",
    ),
]


@pytest.mark.parametrize(("job", "kind", "message"), REFUSED)
def test_what_cannot_be_computed_is_refused(
    job: AttentionJob, kind: type[InputError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        TextCapturePass(new_encoder(CONFIGS["bert"]), [job])


def test_only_the_encoder_can_be_asked_about() -> None:
    config = dataclasses.replace(CONFIGS["bert"], blocks=CONFIGS["bert"].blocks * 2)
    assert attention_layers(config) == {ENCODER: 6}
    for kind in (DECODER, CROSS):
        with pytest.raises(AttentionQueryError, match=f"ask for encoder, not {kind}"):
            resolve_query(config, [kind])
    steps = resolve_trace(config, TraceQuery(ENCODER, -1, -1, -1), 5, 0)
    assert steps == TraceQuery(ENCODER, 5, 3, 4)


@torch.no_grad()
def test_query_of_a_layer_is_not_changed_by_later_layers(encoder: TextEncoder) -> None:
    """A text of several slices, whose tensors the batch would otherwise use again."""
    ids = texts()[-1]
    queries = (TraceQuery(ENCODER, 0, 0, 5), AttentionQuery({ENCODER: (1,)}, (0,)))
    job = AttentionJob(ids, [], queries)
    found = [finished(TextCapturePass(encoder, [job], size))[0][0] for size in (128, 8)]
    for name in ("query", "key", "value", "result"):
        one, several = (getattr(trace, name) for trace in found)
        assert_allclose(several, one, rtol=0, atol=1e-5)
