"""Vectors in slices: the same in any company, short texts first, and what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from model.backends import encoder_batch
from model.backends.encoder_batch import HiddenTexts, padded_batch, run_layers
from model.config import Activation, DenseConfig, EmbeddingConfig, NormalizeConfig, Pooling
from model.encoding import embedding as encoding
from model.encoding.embedding import EmbeddingEncode, EmbeddingJob, EmbeddingModel, embed, pool
from model.errors import InputError, UnsupportedModelError
from model.sequence import batches
from tests.text_models import SIZES, jobs, new_model, text_config


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_number_of_rows_does_not_change_bits() -> None:
    """Of the width of a real model: there, 5 to 11 rows took another kernel with two threads."""
    model = new_model(d_model=384, num_heads=12, ffn_dim=1536, layers=1)
    texts = jobs(*range(1, 16), is_per_token=True)
    together = embed(model, texts)
    for text, vectors in zip(texts, together, strict=True):
        np.testing.assert_array_equal(embed(model, [text])[0], vectors)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("way", Pooling)
@pytest.mark.parametrize("width", [384, 768])
def test_texts_of_one_length_are_pooled_together_with_the_same_bits(
    way: Pooling, width: int
) -> None:
    modules = (DenseConfig(width, 96, True, Activation.TANH), NormalizeConfig())
    model = EmbeddingModel(
        replace(new_model(d_model=width).config, pooling=(way,), modules=modules)
    )
    with torch.inference_mode():
        for length in (1, 2, 5, 17, 64, 129):
            states = torch.randn(9, length, width)
            together = model.embed(HiddenTexts(states, [length] * 9))
            alone = [model.embed(HiddenTexts(text[None], [length])) for text in states]
            assert torch.equal(together, torch.cat(alone)), length


def test_slices_are_small_and_short_texts_come_first() -> None:
    """A long text is 2 layers: projections, attention and feed-forward in 3 parts each.

    The first part of attention is in the slice of the last projection.
    """
    embedding = EmbeddingEncode(new_model(), jobs(60, 3, 4, 60), slice_tokens=20)
    order, slices = [], 0
    while embedding.advance():
        slices += 1
        order.append(sorted(embedding.take_finished()))
    assert [finished for finished in order if finished] == [[1, 2], [0], [3]]
    assert slices == (2 * 2 + 1) + 2 * (2 * (2 + 3 + 3) + 1)
    assert not embedding.advance()


def test_slicing_changes_little() -> None:
    model, texts = new_model(), jobs(60, 3, 64)
    for whole, sliced in zip(embed(model, texts), embed(model, texts, 16), strict=True):
        np.testing.assert_allclose(whole, sliced, atol=2e-6)


HIDDEN = torch.tensor([[1.0, -4.0], [2.0, 5.0], [6.0, 2.0], [0.0, 1.0]])
POOLED = {
    Pooling.CLS: [1.0, -4.0],
    Pooling.MAX: [6.0, 5.0],
    Pooling.MEAN: [2.25, 1.0],
    Pooling.MEAN_SQRT_LEN: [4.5, 2.0],
    Pooling.WEIGHTED_MEAN: [2.3, 1.6],
    Pooling.LAST_TOKEN: [0.0, 1.0],
}


@pytest.mark.parametrize("way", Pooling)
def test_pooling_leaves_padding_out(way: Pooling) -> None:
    """The first text has the same tokens as above, the second has only the first two."""
    padding = torch.full((2, 2), torch.nan)
    states = torch.stack([torch.cat([HIDDEN, padding]), torch.cat([HIDDEN[:2], padding, padding])])
    found = pool(HiddenTexts(states, [4, 2]), (way,))
    alone = pool(HiddenTexts(HIDDEN[None, :2], [2]), (way,))
    assert_close(found, torch.cat([torch.tensor([POOLED[way]]), alone]))


def test_padded_batch_gives_the_vectors_of_a_packed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: texts of any length together, the vectors of all texts in one tensor."""
    model = new_model(relative_buckets=32)
    texts = [
        *jobs(9, 3, 1),
        *jobs(12, is_per_token=True),
        *(replace(job, is_raw=True) for job in jobs(5)),
    ]
    ids = [job.ids for job in texts]
    with torch.inference_mode():
        batch = padded_batch(model.encoder, ids)
        for _ in run_layers(batch, slice_tokens=4):
            pass
        (hidden,) = batch.read_texts()
        assert hidden.states.shape[:2] == (5, 16)
        assert hidden.lengths == [len(each) for each in ids]
        vectors = model.embed(hidden)
    expected = np.stack(embed(model, [EmbeddingJob(each) for each in ids]))
    np.testing.assert_allclose(vectors.numpy(), expected, atol=1e-6)
    packed = embed(model, texts)
    pad_batches(monkeypatch)
    for found, vector in zip(embed(model, texts), packed, strict=True):
        np.testing.assert_allclose(found, vector, atol=1e-6)


def pad_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets batches be padded, as on a GPU."""
    for module in (encoding, encoder_batch):
        monkeypatch.setattr(module, "pads_on", lambda _device: True)


def test_padding_stays_inside_the_position_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a RoBERTa with 512 rows, 510 have texts, and such a batch was padded to 512 tokens."""
    model = new_model({"max_tokens": 11}, max_positions=13, position_offset=2)
    texts = jobs(11, 3)
    expected = embed(model, texts)
    pad_batches(monkeypatch)
    padded = EmbeddingEncode(model, texts)
    while padded.advance():
        pass
    found = padded.take_finished()
    assert padded.padding_tokens == 2 * 16 - 14
    for number, vector in enumerate(expected):
        np.testing.assert_allclose(found[number], vector, atol=1e-6)


def test_padded_batches_count_their_padding() -> None:
    lengths = [1, 1, 1, 1, 2, 5, 30]
    found = batches(lengths, lengths, max_tokens=10, pads=True)
    assert [*found] == [[1, 1, 1, 1, 2], [5], [30]]


def test_head_is_in_float32_behind_an_encoder_in_bfloat16() -> None:
    modules = (DenseConfig(16, 4, has_bias=False), NormalizeConfig())
    model = new_model({"modules": modules})
    (expected,) = embed(model, jobs(9))
    model.encoder.bfloat16()
    (found,) = embed(model, jobs(9))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=0.05)
    assert np.linalg.norm(found) == pytest.approx(1)


REFUSED: list[tuple[EmbeddingJob, type[InputError], str]] = [
    (EmbeddingJob([]), InputError, "no tokens"),
    (EmbeddingJob([1] * 65), InputError, "has 65 tokens; the limit is 64"),
    (EmbeddingJob([50]), InputError, "ids from 50 to 50; the vocabulary has 50"),
    (EmbeddingJob([-1]), InputError, "ids from -1"),
]


@pytest.mark.parametrize(("job", "error", "message"), REFUSED)
def test_what_cannot_be_computed_is_refused(
    job: EmbeddingJob, error: type[InputError], message: str
) -> None:
    with pytest.raises(error, match=message):
        EmbeddingEncode(new_model(), [*jobs(3), job])


CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"pooling": ()}, "no way of pooling"),
    ({"max_tokens": 81}, "max_tokens is 81, it must be from 1 to 80"),
    ({"default_prompt": "query"}, "'query' is not among the prompts"),
    ({"modules": (DenseConfig(7, 4),)}, "Dense of 7 inputs gets vectors of size 16"),
]


@pytest.mark.parametrize(("changes", "message"), CONFIGS)
def test_config_that_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        EmbeddingConfig(text_config(**SIZES), **{"max_tokens": 64, **changes})


ENCODERS: list[tuple[dict[str, Any], str]] = [
    ({"layers": 0}, "layers is 0"),
    ({"num_heads": 3}, "16 is not a multiple of 3"),
    ({"position_offset": 80}, "80 positions leave no room"),
    ({"relative_buckets": 6}, "relative_buckets is 6"),
]


@pytest.mark.parametrize(("changes", "message"), ENCODERS)
def test_encoder_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        text_config(**SIZES | changes)
