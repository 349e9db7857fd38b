import re

import numpy as np
import pytest
import torch
from torch import nn

from model.checkpoints.names import Name, fill
from model.errors import WeightMismatchError

PAIRS = [("weight", "file_W"), ("bias", "file_b")]
NOTHING = re.compile(r"$^")


def arrays() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return {
        "file_W": np.arange(6, dtype=np.float32).reshape(2, 3),
        "file_b": np.array([[7, 8]], dtype=np.float32),  # Marian's vectors are of two dimensions
    }


def test_a_row_counts_layers_from_0_here_and_from_1_in_the_file() -> None:
    row = Name("decoder.layers.{i}.norm", "decoder_l{i}_ln")
    assert row.expand(2) == [
        ("decoder.layers.0.norm", "decoder_l1_ln"),
        ("decoder.layers.1.norm", "decoder_l2_ln"),
    ]


def test_a_row_without_layers_is_there_once() -> None:
    assert Name("embedding", "Wemb").expand(6) == [("embedding", "Wemb")]


def test_every_parameter_is_filled() -> None:
    layer = nn.Linear(3, 2)
    fill(layer, arrays(), PAIRS, NOTHING)
    assert layer.weight.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert layer.bias.tolist() == [7, 8]


def test_a_model_on_the_meta_device_is_filled_without_copying() -> None:
    with torch.device("meta"):
        layer = nn.Linear(3, 2)
    tensors = arrays()
    fill(layer, tensors, PAIRS, NOTHING)
    assert layer(torch.ones(1, 3)).tolist() == [[10, 20]]
    assert layer.weight.data_ptr() == tensors["file_W"].ctypes.data


def test_ignored_tensors_are_not_in_the_way() -> None:
    fill(
        nn.Linear(3, 2),
        arrays() | {"W_QuantMultA": np.ones((1, 1), np.float32)},
        PAIRS,
        re.compile(r"_QuantMultA$"),
    )


def test_everything_that_does_not_pair_up_is_named_at_once() -> None:
    tensors = arrays() | {"odd": np.ones(3, np.float32), "even": np.ones(3, np.float32)}
    tensors["file_W"] = np.ones((3, 2), np.float32)
    del tensors["file_b"]
    with pytest.raises(WeightMismatchError) as caught:
        fill(nn.Linear(3, 2), tensors, PAIRS, NOTHING)
    assert str(caught.value) == (
        "missing: file_b; unexpected: odd, even; shapes differ: file_W (3, 2) for weight (2, 3)"
    )


def test_a_parameter_that_no_row_names_is_missing() -> None:
    tensors = arrays()
    del tensors["file_b"]
    with pytest.raises(WeightMismatchError, match="^missing: bias$"):
        fill(nn.Linear(3, 2), tensors, PAIRS[:1], NOTHING)


def test_a_row_for_a_parameter_that_the_model_lacks_makes_its_tensor_unexpected() -> None:
    tensors = arrays() | {"file_c": np.ones(2, np.float32)}
    with pytest.raises(WeightMismatchError, match="^unexpected: file_c for scale$"):
        fill(nn.Linear(3, 2), tensors, [*PAIRS, ("scale", "file_c")], NOTHING)


@pytest.mark.parametrize("shape", [(6,), (3, 2), (1, 6), (2, 3, 2)])
def test_a_shape_is_not_bent_to_fit(shape: tuple[int, ...]) -> None:
    tensors = arrays() | {"file_W": np.ones(shape, np.float32)}
    with pytest.raises(WeightMismatchError, match=r"file_W .* for weight \(2, 3\)"):
        fill(nn.Linear(3, 2), tensors, PAIRS, NOTHING)
