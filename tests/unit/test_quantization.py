import numpy as np
import pytest
import torch
from torch import Tensor, nn

from model.encoding.embedding import embed
from model.quantization import int8
from model.quantization.int8 import (
    PANEL,
    AsymmetricInt8Linear,
    Int8Linear,
    Int8Matrix,
    int8_matmul,
    pack,
    quantize,
    quantize_matrix,
    restore,
    shape_of,
    unpack,
)
from tests.text_models import jobs, new_model


def integers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-127, 128, shape, generator=generator, dtype=torch.int8)


@pytest.fixture(params=[True, False], ids=["integers", "floats"])
def _processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with instructions for int8, and one without them."""
    monkeypatch.setattr(int8, "HAS_FAST_INT8", request.param)


@pytest.mark.usefixtures("_processor")
@pytest.mark.parametrize("width", [8, 256, 1024, 1025, 1536, 4096])
def test_integer_sums_are_exact(width: int) -> None:
    x, weight = integers(5, width), integers(24, width, seed=1)
    exact = x.numpy().astype(np.int64) @ weight.numpy().astype(np.int64).T
    assert np.array_equal(int8_matmul(x, weight).numpy(), exact.astype(np.float32))


@pytest.mark.usefixtures("_processor")
def test_the_largest_values_are_exact_too() -> None:
    x = torch.full((4, 1536), -127, dtype=torch.int8)
    x[:, 0] = 126
    exact = 1535 * 127**2 + 126**2
    assert int8_matmul(x, x[:1]).tolist() == [[float(np.float32(exact))]] * 4


def test_matrix_of_zeros_stays_one() -> None:
    """It ended in a division by zero."""
    found = quantize_matrix(np.zeros((2, 3), np.float32))
    assert not found.values.any()


SHAPES = [(PANEL, 8), (PANEL, 64), (3 * PANEL, 128), (PANEL + 3, 8)]


@pytest.mark.parametrize(("out", "width"), SHAPES)
def test_unpacking_gives_the_matrix_back(out: int, width: int) -> None:
    values = integers(out, width)
    packed = pack(values)
    assert shape_of(packed) == (-(-out // PANEL) * PANEL, width)
    assert torch.equal(unpack(packed)[:out], values)
    assert not unpack(packed)[out:].any()  # zeros fill the last panel
    assert unpack(packed).is_contiguous()
    assert pack(packed) is packed


@pytest.mark.parametrize("is_packed", [False, True])
def test_rows_of_a_matrix_are_found_in_both_layouts(is_packed: bool) -> None:
    values = integers(PANEL + 3, 8)
    table = Int8Matrix(values, torch.ones(len(values)))
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
