"""Packed int8 matrices."""

import pytest
import torch
from torch import nn

from model.quantization.asymmetric import AsymmetricInt8Linear
from model.quantization.int8 import (
    PANEL,
    Int8Linear,
    Int8Matrix,
    pack,
    quantize_matrix,
    shape_of,
    unpack,
)

SHAPES = [(PANEL, 8), (PANEL, 64), (3 * PANEL, 128)]


def matrix(out: int, width: int) -> torch.Tensor:
    torch.manual_seed(out + width)
    return torch.randint(-127, 128, (out, width), dtype=torch.int8)


@pytest.mark.parametrize(("out", "width"), SHAPES)
def test_four_inputs_of_each_output_of_a_panel_lie_side_by_side(out: int, width: int) -> None:
    values = matrix(out, width)
    packed = pack(values)
    assert packed.is_contiguous()
    for n, k in [(0, 0), (1, 3), (PANEL - 1, width - 1), (out - 1, width // 2)]:
        assert packed[n // PANEL, k // 4, n % PANEL, k % 4] == values[n, k]


@pytest.mark.parametrize(("out", "width"), SHAPES)
def test_unpacking_gives_the_matrix_back(out: int, width: int) -> None:
    values = matrix(out, width)
    packed = pack(values)
    assert shape_of(packed) == (out, width)
    assert torch.equal(unpack(packed), values)
    assert unpack(packed).is_contiguous()
    assert pack(packed) is packed
    assert unpack(values) is values


def test_last_panel_is_filled_with_zeros() -> None:
    values = matrix(PANEL + 3, 8)
    packed = pack(values)
    assert shape_of(packed) == (2 * PANEL, 8)
    assert torch.equal(unpack(packed)[: PANEL + 3], values)
    assert not unpack(packed)[PANEL + 3 :].any()


@pytest.mark.parametrize("is_packed", [False, True])
def test_rows_of_a_matrix_are_found_in_both_layouts(is_packed: bool) -> None:
    values = matrix(PANEL + 3, 8)
    table = Int8Matrix(values)
    if is_packed:
        table.pack()
    indices = torch.tensor([[0, 66, 5], [64, 63, 1]])
    assert torch.equal(table.rows(indices), values[indices])
    assert torch.equal(table.integers, values)


@pytest.mark.parametrize("kind", ["int8", "centred", "fine"])
def test_products_do_not_change_when_their_matrix_is_packed(kind: str) -> None:
    torch.manual_seed(7)
    linear = nn.Linear(96, 2 * PANEL)
    floats = linear.weight.detach().numpy()
    product: Int8Linear | AsymmetricInt8Linear = AsymmetricInt8Linear(
        linear, is_fine=kind == "fine"
    )
    if kind == "int8":
        product = Int8Linear(quantize_matrix(floats), linear.bias)
    x = torch.randn(5, 96)
    wanted, weight = product(x), product.weight
    for _ in range(2):
        assert product.ordered is None or product.ordered.shape == (2 * PANEL, 96)
        assert product.pack().shape == (2, 24, PANEL, 4)
        assert torch.equal(product(x), wanted)
        assert torch.equal(product.weight, weight)
