from pathlib import Path

import pytest
import torch

from model import precision as precision_module
from model.device import select_device
from model.errors import DeviceError
from model.precision import Precision, has_fast_bfloat16, select_precision

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


@pytest.mark.parametrize(("is_there", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_cuda_where_it_is(
    monkeypatch: pytest.MonkeyPatch, is_there: bool, chosen: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(is_there))
    try:
        assert select_device("auto").type == chosen
        kept = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
        assert kept is not is_there
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)


def test_cpu_is_always_there() -> None:
    assert select_device("cpu") == CPU


@pytest.mark.parametrize("name", ["", "gpu", "cuda:x", "cuda:-1", "0"])
def test_an_unknown_device_is_refused_with_the_names_that_work(name: str) -> None:
    with pytest.raises(DeviceError, match="use auto, cpu, cuda or cuda:N"):
        select_device(name)


@pytest.mark.parametrize("name", ["meta", "mps", "xpu"])
def test_a_device_of_another_kind_is_refused(name: str) -> None:
    with pytest.raises(DeviceError, match=f"'{name}' is not supported"):
        select_device(name)


def test_a_cuda_device_beyond_those_present_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    assert select_device("cuda:1") == torch.device("cuda:1")
    assert current == [torch.device("cuda:1")]
    assert select_device("cuda") == CUDA
    with pytest.raises(DeviceError, match="2 CUDA devices found; use cuda:0 or cuda:1 or cpu"):
        select_device("cuda:2")


def test_kernels_are_chosen_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    try:
        select_device("cuda")
        assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.mark.parametrize(
    ("name", "precision", "dtype"),
    [
        ("float32", Precision.FLOAT32, torch.float32),
        ("fp32", Precision.FLOAT32, torch.float32),
        ("bfloat16", Precision.BFLOAT16, torch.bfloat16),
        ("bf16", Precision.BFLOAT16, torch.bfloat16),
        ("int8", Precision.INT8, torch.float32),
    ],
)
def test_a_precision_is_taken_by_either_name(
    name: str, precision: Precision, dtype: torch.dtype
) -> None:
    assert select_precision(name, CPU) is precision
    assert precision.dtype is dtype


@pytest.mark.parametrize("name", ["float8", "int4", ""])
def test_an_unknown_precision_is_refused(name: str) -> None:
    with pytest.raises(DeviceError, match=f"dtype '{name}' is unknown; use auto, float32"):
        select_precision(name, CPU)


def test_float16_is_refused_on_a_cpu() -> None:
    with pytest.raises(DeviceError, match="float16 is for a GPU; on cpu use bfloat16"):
        select_precision("float16", CPU)


@pytest.mark.parametrize("name", ["float16", "fp16"])
def test_float16_is_taken_on_a_gpu(name: str) -> None:
    assert select_precision(name, CUDA) is Precision.FLOAT16
    assert Precision.FLOAT16.dtype is torch.float16


@pytest.mark.parametrize(
    ("capability", "precision"),
    [
        ((6, 1), Precision.FLOAT32),
        ((7, 0), Precision.FLOAT16),
        ((7, 5), Precision.FLOAT16),
        ((8, 0), Precision.BFLOAT16),
    ],
)
def test_auto_takes_float16_on_gpus_without_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], precision: Precision
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert select_precision("auto", CUDA) is precision


def test_int8_is_refused_on_a_gpu() -> None:
    with pytest.raises(DeviceError, match="int8 is for a CPU; on cuda use bfloat16"):
        select_precision("int8", CUDA)


@pytest.mark.parametrize("where", [CPU, CUDA])
@pytest.mark.parametrize(
    ("is_fast", "precision"), [(True, Precision.BFLOAT16), (False, Precision.FLOAT32)]
)
def test_auto_precision_follows_the_hardware(
    monkeypatch: pytest.MonkeyPatch, where: torch.device, is_fast: bool, precision: Precision
) -> None:
    monkeypatch.setattr(precision_module, "has_fast_bfloat16", lambda _: is_fast)
    monkeypatch.setattr(precision_module, "has_fast_float16", lambda _: False)
    assert select_precision("auto", where) is precision


@pytest.mark.parametrize(
    ("capability", "is_fast"), [((7, 5), False), ((8, 0), True), ((8, 6), True), ((9, 0), True)]
)
def test_bfloat16_is_fast_from_ampere_on(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], is_fast: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert has_fast_bfloat16(CUDA) is is_fast


@pytest.mark.parametrize(
    ("flags", "is_fast"), [("fpu amx_bf16 amx_tile", True), ("fpu avx512_bf16", False)]
)
def test_bfloat16_on_a_cpu_is_fast_with_amx_alone(
    monkeypatch: pytest.MonkeyPatch, flags: str, is_fast: bool
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: f"flags : {flags}\n")
    assert has_fast_bfloat16(CPU) is is_fast


def test_bfloat16_is_not_fast_where_the_processor_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError("no /proc here")

    monkeypatch.setattr(Path, "read_text", refuse)
    assert not has_fast_bfloat16(CPU)
