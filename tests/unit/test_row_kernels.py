"""The kernels of decode steps on a GPU, by Triton and by PyTorch.

Without a GPU, Triton's interpreter runs them.
"""

import os
import subprocess
import sys
from copy import deepcopy
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from model.backends.cuda.runner import CudaRunner, launch_all, row_kernels
from model.backends.torch_runner import TorchRunner
from model.config import NormSpec
from model.engine.engine import Engine
from model.layers.attention import PLAIN, Heads, RowKernels, attention, mask_bias, new_norm
from model.layers.positions import bias_rows
from model.sequence import DecodingOptions, EngineLimits, Sequence
from tests.tiny import FAMILIES, Family, assert_same_hypotheses, translate

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTHS = [1, 31, 32, 33, 70, 5]


@pytest.fixture(scope="module")
def triton() -> RowKernels:
    pytest.importorskip("triton", reason="Triton is only built for x86-64")
    found: RowKernels = import_module("model.backends.cuda.triton_kernels").TritonKernels()
    return found


@pytest.fixture(params=["triton", "pytorch"])
def kernels(request: pytest.FixtureRequest) -> RowKernels:
    if request.param == "pytorch":
        return PLAIN
    found: RowKernels = request.getfixturevalue("triton")
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
def test_float32_is_that_of_plain_attention(kernels: RowKernels, heads: int, head_dim: int) -> None:
    query, key, value, lengths = rows(heads, head_dim, torch.float32)
    bias = mask_bias(torch.arange(80, device=DEVICE) < lengths[:, None], torch.float32)[
        :, None, None, :
    ]
    expected = attention(query, key, value, bias)
    torch.testing.assert_close(
        kernels.attend(query, key, value, lengths), expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_near_those_of_float32(kernels: RowKernels, dtype: torch.dtype) -> None:
    query, key, value, lengths = rows(2, 32, dtype)
    found = kernels.attend(query, key, value, lengths)
    expected = PLAIN.attend(query.float(), key.float(), value.float(), lengths)
    assert found.dtype is dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)


def test_bits_of_a_row_do_not_depend_on_other_rows(triton: RowKernels) -> None:
    """They do not depend on the numbers after the end of the row either."""
    query, key, value, lengths = rows(2, 32, torch.float32)
    together = triton.attend(query, key, value, lengths)
    key, value = key.clone(), value.clone()
    for row, length in enumerate(LENGTHS):
        key[row, :, length:], value[row, :, length:] = torch.nan, torch.nan
        one = slice(row, row + 1)
        alone = triton.attend(query[one], key[one], value[one], lengths[one])
        assert torch.equal(alone[0], together[row])


def test_row_without_keys_stays_finite(kernels: RowKernels) -> None:
    query, key, value, lengths = rows(2, 32, torch.float32)
    assert kernels.attend(query, key, value, torch.zeros_like(lengths)).isfinite().all()


def test_keys_of_chosen_rows_are_attended_to_and_written(kernels: RowKernels) -> None:
    query, key, value, lengths = rows(2, 24, torch.float32)
    chosen = torch.tensor([4, 0, 3], device=DEVICE)
    new = query[1:4], query[2:5]
    cached = key.clone(), value.clone()
    parts = key[chosen], value[chosen]
    expected = PLAIN.attend(query[:3], *parts, lengths[chosen], new)
    found = kernels.attend(query[:3], *cached, lengths[chosen], new, chosen)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for whole, old, part in zip(cached, (key, value), parts, strict=True):
        assert torch.equal(whole[chosen], part)
        others = [row for row in range(len(LENGTHS)) if row not in (4, 0, 3)]
        assert torch.equal(whole[others], old[others])


@pytest.mark.parametrize("head_dim", [24, 32])
def test_new_keys_are_attended_to_and_written(kernels: RowKernels, head_dim: int) -> None:
    """The new keys, values and queries are views of one product, as in a decode step."""
    query, key, value, lengths = rows(2, head_dim, torch.float32)
    expected = PLAIN.attend(query, key, value, lengths)
    index = torch.arange(len(LENGTHS), device=DEVICE)
    whole = key.clone(), value.clone()
    last = [values[index, :, lengths - 1][:, :, None] for values in whole]
    product = torch.cat([query, *last], dim=1).transpose(1, 2).contiguous()  # (B, 1, 3 H, K)
    fused = [part.transpose(1, 2) for part in product.chunk(3, dim=2)]
    for values in (key, value):
        values[index, :, lengths - 1] = torch.nan
    found = kernels.attend(fused[0], key, value, lengths, (fused[1], fused[2]))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(key, whole[0])
    assert torch.equal(value, whole[1])


PACKED = [1, 15, 70, 64, 2, 130]
"""Lengths of packed texts."""


def packed_heads(head_dim: int, dtype: torch.dtype) -> tuple[Heads, Tensor]:
    """Returns queries, keys and values that are views of one product, and the texts."""
    lengths = torch.tensor(PACKED)
    generator = torch.Generator().manual_seed(head_dim)
    product = torch.randn(1, sum(PACKED), 6, head_dim, generator=generator).to(DEVICE, dtype)
    query, key, value = (part.transpose(1, 2) for part in product.chunk(3, dim=2))
    return (query, key, value), torch.stack([lengths.cumsum(0) - lengths, lengths, lengths]).to(
        DEVICE
    )


def distance_table(kind: str) -> Tensor | None:
    distances = torch.arange(1 - 136, 136, device=DEVICE)
    if kind == "none":
        return None
    if kind == "window":
        return mask_bias(distances.abs() <= 20, torch.float32)[None]
    if kind == "causal":
        return mask_bias(distances <= 0, torch.float32)[None]
    return -distances.abs() * torch.tensor([[0.5], [0.01]], device=DEVICE)


@pytest.mark.parametrize(
    ("kind", "head_dim", "dtype"),
    [
        *((kind, 24, torch.float32) for kind in ("none", "window", "causal", "heads")),
        ("none", 8, torch.float32),
        ("window", 48, torch.float32),
        ("heads", 32, torch.float16),
    ],
    ids=str,
)
def test_packed_texts_have_the_attention_of_each_text(
    triton: RowKernels, kind: str, head_dim: int, dtype: torch.dtype
) -> None:
    """Beside the keys of each text, none are read; those of the last text are not all visible."""
    heads, texts = packed_heads(head_dim, dtype)
    texts[2, -1] = 100
    table = distance_table(kind)
    found = triton.attend_texts(heads, texts, 136, None if table is None else table.to(dtype))
    assert found is not None
    assert found.dtype is dtype
    tolerance = 1e-5 if dtype is torch.float32 else 0.01
    for start, length, keys in texts.T.tolist():
        query, key, value = (each[:, :, start : start + length].float() for each in heads)
        bias = None if table is None else bias_rows(table, 0, length, length)[..., :keys]
        expected = attention(query, key[:, :, :keys], value[:, :, :keys], bias)
        part = found[:, :, start : start + length].float()
        if kind == "window":  # no key is visible to the last tokens of the last text
            expected = expected.nan_to_num()
        torch.testing.assert_close(part, expected, rtol=tolerance, atol=tolerance)


def test_bits_of_a_packed_text_do_not_depend_on_other_texts(triton: RowKernels) -> None:
    heads, texts = packed_heads(32, torch.float32)
    table = distance_table("window")
    together = triton.attend_texts(heads, texts, 136, table)
    assert together is not None
    for start, length, _ in texts.T.tolist():
        own = [each[:, :, start : start + length].clone() for each in heads]
        alone = torch.tensor([[0], [length], [length]], device=DEVICE)
        found = triton.attend_texts((own[0], own[1], own[2]), alone, 136, table)
        assert found is not None
        assert torch.equal(found, together[:, :, start : start + length])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_embeddings_are_those_of_float64(kernels: RowKernels, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(40, 24, generator=generator).to(DEVICE, dtype)
    table = torch.randn(12, 24, generator=generator).to(DEVICE, dtype)[2:]
    tokens = torch.tensor([0, 39, -1, 7], device=DEVICE)[:, None]
    positions = torch.tensor([9, 0, 3, 3], device=DEVICE)[:, None]
    exact = 5.0 * weight.double()[tokens.clamp_min(0)] + table.double()[positions]
    exact[2] = table.double()[3]
    found = kernels.embed(tokens, positions, weight, table, 5.0)
    assert found.dtype is dtype
    tolerance = 1e-6 if dtype is torch.float32 else 0.02
    torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("width", "spec"),
    [
        (16, NormSpec(1e-5)),
        (24, NormSpec(1e-5, has_bias=False)),
        (24, NormSpec(1e-5, has_bias=False, is_rms=True)),
        (512, NormSpec(1e-5)),
    ],
)
def test_sum_and_norm_are_those_of_float64(
    kernels: RowKernels, width: int, spec: NormSpec, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(width)
    x, y = (3 * torch.randn(5, 1, width, generator=generator).to(DEVICE, dtype) for _ in range(2))
    norm: nn.Module = new_norm(width, spec).to(DEVICE, dtype)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.normal_()
        total, normed = kernels.add_norm(x, y, norm)
        exact = deepcopy(norm).double()((x + y).double())
    # In bfloat16, Triton's interpreter rounds towards zero.
    torch.testing.assert_close(total, x + y, rtol=1e-2 if dtype is torch.bfloat16 else 0, atol=0)
    assert normed.dtype is dtype
    tolerance = 1e-5 if dtype is torch.float32 else 0.03
    torch.testing.assert_close(normed.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_cells_and_outputs_are_those_of_float64(kernels: RowKernels, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    forget, update = (torch.randn(5, 1, 24, generator=generator).to(DEVICE, dtype) for _ in "fu")
    cell = torch.randn(6, 24, generator=generator).to(DEVICE, dtype)
    gate = torch.sigmoid(forget[:, 0].double())
    exact = gate * cell[:5].double() + (1 - gate) * update[:, 0].double()
    last = cell[5].clone()
    found = kernels.recur(forget, update, cell[:5])
    tolerance = 1e-6 if dtype is torch.float32 else 0.02
    torch.testing.assert_close(cell[:5].double(), exact, rtol=tolerance, atol=tolerance)
    assert torch.equal(found[:, 0], cell[:5].relu())
    assert torch.equal(cell[5], last)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [1, 40, 16_384, 40_000])
def test_largest_logit_is_chosen(kernels: RowKernels, columns: int, dtype: torch.dtype) -> None:
    """Of equal logits the first is chosen, also if they are in two parts of the vocabulary."""
    generator = torch.Generator().manual_seed(columns)
    logits = torch.randn(7, columns, generator=generator).to(DEVICE, dtype)
    logits[1, [columns // 3, columns - 1]] = 9.0
    logits[2, -1] = 10.0
    logits[3, 0] = 10.0
    logits[4] = float("-inf")
    logits[5, columns // 2 :] = float("-inf")
    chosen, tokens = (torch.full((8,), -5, device=DEVICE) for _ in "ct")
    kernels.choose(logits, chosen[:7], tokens[:7])
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert chosen.tolist() == [*expected, -5]
    assert torch.equal(chosen, tokens)


def test_choice_among_nan_is_an_id_of_the_vocabulary(kernels: RowKernels) -> None:
    logits = torch.full((1, 20_000), torch.nan, device=DEVICE)
    chosen, tokens = (torch.full((1,), -5, device=DEVICE) for _ in "ct")
    kernels.choose(logits, chosen, tokens)
    assert 0 <= int(chosen) < 20_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kernels_compile_for_ampere_and_hopper(tmp_path: Path) -> None:
    """A process without Triton's interpreter compiles them to machine code. This needs no GPU."""
    pytest.importorskip("triton", reason="Triton is only built for x86-64")
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.triton_compile"]
    run = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    sizes = [int(line.rpartition(" ")[2]) for line in run.stdout.splitlines()]
    assert len(sizes) == 2 * 9 * 3
    assert min(sizes) > 1000


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_each_kernel_is_launched_before_the_first_step(
    kernels: RowKernels, dtype: torch.dtype
) -> None:
    launch_all(kernels, torch.device(DEVICE), dtype)


def test_cpu_computes_by_pytorch() -> None:
    assert row_kernels(torch.device("cpu"), refuse) is PLAIN


@pytest.fixture
def capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))


def refuse(_kernels: RowKernels) -> None:
    raise OSError("no C compiler")


def test_gpus_before_ampere_compute_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    assert row_kernels(torch.device("cuda"), refuse) is PLAIN


@pytest.mark.usefixtures("capability", "triton")
def test_kernels_that_do_not_compile_give_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert row_kernels(torch.device("cuda"), refuse) is PLAIN
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no C compiler" in caplog.text


@pytest.mark.usefixtures("capability", "triton")
def test_too_little_memory_for_kernels_ends_the_load() -> None:
    def fill(_kernels: RowKernels) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        row_kernels(torch.device("cuda"), fill)


@pytest.mark.skipif(DEVICE == "cuda", reason="tests/parity/test_cuda.py translates by the kernels")
@pytest.mark.parametrize("family", FAMILIES[::2], ids=str, indirect=True)
def test_translations_by_the_kernel_are_those_of_the_plain_runner(
    triton: RowKernels, family: Family
) -> None:
    limits = EngineLimits(max_rows=8, max_source_tokens=41, max_batch_tokens=256)
    model = family.model(max_length_factor=1.5, encoder_layers=1, decoder_layers=1)
    options = [DecodingOptions(), DecodingOptions(2, 2)]
    sequences = [Sequence(i, [9, 0], options[i]) for i in range(2)]
    runner = CudaRunner(model, limits)
    runner.kernels = triton
    found = translate(Engine(runner, limits), sequences)
    plain = translate(Engine(TorchRunner(model, limits), limits), sequences)
    for number, hypotheses in plain.items():
        assert_same_hypotheses(found[number], hypotheses)
