import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from model.checkpoints.formats.tensors import merge_copies, read_tensors
from model.errors import CheckpointFormatError, CheckpointNotFoundError

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


@pytest.mark.parametrize("name", [SAFE, PICKLE])
@pytest.mark.parametrize("keep", [0, 3, 40, -5])
def test_file_cut_short_is_refused(tmp_path: Path, name: str, keep: int) -> None:
    path = write(tmp_path, name, TENSORS)
    path.write_bytes(path.read_bytes()[:keep])
    message = f"^{re.escape(str(path))} is cut short or damaged, or cannot be read: ."
    with pytest.raises(CheckpointFormatError, match=message):
        read_tensors(path)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("is_plain", [True, False])
def test_code_in_a_pickle_is_never_run(tmp_path: Path, is_plain: bool) -> None:
    path, left = tmp_path / PICKLE, tmp_path / "left"
    content = {**TENSORS, "c": Trap(left)}
    if is_plain:
        path.write_bytes(pickle.dumps(content, protocol=2))
    else:
        torch.save(content, path)
    with pytest.raises(
        CheckpointFormatError, match=f"/{PICKLE} holds more than tensors, and nothing .* was run"
    ):
        read_tensors(path)
    assert not left.exists()
    torch.load(path, weights_only=False) if not is_plain else pickle.loads(path.read_bytes())
    assert left.exists()  # the trap does work


@pytest.mark.parametrize("content", [[1, 2], {"a": 3}, {1: torch.zeros(2)}, torch.zeros(2)])
def test_pickle_of_something_else_is_refused(tmp_path: Path, content: Any) -> None:
    path = tmp_path / PICKLE
    torch.save(content, path)
    with pytest.raises(CheckpointFormatError, match="something other than named tensors"):
        read_tensors(path)


def test_sparse_tensor_is_refused(tmp_path: Path) -> None:
    path = tmp_path / PICKLE
    torch.save({"a": torch.eye(2).to_sparse()}, path)
    with pytest.raises(CheckpointFormatError, match="a is not a plain array"):
        read_tensors(path)


def test_index_of_files_that_are_not_there_is_refused(tmp_path: Path) -> None:
    index = write_index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    with pytest.raises(CheckpointNotFoundError, match=r"one\.safetensors, two\.safetensors"):
        read_tensors(index)


@pytest.mark.parametrize("weight_map", [{}, {"a": "../model.safetensors"}, ["a"], {"a": 3}, None])
def test_index_of_no_use_is_refused(tmp_path: Path, weight_map: Any) -> None:
    with pytest.raises(CheckpointFormatError, match=r"/model\.safetensors\.index\.json "):
        read_tensors(write_index(tmp_path, weight_map))


def test_index_that_is_not_json_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointFormatError, match=r"index\.json is not JSON"):
        read_tensors(index)


def test_shard_without_a_tensor_of_the_index_is_refused(tmp_path: Path) -> None:
    write(tmp_path, SAFE, {"a": TENSORS["a"]})
    with pytest.raises(CheckpointFormatError, match="for 1 tensors, such as b"):
        read_tensors(write_index(tmp_path, dict.fromkeys(TENSORS, SAFE)))


def test_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    write(tmp_path, SAFE, TENSORS)
    write(tmp_path, "z.safetensors", TENSORS)
    with pytest.raises(
        CheckpointFormatError, match=r"z\.safetensors and model\.safetensors both have a"
    ):
        read_tensors(write_index(tmp_path, {"a": SAFE, "b": "z.safetensors"}))


def test_copies_become_one() -> None:
    a = np.ones((2, 2), np.float32)
    merged = merge_copies({"y": a, "z": a.copy()}, {"x": ("y", "z")}, Path("file"))
    assert list(merged) == ["x"]


def test_copies_that_differ_are_refused() -> None:
    a = np.ones((2, 2), np.float32)
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


def test_tensor_without_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / PICKLE
    torch.save({"a": torch.zeros(2, device="meta")}, path)
    with pytest.raises(CheckpointFormatError, match="a is not a plain array"):
        read_tensors(path)


def test_view_of_a_few_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"w": torch.zeros(1).expand(1_000, 1_000)}, path)
    with pytest.raises(CheckpointFormatError, match="w is not a plain array"):
        read_tensors(path)
