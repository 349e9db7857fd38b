"""Embeddings on a GPU, and the measured time of steps: `python -m pytest -m gpu`."""

import numpy as np
import pytest
import torch

from model.encoding.embedding import MeanOfMemory, embed, on_device
from model.layers.attention import PLAIN
from model.precision import Precision
from service.workers.device_time import MAX_PENDING, GpuTimer, timer_of
from tests.parity.test_cuda import no_waiting
from tests.text_models import TEXT_FAMILIES, jobs, new_model
from tests.tiny import FAMILIES, Family

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = torch.device("cuda")
LENGTHS = 9, 1, 64, 30, 31, 8


@pytest.mark.parametrize("is_triton", [True, False], ids=["triton", "pytorch"])
@pytest.mark.parametrize("family", TEXT_FAMILIES)
@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [(Precision.FLOAT32, 1e-4), (Precision.BFLOAT16, 0.1), (Precision.FLOAT16, 0.02)],
)
def test_vectors_are_those_of_the_cpu(
    precision: Precision, tolerance: float, family: str, is_triton: bool
) -> None:
    """Padding rows, whose keys the window of ModernBERT excludes, change nothing."""
    model = new_model(**TEXT_FAMILIES[family])
    texts = [*jobs(*LENGTHS), *jobs(12, 5, is_per_token=True)]
    expected = embed(model, texts)
    model = on_device(model, CUDA, precision)
    if not is_triton:
        model.kernels = PLAIN
    found = embed(model, texts, slice_tokens=16_384)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=tolerance * np.abs(theirs).max())


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_no_batch_waits_for_the_device(family: str) -> None:
    """But for the copy of the vectors to the host, after the launches of all batches."""
    model = on_device(new_model(**TEXT_FAMILIES[family]), CUDA, Precision.BFLOAT16)
    texts = [*jobs(*LENGTHS), *jobs(12, 5, is_per_token=True), *jobs(7, 3, is_raw=True)]
    expected = embed(model, texts, slice_tokens=64)  # compiles kernels and fills caches
    with no_waiting():
        found = embed(model, texts, slice_tokens=64)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_vectors_of_a_translation_model_are_those_of_the_cpu(family: Family) -> None:
    model, texts = family.model(), jobs(9, 3, 20)
    expected = embed(MeanOfMemory(model), texts)
    found = embed(MeanOfMemory(model.to("cuda")), texts)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_steps_are_charged_with_the_time_of_the_gpu() -> None:
    """The host launches a product in some microseconds, and the GPU computes it for longer."""
    timer = timer_of(torch.device("cuda"))
    assert isinstance(timer, GpuTimer)
    matrix = torch.ones(4096, 4096, device="cuda")
    charged = 0.0
    for _ in range(20):
        timer.start()
        matrix = matrix @ matrix * 1e-4
        charged += timer.stop()
    assert len(timer.pending) <= MAX_PENDING
    torch.cuda.synchronize()
    timer.start()
    charged += timer.stop()
    assert charged > 20 * 1e-4
