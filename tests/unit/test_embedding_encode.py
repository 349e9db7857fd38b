"""Vectors in slices: the same in any company, short texts first, and what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from model.backends.encoder_batch import HiddenTexts, begin_batch
from model.config import Activation, DenseConfig, EmbeddingConfig, NormalizeConfig, Pooling
from model.encoding.embedding import EmbeddingEncode, EmbeddingJob, EmbeddingModel, embed, pool
from model.errors import InputError, UnsupportedModelError
from model.layers.attention import PLAIN, RowKernels
from model.sequence import batches
from tests.text_models import SIZES, TEXT_FAMILIES, jobs, new_model, text_config


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
    encoder = text_config(**SIZES | {"d_model": width, "layers": 1})
    model = EmbeddingModel(EmbeddingConfig(encoder, (way,), modules, max_tokens=64))
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


@pytest.fixture(params=["triton", "pytorch"])
def kernels(request: pytest.FixtureRequest) -> RowKernels:
    """The kernels of a GPU; without one, Triton's interpreter runs them."""
    if request.param == "pytorch":
        return PLAIN
    pytest.importorskip("triton", reason="Triton is only built for x86-64")
    found: RowKernels = import_module("model.backends.cuda.triton_kernels").TritonKernels()
    return found


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_batches_of_a_gpu_give_the_vectors_of_a_cpu(family: str, kernels: RowKernels) -> None:
    """Texts of any lengths are computed together, and padding tokens that a mask excludes too."""
    model = new_model(**TEXT_FAMILIES[family], layers=1)
    texts = [
        *jobs(7, 1, 18),
        *jobs(6, is_per_token=True),
        *(replace(job, is_raw=True) for job in jobs(3)),
        *(replace(job, unpooled=2) for job in jobs(4)),
    ]
    expected = embed(model, texts)
    model.kernels = kernels
    for found, vector in zip(embed(model, texts), expected, strict=True):
        np.testing.assert_allclose(found, vector, atol=1e-5)


def test_texts_of_a_gpu_are_padded_for_their_pooling_alone() -> None:
    """Lengths differ so much that the padded texts take more than twice the tokens."""
    batch = begin_batch(new_model().encoder, [[1] * 3] * 30 + [[1] * 60], kernels=PLAIN)
    assert batch.num_tokens == 150
    short, long = batch.read_texts()
    assert (short.states.shape[:2], long.states.shape[:2]) == ((30, 8), (1, 64))


def test_texts_of_a_gpu_may_be_as_long_as_the_position_table() -> None:
    """Of a RoBERTa with 512 rows, 510 have texts, and such a batch was padded to 512 tokens."""
    model = new_model({"max_tokens": 11}, max_positions=13, position_offset=2)
    texts = jobs(11, 3)
    expected = embed(model, texts)
    model.kernels = PLAIN
    for found, vector in zip(embed(model, texts), expected, strict=True):
        np.testing.assert_allclose(found, vector, atol=1e-6)


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
