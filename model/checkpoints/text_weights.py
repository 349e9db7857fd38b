"""Names the tensors of BERT, RoBERTa, XLM-RoBERTa, CamemBERT and MPNet, and fills an encoder."""

import re

import torch

from model.architectures.text_encoder import TextEncoder
from model.checkpoints.families.text_encoders import Family
from model.checkpoints.formats.tensors import Arrays
from model.checkpoints.names import Name, fill
from model.embedding_config import TextEncoderConfig

# Tensors that are not used. position_ids and token_type_ids are constants. The pooler is a layer on
# the first token's vector, and sentence vectors do not need this layer. The heads cls and lm_head
# fill in words. Tensors of other heads are an error, because the encoder of a classifier gives
# no useful embeddings.
IGNORED = re.compile(
    r"(^|\.)embeddings\.(position_ids|token_type_ids)$|^pooler\.|^cls\.|^lm_head\."
)
# Maps the names of a layer norm's two vectors in BERT's oldest files to their names in newer files.
OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

FEED_FORWARD = {
    "feed_forward.fc1": "intermediate.dense",
    "feed_forward.fc2": "output.dense",
    "feed_forward_residual.norm": "output.LayerNorm",
}


def name_table(family: Family, config: TextEncoderConfig) -> list[Name]:
    """Returns the name table of a family: which tensor of the file fills which parameter.

    The tensor names in the table do not have the prefix that files with a task head add.
    """
    names = [
        Name("embedding.tokens", "embeddings.word_embeddings.weight"),
        Name("embedding.positions", "embeddings.position_embeddings.weight"),
    ]
    if config.token_types:
        names.append(Name("embedding.types", "embeddings.token_type_embeddings.weight"))
    if config.relative_buckets:
        names.append(Name("relative_bias.weight", "encoder.relative_attention_bias.weight"))
    modules = {"embedding.norm": "embeddings.LayerNorm"}
    for ours, theirs in {**family.attention, **FEED_FORWARD}.items():
        modules[f"layers.{{i}}.{ours}"] = f"encoder.layer.{{i}}.{theirs}"
    return names + [
        Name(f"{ours}.{kind}", f"{theirs}.{kind}")
        for ours, theirs in modules.items()
        for kind in ("weight", "bias")
    ]


def name_pairs(family: Family, config: TextEncoderConfig) -> list[tuple[str, str]]:
    """Returns (name of the parameter, name of its tensor) for every parameter of the encoder."""
    table = name_table(family, config)
    return [pair for name in table for pair in name.expand(config.layers, first=0)]


def load_weights(
    arrays: Arrays, family: Family, config: TextEncoderConfig, name: str
) -> TextEncoder:
    """Returns the filled encoder, in float32 on the CPU.

    Args:
        arrays: The tensors of the checkpoint.
        family: The family that the tensor names follow.
        config: The config from `text_encoders.read_config`.
        name: The file, for messages.

    Raises:
        WeightMismatchError: A tensor is missing, belongs to no parameter or has the wrong shape.
    """
    with torch.device("meta"):
        encoder = TextEncoder(config)
    fill(encoder, normal_names(arrays, family.prefix), name_pairs(family, config), IGNORED, name)
    return encoder.eval()


def normal_names(arrays: Arrays, prefix: str) -> Arrays:
    """Returns the tensors under the names in `name_table`.

    The prefix of files with a task head is removed, and old names of norms are replaced.
    """
    normal = {}
    for tensor, array in arrays.items():
        short = tensor.removeprefix(prefix)
        for old, new in OLD_NORMS.items():
            short = short.removesuffix(old) + new if short.endswith(old) else short
        normal[short] = array
    return normal
