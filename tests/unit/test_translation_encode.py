"""Texts through the encoder of a translation model, side by side, against the model's own."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from model.architectures.stack import EncoderDecoder
from model.backends.encoder_batch import encode_padded
from model.config import NormPosition
from model.encoding import embedding as encoding
from model.encoding.embedding import EmbeddingJob, MeanOfMemory, Vectors
from model.errors import InputError
from tests.tiny import VOCAB_SIZE, tiny_config, tiny_model

TEXTS = [[5, 6, 7, 0], [8, 0], [9] * 30 + [0], [5, 6, 0]]


@pytest.fixture(scope="module", params=[NormPosition.POST, NormPosition.PRE])
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    return tiny_model(tiny_config(norm=request.param), seed=1)


def embed(
    model: EncoderDecoder, texts: Sequence[list[int]], is_per_token: bool = False
) -> list[Vectors]:
    jobs = [EmbeddingJob(ids, is_per_token) for ids in texts]
    return encoding.embed(MeanOfMemory(model), jobs, slice_tokens=8)


def test_vectors_are_means_of_the_last_layer(model: EncoderDecoder) -> None:
    found, tokens = embed(model, TEXTS), embed(model, TEXTS, is_per_token=True)
    for ids, vector, rows in zip(TEXTS, found, tokens, strict=True):
        source = torch.tensor([ids])
        with torch.inference_mode():
            memory = encode_padded(model.encoder, source, torch.ones_like(source, dtype=torch.bool))
        np.testing.assert_allclose(rows, memory[0].numpy(), atol=1e-5)
        np.testing.assert_allclose(vector, memory[0].numpy().mean(axis=0), atol=1e-5)


@pytest.mark.parametrize(("ids", "error"), [([], InputError), ([5, VOCAB_SIZE], InputError)])
def test_what_cannot_be_computed_is_refused(
    model: EncoderDecoder, ids: list[int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        encoding.embed(MeanOfMemory(model), [EmbeddingJob(ids)])
