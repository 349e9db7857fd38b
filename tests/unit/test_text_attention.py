"""Attention of an embedding model's encoder, in slices, against explicit attention."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from torch import Tensor

from model.architectures.stack import TextEncoder
from model.backends.encoder_batch import PackedBatch, encode_padded, run_layers
from model.config import TextEncoderConfig
from model.encoding.capture_pass import TextCapturePass
from model.errors import AttentionQueryError, InputError
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionNorm,
    AttentionQuery,
    TraceQuery,
    attention_layers,
    resolve_query,
    resolve_trace,
)
from model.layers.attention import attention_weights
from model.layers.positions import bias_rows
from tests.attention_jobs import assert_steps_add_up, finished, text_maps, text_steps
from tests.text_models import text_config
from tests.tiny import pad

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


@torch.no_grad()
def explicit(encoder: TextEncoder, ids: list[int]) -> tuple[NDArray[np.float32], list[Tensor]]:
    """All weights (L, H, T, T) by the layers' own forward, and what goes into each layer."""
    positions = torch.arange(len(ids))[None]
    x = encoder.embedding.parts(torch.tensor([ids]), positions, len(ids) - 1).embedded
    bias = None
    if encoder.relative_bias is not None:
        bias = bias_rows(encoder.relative_bias(len(ids)), 0, len(ids), len(ids))
    states, weights = [], []
    for layer in encoder.blocks:
        states.append(x[0])
        query, key, value = layer.project(x, positions)
        found = attention_weights(query, key, bias)
        module, residual = layer.attention()
        x = layer.add_feed_forward(residual.after(x, module.merge(found @ value)))
        weights.append(found[0].numpy())
    return np.stack(weights), states


@pytest.mark.parametrize("slice_tokens", [128, 16, 1])
def test_weights_are_those_of_explicit_attention(encoder: TextEncoder, slice_tokens: int) -> None:
    """So the fused kernel's hidden states, from which they are made, are its own as well."""
    for ids, found in zip(
        texts(), text_maps(encoder, texts(), slice_tokens=slice_tokens), strict=True
    ):
        assert_allclose(found, explicit(encoder, ids)[0], rtol=0, atol=1e-5)
        assert_allclose(found.sum(-1, dtype=np.float64), 1.0, rtol=0, atol=1e-5)


def test_a_text_gets_the_same_alone_and_beside_others(encoder: TextEncoder) -> None:
    for ids, found in zip(texts(), text_maps(encoder, texts()), strict=True):
        assert_allclose(text_maps(encoder, [ids])[0], found, rtol=0, atol=1e-6)


def test_values_norms_are_of_what_each_head_adds(encoder: TextEncoder) -> None:
    """Weights times the length of v W_O, head by head."""
    ids = texts()[4]
    (found,) = text_maps(encoder, [ids], norm=AttentionNorm.VALUE_NORMS)
    weights, states = explicit(encoder, ids)
    for number, layer in enumerate(encoder.blocks):
        module, _ = layer.attention()
        size = 16 // module.num_heads
        values = torch.split(module.value(states[number]).detach(), size, dim=1)
        matrices = torch.split(module.out.weight.detach(), size, dim=1)
        for head, (value, matrix) in enumerate(zip(values, matrices, strict=True)):
            norms = (value @ matrix.T).norm(dim=1).numpy()
            assert_allclose(found[number, head], weights[number, head] * norms, atol=1e-4)


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


def test_padded_texts_have_the_states_of_packed_ones(encoder: TextEncoder) -> None:
    source, mask = pad(texts())
    with torch.inference_mode():
        states = encode_padded(encoder, source, mask)
        for ids, found in zip(texts(), states, strict=True):
            batch = PackedBatch(encoder, [ids])
            for _ in run_layers(batch, 100):
                pass
            torch.testing.assert_close(found[: len(ids)], batch.read()[: len(ids)])


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
