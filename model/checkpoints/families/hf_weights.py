"""Names the tensors of Hugging Face's translation models, and fills a model with them."""

import re
from pathlib import Path

import torch

from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.formats.tensors import merge_copies, read_tensors
from model.checkpoints.names import expand, fill
from model.config import ModelConfig, NormPosition

# Matches position tables in files of old versions. The model computes these tables itself.
IGNORED = re.compile(r"\.embed_positions\.weights?$")

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


def load_weights(weights: Path, config: ModelConfig) -> EncoderDecoder:
    """Returns a float32 model on the CPU, filled from one file or from the index of shards."""
    with torch.device("meta"):  # the parameters take no memory; the file's tensors replace them
        model = EncoderDecoder(config)
    # Maps the main name of each matrix to the other names that a file may have for it.
    copies = {SHARED: (SOURCE, TARGET, OUTPUT)} if config.shared_embeddings else {TARGET: (OUTPUT,)}
    arrays = merge_copies(read_tensors(weights), copies, weights)
    fill(model, arrays, name_pairs(config), IGNORED, str(weights))
    return model.eval()


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
    if config.norm is NormPosition.PRE:
        for side in ("encoder", "decoder"):
            for kind in ("weight", "bias"):
                names[f"{side}.norm.{kind}"] = f"model.{side}.layer_norm.{kind}"
    return names
