from pathlib import Path

import pytest
import torch

from model.errors import DeviceError
from model.precision import Precision, fastest_float, select_device, select_precision

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


@pytest.mark.parametrize(("is_there", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_cuda_where_it_is(
    monkeypatch: pytest.MonkeyPatch, is_there: bool, chosen: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(is_there))
    try:
        assert select_device("auto").type == select_device(chosen).type == chosen
        kept = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
        assert kept is not is_there
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.mark.parametrize(
    ("names", "reason"),
    [(("", "gpu", "cuda:x", "cuda:-1", "0"), "unknown"), (("meta", "mps", "xpu"), "not supported")],
)
def test_other_devices_are_refused_with_the_names_that_work(
    names: tuple[str, ...], reason: str
) -> None:
    for name in names:
        with pytest.raises(DeviceError, match=f"'{name}' is {reason}; use auto, cpu, cuda or cuda"):
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


@pytest.mark.parametrize(
    ("names", "device", "precision", "dtype"),
    [
        (("float32", "fp32"), CPU, Precision.FLOAT32, torch.float32),
        (("bfloat16", "bf16"), CPU, Precision.BFLOAT16, torch.bfloat16),
        (("float16", "fp16"), CUDA, Precision.FLOAT16, torch.float16),
        (("int8",), CPU, Precision.INT8, torch.float32),
    ],
)
def test_a_precision_is_taken_by_either_name(
    names: tuple[str, ...], device: torch.device, precision: Precision, dtype: torch.dtype
) -> None:
    assert {select_precision(name, device) for name in names} == {precision}
    assert precision.dtype is dtype


@pytest.mark.parametrize(
    ("name", "device", "reason"),
    [
        ("float8", CPU, "'float8' is unknown; use auto, float32"),
        ("", CPU, "'' is unknown; use auto, float32"),
        ("float16", CPU, "float16 is for a GPU; on cpu use bfloat16"),
        ("int8", CUDA, "int8 is for a CPU; on cuda use bfloat16"),
    ],
)
def test_a_precision_of_no_use_is_refused(name: str, device: torch.device, reason: str) -> None:
    with pytest.raises(DeviceError, match=f"dtype {reason}"):
        select_precision(name, device)


@pytest.mark.parametrize(
    ("capability", "precision"),
    [
        ((6, 1), Precision.FLOAT32),
        ((7, 0), Precision.FLOAT16),
        ((7, 5), Precision.FLOAT16),
        ((8, 0), Precision.BFLOAT16),
        ((8, 6), Precision.BFLOAT16),
        ((9, 0), Precision.BFLOAT16),
    ],
)
def test_auto_takes_the_matrix_units_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], precision: Precision
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert select_precision("auto", CUDA) is precision


@pytest.mark.parametrize(
    ("flags", "precision"),
    [
        ("fpu amx_bf16 amx_tile", Precision.BFLOAT16),
        ("fpu avx512_bf16", Precision.FLOAT32),
        (None, Precision.FLOAT32),
    ],
)
def test_auto_takes_bfloat16_on_a_cpu_with_amx_alone(
    monkeypatch: pytest.MonkeyPatch, flags: str | None, precision: Precision
) -> None:
    def read(*_: object, **__: object) -> str:
        if flags is None:
            raise OSError("no /proc here")
        return f"flags : {flags}\n"

    monkeypatch.setattr(Path, "read_text", read)
    assert fastest_float(CPU) is precision
