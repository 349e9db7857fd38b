"""The vectors of a token through a layer: each is the input of what follows."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from model.architectures.stack import EncoderDecoder, TextEncoder
from model.backends.encoder_batch import encode_padded
from model.inspection.query import AttentionJob, AttentionKind, TraceQuery
from model.inspection.results import Array, TokenStates
from tests.attention_jobs import CHANGES, kinds_of, random_pairs, results, text_results
from tests.tiny import Family, pad
from tests.unit.test_text_attention import CONFIGS, new_encoder

ENCODER, DECODER, CROSS = AttentionKind
PAIR = random_pairs(6)[5]
TOKEN = 2


@pytest.fixture(params=CHANGES)
def model(family: Family, request: pytest.FixtureRequest) -> EncoderDecoder:
    return CHANGES[request.param](family.model(decoder_layers=3))


def states(model: EncoderDecoder, kind: AttentionKind, layer: int) -> TokenStates:
    job = AttentionJob(*PAIR, (TraceQuery(kind, layer, 0, TOKEN, has_states=True),))
    others = [AttentionJob(*pair, (TraceQuery(kind, 0, 0, 0, True),)) for pair in random_pairs(3)]
    found: TokenStates = results(model, [others[0], job, *others[1:]])[1].states
    return found


def assert_close(found: Array | None, expected: Array | None, model: EncoderDecoder) -> None:
    """In int8, single values may be rounded otherwise in a matrix with other rows."""
    assert found is not None
    assert expected is not None
    tolerance = 1e-5 if model.decoder.int8_output is None else 0.1
    assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_every_vector_leads_to_the_next(model: EncoderDecoder) -> None:
    first = states(model, ENCODER, 0)
    assert first.position is not None
    assert_allclose(first.token + first.position, first.embedded, rtol=0, atol=1e-6)
    assert_array_equal(first.input, first.embedded)
    assert_close(states(model, ENCODER, 1).input, first.output, model)
    before = states(model, CROSS, 0).embedded
    for layer in range(3):
        cross = states(model, CROSS, layer)
        if DECODER in kinds_of(model.config):
            own = states(model, DECODER, layer)
            assert own.feed_forward is None
            assert_close(own.input, before, model)
            assert_close(own.attended, cross.input, model)
            assert_close(own.output, cross.output, model)
        before = cross.output


def test_output_of_the_last_layer_is_the_memory(family: Family) -> None:
    model = family.model()
    last = states(model, ENCODER, 1)
    with torch.inference_mode():
        memory = encode_padded(model.encoder, *pad([PAIR[0]]))
        finished = model.encoder.norm(torch.from_numpy(last.output)[None, None])
    assert_allclose(finished[0, 0], memory[0, TOKEN], rtol=0, atol=1e-4)


def test_sums_are_those_of_the_layer(family: Family) -> None:
    """Stream plus sublayer, and layer norm after it only in a post-norm model."""
    model = family.model()
    layer = model.encoder.blocks[1]
    found = states(model, ENCODER, 1)
    assert found.feed_forward is not None
    sums = found.input + found.attention, found.attended + found.feed_forward
    norms = layer.mixer_residual, layer.feed_forward_residual
    for total, residual, result in zip(sums, norms, (found.attended, found.output), strict=True):
        with torch.inference_mode():
            normed = (
                torch.from_numpy(total)
                if residual.is_pre
                else residual.norm(torch.from_numpy(total))
            )
        assert_allclose(normed, result, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_states_of_an_embedding_model(name: str) -> None:
    encoder = new_encoder(CONFIGS[name])
    layers = [text_states(encoder, layer) for layer in range(CONFIGS[name].layers)]
    first = layers[0]
    assert first.position is not None
    with torch.inference_mode():
        total = torch.from_numpy(first.token + first.position)
        expected = encoder.embedding.norm(total).numpy()
    assert_allclose(first.embedded, expected, rtol=0, atol=1e-5)
    assert_array_equal(first.embedded, first.input)
    for here, after in zip(layers, layers[1:], strict=False):
        assert_allclose(here.output, after.input, rtol=0, atol=1e-5)
    assert not np.allclose(first.input, first.output)


def text_states(encoder: TextEncoder, layer: int) -> TokenStates:
    query = TraceQuery(ENCODER, layer, 0, TOKEN, has_states=True)
    (found,) = text_results(encoder, [[3, 5, 7, 11, 13]], query)
    states: TokenStates = found.states
    return states
