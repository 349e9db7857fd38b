"""The attention of decode steps on a GPU, by the Triton kernel and by PyTorch.

Without a GPU, Triton's interpreter runs the kernel.
"""

from importlib import import_module

import pytest
import torch
from torch import Tensor

from model.backends.cuda.row_attention import attend_masked, row_attention
from model.backends.cuda.runner import CudaRunner
from model.backends.torch_runner import TorchRunner
from model.engine.engine import Engine
from model.layers.attention import AttendRows, attention, mask_bias
from model.sequence import EngineLimits
from tests.tiny import Family, greedy_ids, tiny_sources

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTHS = [1, 31, 32, 33, 70, 5]


@pytest.fixture(scope="module")
def kernel() -> AttendRows:
    pytest.importorskip("triton", reason="Triton is only built for x86-64")
    found: AttendRows = import_module("model.backends.cuda.row_kernel").attend_rows
    return found


@pytest.fixture(params=["triton", "pytorch"])
def attend(request: pytest.FixtureRequest) -> AttendRows:
    if request.param == "pytorch":
        return attend_masked
    found: AttendRows = request.getfixturevalue("kernel")
    return found


def rows(heads: int, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, and keys and values that are views of larger tensors, as those of a cache are."""
    generator = torch.Generator().manual_seed(heads * head_dim)
    query = torch.randn(len(LENGTHS), heads, 1, head_dim, generator=generator)
    cache = torch.randn(2, len(LENGTHS) + 1, heads, 96, head_dim, generator=generator)
    key, value = cache.to(DEVICE, dtype)[:, : len(LENGTHS), :, :80]
    lengths = torch.tensor(LENGTHS, device=DEVICE)
    return query.to(DEVICE, dtype), key, value, lengths


@pytest.mark.parametrize(("heads", "head_dim"), [(1, 32), (4, 64), (2, 24)])
def test_float32_is_that_of_plain_attention(attend: AttendRows, heads: int, head_dim: int) -> None:
    query, key, value, lengths = rows(heads, head_dim, torch.float32)
    bias = mask_bias(torch.arange(80, device=DEVICE) < lengths[:, None], torch.float32)[
        :, None, None, :
    ]
    expected, _ = attention(query, key, value, bias)
    torch.testing.assert_close(attend(query, key, value, lengths), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_near_those_of_float32(attend: AttendRows, dtype: torch.dtype) -> None:
    query, key, value, lengths = rows(2, 32, dtype)
    found = attend(query, key, value, lengths)
    expected = attend_masked(query.float(), key.float(), value.float(), lengths)
    assert found.dtype is dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)


def test_bits_of_a_row_do_not_depend_on_other_rows(kernel: AttendRows) -> None:
    """They do not depend on the numbers after the end of the row either."""
    query, key, value, lengths = rows(2, 32, torch.float32)
    together = kernel(query, key, value, lengths)
    key, value = key.clone(), value.clone()
    for row, length in enumerate(LENGTHS):
        key[row, :, length:], value[row, :, length:] = torch.nan, torch.nan
        one = slice(row, row + 1)
        alone = kernel(query[one], key[one], value[one], lengths[one])
        assert torch.equal(alone[0], together[row])


def test_row_without_keys_stays_finite(attend: AttendRows) -> None:
    query, key, value, lengths = rows(2, 32, torch.float32)
    assert attend(query, key, value, torch.zeros_like(lengths)).isfinite().all()


def test_cpu_attends_by_pytorch() -> None:
    assert row_attention(torch.device("cpu")) is attend_masked


@pytest.mark.skipif(DEVICE == "cuda", reason="the tests of the GPU run the kernel")
def test_translations_by_the_kernel_are_those_of_the_plain_runner(
    kernel: AttendRows, family: Family
) -> None:
    limits = EngineLimits(max_rows=8, max_source_tokens=41, max_batch_tokens=256)
    runner, sources = CudaRunner(family.model(), limits), tiny_sources(6, longest=12)
    runner.attend = kernel
    expected = greedy_ids(Engine(TorchRunner(family.model(), limits), limits), sources)
    assert greedy_ids(Engine(runner, limits), sources) == expected
