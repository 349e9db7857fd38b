import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from model.checkpoints.formats.tensors import merge_copies, read_tensors
from model.checkpoints.weights import Source, fill, sources_of
from model.errors import CheckpointFormatError, CheckpointNotFoundError, WeightMismatchError

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([0.5, -2.0])}
SAFE, PICKLE = "model.safetensors", "pytorch_model.bin"


def write(folder: Path, name: str, tensors: dict[str, torch.Tensor]) -> Path:
    path = folder / name
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)
    return path


def write_index(folder: Path, weight_map: Any) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", [SAFE, PICKLE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_tensors_of_any_float_come_as_float32(
    tmp_path: Path, name: str, dtype: torch.dtype
) -> None:
    path = write(tmp_path, name, {key: value.to(dtype) for key, value in TENSORS.items()})
    arrays = read_tensors(path)
    assert set(arrays) == set(TENSORS)
    for key, value in TENSORS.items():
        assert arrays[key].dtype == np.float32
        np.testing.assert_array_equal(arrays[key], value.numpy())


def test_pickle_of_old_pytorch_is_read(tmp_path: Path) -> None:
    path = tmp_path / PICKLE
    torch.save(TENSORS, path, _use_new_zipfile_serialization=False)
    np.testing.assert_array_equal(read_tensors(path)["a"], TENSORS["a"].numpy())


def test_shards_are_read_together(tmp_path: Path) -> None:
    names = {key: f"model-{key}.safetensors" for key in TENSORS}
    for key, name in names.items():
        write(tmp_path, name, {key: TENSORS[key]})
    arrays = read_tensors(write_index(tmp_path, names))
    np.testing.assert_array_equal(arrays["b"], TENSORS["b"].numpy())
    assert set(arrays) == {"a", "b"}


@pytest.mark.parametrize("content", [[1, 2], {"a": 3}, {1: torch.zeros(2)}, torch.zeros(2)])
def test_pickle_of_something_else_is_refused(tmp_path: Path, content: Any) -> None:
    path = tmp_path / PICKLE
    torch.save(content, path)
    with pytest.raises(CheckpointFormatError, match="something other than named tensors"):
        read_tensors(path)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.eye(2).to_sparse(),
        torch.zeros(2, device="meta"),
        torch.zeros(1).expand(1_000, 1_000),  # a view of a few bytes
    ],
    ids=["sparse", "meta", "view"],
)
def test_tensor_that_is_no_plain_array_is_refused(tmp_path: Path, tensor: torch.Tensor) -> None:
    path = tmp_path / PICKLE
    torch.save({"a": tensor}, path)
    with pytest.raises(CheckpointFormatError, match="a is not a plain array"):
        read_tensors(path)


def test_index_of_files_that_are_not_there_is_refused(tmp_path: Path) -> None:
    index = write_index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    with pytest.raises(CheckpointNotFoundError, match=r"one\.safetensors, two\.safetensors"):
        read_tensors(index)


@pytest.mark.parametrize("weight_map", [{}, {"a": "../model.safetensors"}, ["a"], {"a": 3}, None])
def test_index_of_no_use_is_refused(tmp_path: Path, weight_map: Any) -> None:
    index = write_index(tmp_path, weight_map)
    with pytest.raises(CheckpointFormatError, match=r"/model\.safetensors\.index\.json "):
        read_tensors(index)
    index.write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointFormatError, match=r"index\.json is not JSON"):
        read_tensors(index)


def test_shards_that_the_index_does_not_fit_are_refused(tmp_path: Path) -> None:
    write(tmp_path, SAFE, {"a": TENSORS["a"]})
    with pytest.raises(CheckpointFormatError, match="for 1 tensors, such as b"):
        read_tensors(write_index(tmp_path, dict.fromkeys(TENSORS, SAFE)))
    write(tmp_path, "z.safetensors", TENSORS)
    with pytest.raises(CheckpointFormatError, match=r"z\.safetensors and model\.saf.* both have a"):
        read_tensors(write_index(tmp_path, {"a": SAFE, "b": "z.safetensors"}))


def test_copies_become_one_unless_they_differ() -> None:
    a = np.ones((2, 2), np.float32)
    merged = merge_copies({"y": a, "z": a.copy()}, {"x": ("y", "z")}, Path("file"))
    assert list(merged) == ["x"]
    with pytest.raises(CheckpointFormatError, match="file: y and x differ"):
        merge_copies({"x": a, "y": a + 1}, {"x": ("y",)}, Path("file"))


BROKEN = [b"", b"\0" * 99, b"PK\3\4" + b"a" * 99, b"\x80\2hello", b"<html>"]


@pytest.mark.parametrize("content", BROKEN)
def test_broken_pickle_is_not_told_to_be_run(tmp_path: Path, content: bytes) -> None:
    """PyTorch's own message says how to run the code in a file."""
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    with pytest.raises(CheckpointFormatError, match="is cut short or damaged") as caught:
        read_tensors(path)
    assert "weights_only" not in str(caught.value)


def test_shard_that_is_a_pointer_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text('{"weight_map": {"x": "a.bin"}}', encoding="utf-8")
    with pytest.raises(CheckpointFormatError, match=r"a\.bin: pointers of Git LFS"):
        read_tensors(index)


NAMES = {"weight": "file_W", "bias": "file_b"}
NOTHING = re.compile(r"$^")


def arrays() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return {
        "file_W": np.arange(6, dtype=np.float32).reshape(2, 3),
        "file_b": np.array([[7, 8]], dtype=np.float32),  # Marian's vectors are of two dimensions
    }


def test_a_table_counts_layers_from_0_here_and_from_1_in_the_file() -> None:
    module = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(1, 1), nn.LayerNorm(1)])})
    names = {"layers.{i}": "layer_{i}[1/2]", "layers.{i}.bias": "l{n}_b", "norm.weight": "ln"}
    assert sources_of(module, names) == {
        "layers.0.weight": Source("layer_0.weight", 1, 2),
        "layers.0.bias": Source("l1_b"),
        "layers.1.weight": Source("layer_1.weight", 1, 2),
        "layers.1.bias": Source("l2_b"),
    }


def test_a_model_on_the_meta_device_is_filled_without_copying() -> None:
    with torch.device("meta"):
        layer = nn.Linear(3, 2)
    tensors = arrays()
    fill(layer, tensors, NAMES, NOTHING)
    assert layer(torch.ones(1, 3)).tolist() == [[10, 20]]
    assert layer.weight.data_ptr() == tensors["file_W"].ctypes.data


def test_everything_that_does_not_pair_up_is_named_at_once() -> None:
    tensors = arrays() | {"odd": np.ones(3, np.float32), "even": np.ones(3, np.float32)}
    tensors["file_W"] = np.ones((3, 2), np.float32)
    del tensors["file_b"]
    with pytest.raises(WeightMismatchError) as caught:
        fill(nn.Linear(3, 2), tensors, NAMES, NOTHING)
    assert str(caught.value) == (
        "missing: file_b; unexpected: odd, even; shapes differ: file_W (3, 2) for weight (2, 3)"
    )
