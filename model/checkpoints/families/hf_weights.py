"""Names the tensors of Hugging Face's translation models, and fills a model with them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.formats.tensors import merge_copies, read_tensors
from model.checkpoints.names import fill, pairs_of
from model.config import ModelConfig

# Matches position tables in files of old versions. The model computes these tables itself. The
# cross-attention of old versions of T5 also has a table, which is not used.
IGNORED = re.compile(r"\.embed_positions\.weights?$|\.EncDecAttention\.relative_attention_bias\.")

SHARED = "model.shared.weight"
SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
SIDES = ("encoder", "decoder")
LAYER = {
    **{f"mixer.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "mixer_residual.norm": "self_attn_layer_norm",
    **{f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.fc1": "fc1",
    "feed_forward.fc2": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
SIDE = {
    **{f"layers.{{i}}.{ours}": f"layers.{{i}}.{theirs}" for ours, theirs in LAYER.items()},
    "norm": "layer_norm",
    "embedding.norm": "layernorm_embedding",
    "embedding.positions": "embed_positions.weight",
}
NAMES = {
    **{f"{side}.{ours}": f"model.{side}.{SIDE[ours]}" for side in SIDES for ours in SIDE},
    "decoder.embedding.weight": TARGET,
    "decoder.output_bias": "final_logits_bias",
}

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
    """Returns a float32 model on the CPU."""
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
    source = SHARED if config.shared_embeddings else SOURCE
    names = t5_names(config) if is_t5 else {**NAMES, "encoder.embedding.weight": source}
    fill(model, arrays, pairs_of(model, names), IGNORED, str(weights))
    model.share_embeddings()
    if config.scales_output:
        norm = model.decoder.norm
        norm.weight = nn.Parameter(norm.weight * config.d_model**-0.5, requires_grad=False)
    return model.eval()


def t5_names(config: ModelConfig) -> dict[str, str]:
    names = {"encoder.embedding.weight": T5_SHARED, "decoder.untied_weight": OUTPUT}
    for side in SIDES:
        first = f"{side}.block.0.layer.0.SelfAttention"
        names[f"{side}.norm"] = f"{side}.final_layer_norm"
        names[f"{side}.relative_bias"] = f"{first}.relative_attention_bias"
        parts = [part for part in T5_PARTS if side == "decoder" or part != "EncDecAttention"]
        for number, part in enumerate(parts):
            module, residual, table = T5_PARTS[part]
            if part == "DenseReluDense" and config.encoder_block.has_gate:
                table = T5_GATED
            layers, layer = f"{side}.layers.{{i}}", f"{side}.block.{{i}}.layer.{number}"
            names[f"{layers}.{residual}.norm"] = f"{layer}.layer_norm"
            for ours, theirs in table.items():
                names[f"{layers}.{module}.{ours}"] = f"{layer}.{part}.{theirs}"
    return names
