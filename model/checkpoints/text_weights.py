"""Finds the tensors of a text encoder by the names of its family, and fills the encoder."""

from typing import Any

import numpy as np
import torch

from model.architectures.text_encoder import TextEncoder
from model.checkpoints.families.bert import Family
from model.checkpoints.formats.tensors import Arrays
from model.checkpoints.names import Name, fill
from model.embedding_config import TextEncoderConfig

# Maps the names of a layer norm's two vectors in BERT's oldest files to their names in newer files.
OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def name_pairs(family: Family, encoder: TextEncoder) -> list[tuple[str, str]]:
    """Returns (name of the parameter, name of its tensor) for every parameter of an encoder.

    The tensor names do not have the prefix that files with a task head add.
    """
    rows = [Name(*row) for row in family.names.items()]
    pairs = [pair for row in rows for pair in row.expand(len(encoder.layers), first=0)]
    parameters = dict(encoder.named_parameters())
    return [pair for pair in pairs if pair[0] in parameters]


def load_weights(
    arrays: Arrays, family: Family, config: TextEncoderConfig, name: str
) -> TextEncoder:
    """Returns the filled encoder, in float32 on the CPU.

    Args:
        arrays: The tensors of the checkpoint.
        family: The family that the tensor names follow.
        config: The config of the encoder, from `family.read`.
        name: Name of the file, for error messages.

    Raises:
        WeightMismatchError: A tensor is missing, belongs to no parameter or has the wrong shape.
    """
    with torch.device("meta"):
        encoder = TextEncoder(config)
    fill(encoder, normal_names(arrays, family), name_pairs(family, encoder), family.ignored, name)
    return encoder.eval()


def normal_names(arrays: Arrays, family: Family) -> Arrays:
    """Returns the tensors under the names in the family's name table.

    The prefix of files with a task head is removed, and old names of layer norms are replaced.
    Tensors that consist of several parts are split.
    """
    normal: dict[str, Any] = {}
    for tensor, array in arrays.items():
        short = tensor.removeprefix(family.prefix)
        for old, new in OLD_NORMS.items():
            short = short.removesuffix(old) + new if short.endswith(old) else short
        for whole, parts in family.splits.items():
            if short.endswith(whole) and len(array) % len(parts) == 0:
                start = short.removesuffix(whole)
                names = [start + part for part in parts]
                normal |= dict(zip(names, np.split(np.asarray(array), len(parts)), strict=True))
                break
        else:
            normal[short] = array
    return normal
