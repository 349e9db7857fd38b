"""Embeddings on a GPU, and the measured time of steps: `python -m pytest -m gpu`."""

import numpy as np
import pytest
import torch

from model.encoding.embedding import MeanOfMemory, embed
from service.workers.device_time import MAX_PENDING, GpuTimer, timer_of
from tests.text_models import jobs, new_model
from tests.tiny import FAMILIES, Family

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LENGTHS = 9, 1, 64, 30, 31, 8


@pytest.mark.parametrize("buckets", [0, 32], ids=["absolute", "relative"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-4), (torch.bfloat16, 0.1), (torch.float16, 0.02)],
    ids=str,
)
def test_vectors_are_those_of_the_cpu(buckets: int, dtype: torch.dtype, tolerance: float) -> None:
    model = new_model(relative_buckets=buckets)
    texts = [*jobs(*LENGTHS), *jobs(12, 5, is_per_token=True)]
    expected = embed(model, texts)
    model.encoder.to(dtype)
    found = embed(model.to("cuda"), texts, slice_tokens=16_384)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=tolerance * np.abs(theirs).max())


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
