"""Names the tensors of Hugging Face's translation models, and fills a model with them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.formats.tensors import merge_copies, read_tensors
from model.checkpoints.names import expand, fill
from model.config import ModelConfig, NormPosition

# Matches position tables in files of old versions. The model computes these tables itself. The
# cross-attention of old versions of T5 also has a table, which is not used.
IGNORED = re.compile(r"\.embed_positions\.weights?$|\.EncDecAttention\.relative_attention_bias\.")

SHARED = "model.shared.weight"
SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}

# Keys are our names of modules; values are the names in the file. Each module has a `weight` and a
# `bias`.
FEED_FORWARD = {
    "feed_forward.fc1": "fc1",
    "feed_forward.fc2": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
ENCODER = {
    **{f"mixer.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "mixer_residual.norm": "self_attn_layer_norm",
    **FEED_FORWARD,
}
DECODER = {
    **{f"mixer.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "mixer_residual.norm": "self_attn_layer_norm",
    **{f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "cross_residual.norm": "encoder_attn_layer_norm",
    **FEED_FORWARD,
}


# T5's tables. Each module has only a `weight`.
T5_SHARED = "shared.weight"
T5_COPIES = {T5_SHARED: ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")}
T5_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
T5_PARTS = {
    "SelfAttention": ("mixer", "mixer_residual", T5_ATTENTION),
    "EncDecAttention": ("cross_attention", "cross_residual", T5_ATTENTION),
    "DenseReluDense": ("feed_forward", "feed_forward_residual", {"fc1": "wi", "fc2": "wo"}),
}
T5_GATED = {"fc1": "wi_0", "gate": "wi_1", "fc2": "wo"}


def load_weights(weights: Path, config: ModelConfig) -> EncoderDecoder:
    """Returns a float32 model on the CPU, filled from one file or from the index of shards."""
    # Maps the main name of each matrix to the other names that a file may have for it.
    copies = {SHARED: (SOURCE, TARGET, OUTPUT)} if config.shared_embeddings else {TARGET: (OUTPUT,)}
    is_t5 = config.block is not None
    arrays = merge_copies(read_tensors(weights), T5_COPIES if is_t5 else copies, weights)
    if is_t5:  # a file may have the shared matrix in place of that of the output layer
        if np.array_equal(arrays.get(OUTPUT, []), arrays.get(T5_SHARED, [])):
            arrays.pop(OUTPUT, None)
        config = replace(config, tied_output=OUTPUT not in arrays)
    with torch.device("meta"):  # the parameters take no memory; the file's tensors replace them
        model = EncoderDecoder(config)
    fill(model, arrays, (t5_pairs if is_t5 else name_pairs)(config), IGNORED, str(weights))
    model.share_embeddings()
    if config.scales_output:
        norm = model.decoder.norm
        norm.weight = nn.Parameter(norm.weight * config.d_model**-0.5, requires_grad=False)
    return model.eval()


def t5_pairs(config: ModelConfig) -> list[tuple[str, str]]:
    return [
        ("encoder.embedding.weight", T5_SHARED),
        *([] if config.tied_output else [("decoder.untied_weight", OUTPUT)]),
        *expand(_t5_names("encoder", config), config.encoder_layers),
        *expand(_t5_names("decoder", config), config.decoder_layers),
    ]


def _t5_names(side: str, config: ModelConfig) -> dict[str, str]:
    first = f"{side}.block.0.layer.0.SelfAttention"
    names = {
        f"{side}.norm.weight": f"{side}.final_layer_norm.weight",
        f"{side}.relative_bias.weight": f"{first}.relative_attention_bias.weight",
    }
    parts = [part for part in T5_PARTS if side == "decoder" or part != "EncDecAttention"]
    for number, part in enumerate(parts):
        module, residual, table = T5_PARTS[part]
        if part == "DenseReluDense" and config.encoder_block.has_gate:
            table = T5_GATED
        layers, layer = f"{side}.layers.{{i}}", f"{side}.block.{{i}}.layer.{number}"
        names[f"{layers}.{residual}.norm.weight"] = f"{layer}.layer_norm.weight"
        for ours, theirs in table.items():
            names[f"{layers}.{module}.{ours}.weight"] = f"{layer}.{part}.{theirs}.weight"
    return names


def name_pairs(config: ModelConfig) -> list[tuple[str, str]]:
    return [
        *expand(_layer_names("encoder", ENCODER), config.encoder_layers),
        *expand(_layer_names("decoder", DECODER), config.decoder_layers),
        *_outer_names(config).items(),
    ]


def _layer_names(side: str, parts: dict[str, str]) -> dict[str, str]:
    return {
        f"{side}.layers.{{i}}.{ours}.{kind}": f"model.{side}.layers.{{i}}.{theirs}.{kind}"
        for ours, theirs in parts.items()
        for kind in ("weight", "bias")
    }


def _outer_names(config: ModelConfig) -> dict[str, str]:
    shared = config.shared_embeddings
    names = {"encoder.embedding.weight": SHARED if shared else SOURCE}
    if not shared:
        names["decoder.embedding.weight"] = TARGET
    if config.has_output_bias:
        names["decoder.output_bias"] = "final_logits_bias"
    norms = {"norm": "layer_norm"} if config.norm is NormPosition.PRE else {}
    if config.norms_embedding:
        norms["embedding.norm"] = "layernorm_embedding"
    for side in ("encoder", "decoder"):
        if config.max_positions:
            names[f"{side}.embedding.positions"] = f"model.{side}.embed_positions.weight"
        for ours, theirs in norms.items():
            for kind in ("weight", "bias"):
                names[f"{side}.{ours}.{kind}"] = f"model.{side}.{theirs}.{kind}"
    return names
