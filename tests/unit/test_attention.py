import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from model.config import AttentionSpec
from model.layers.attention import (
    MultiHeadAttention,
    attention,
    attention_weights,
    fuse_projections,
)

A = torch.tensor([[0.5, 0.1, 0.1, 0.2], [0.1, 0.5, 0.2, 0.1], [0.5, 0.1, 0.2, 0.1]])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rounded(x: Tensor) -> list[list[float]]:
    return [[round(value, 2) for value in row] for row in x.tolist()]


def test_the_example_worked_by_hand() -> None:
    assert rounded(A @ A.T) == [[0.31, 0.14, 0.3], [0.14, 0.31, 0.15], [0.3, 0.15, 0.31]]
    query = A * A.shape[-1] ** 0.5
    for values in (attention(query, A, A), attention_weights(query, A) @ A):
        assert rounded(values) == [
            [0.38, 0.22, 0.16, 0.14],
            [0.35, 0.25, 0.17, 0.13],
            [0.38, 0.22, 0.17, 0.13],
        ]


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
def test_fused_projections_are_those_of_three_products(has_bias: bool, kv_heads: int) -> None:
    module = MultiHeadAttention(16, AttentionSpec(2, kv_heads, 8, has_bias))
    x, memory = normal(2, 6, 16), normal(2, 5, 16, seed=1)
    with torch.no_grad():
        expected = [*module.project(x, x), *module.project(x, memory)]
        expected += module.project_key_value(memory)
        fuse_projections(nn.Sequential(module))
        found = [*module.project(x, x), *module.project(x, memory)]
        found += module.project_key_value(memory)
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs)


def test_fused_weights_take_no_second_memory() -> None:
    module = MultiHeadAttention(16, AttentionSpec(2, 2, 8))
    module.fuse()
    assert module.fused is not None
    storage = module.fused[0].untyped_storage().data_ptr()
    for linear in (module.query, module.key, module.value):
        assert linear.weight.shape == (16, 16)
        assert linear.weight.untyped_storage().data_ptr() == storage
