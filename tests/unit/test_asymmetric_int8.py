"""Int8 products for float weights: near the float ones, in any company, and undone."""

import numpy as np
import pytest
import torch
from torch import nn

from model.encoding.embedding import embed
from model.quantization.asymmetric import AsymmetricInt8Linear, quantize, restore
from tests.text_models import jobs, new_model

WIDTHS = 96, 160


def linear(seed: int = 1) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(*WIDTHS).requires_grad_(False)


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("middle", [0.0, 5.0, -40.0])
def test_products_are_near_wherever_the_middle_is(middle: float) -> None:
    plain, x = linear(), torch.randn(7, WIDTHS[0])
    wanted = plain(x + middle) - plain(torch.full_like(x, middle))
    found = AsymmetricInt8Linear(plain)(x + middle) - AsymmetricInt8Linear(plain)(
        torch.full_like(x, middle)
    )
    assert 0 < relative_error(found, wanted) < 0.01


def test_a_fine_product_has_the_error_of_its_weights_alone() -> None:
    plain, x = linear(), torch.randn(3, 5, WIDTHS[0])
    fine = AsymmetricInt8Linear(plain, is_fine=True)
    found, wanted = fine(x), x @ fine.weight.T + plain.bias
    assert found.shape == (3, 5, WIDTHS[1])
    assert relative_error(found, wanted) < 5e-5
    assert relative_error(AsymmetricInt8Linear(plain)(x), wanted) > 1e-3


def test_a_row_does_not_depend_on_others() -> None:
    product, x = AsymmetricInt8Linear(linear(), is_fine=True), torch.randn(30, WIDTHS[0])
    together = product(x)
    for row, y in zip(x, together, strict=True):
        assert torch.equal(product(row[None])[0], y)


def test_zeros_and_constants_give_the_bias_and_the_sum() -> None:
    plain = linear()
    product = AsymmetricInt8Linear(plain)
    torch.testing.assert_close(product(torch.zeros(1, WIDTHS[0]))[0], plain.bias)
    with torch.no_grad():
        plain.weight.zero_()
    assert torch.equal(AsymmetricInt8Linear(plain)(torch.randn(2, WIDTHS[0]))[1], plain.bias)


def test_quantizing_can_be_undone() -> None:
    model = new_model()
    texts = jobs(5, 9)
    before = embed(model, texts)
    replaced = quantize(model.encoder.layers)
    assert len(replaced) == 2 * 6
    between = embed(model, texts)
    restore(replaced)
    for a, b, c in zip(before, between, embed(model, texts), strict=True):
        np.testing.assert_array_equal(a, c)
        assert not np.array_equal(a, b)
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.99
