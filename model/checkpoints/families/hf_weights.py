"""Names the tensors of Hugging Face's translation models, and fills a model with them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.formats.tensors import Arrays, merge_copies, read_tensors
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


# T5's tables. Each module has only a `weight`.
T5_SHARED = "shared.weight"
T5_COPIES = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
T5_IGNORED = re.compile(r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias")
T5_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
T5_MIXER = {
    **{f"mixer.{ours}": f"0.SelfAttention.{theirs}" for ours, theirs in T5_ATTENTION.items()},
    "mixer_residual.norm": "0.layer_norm",
}
T5_CROSS = {
    **{
        f"cross_attention.{ours}": f"1.EncDecAttention.{theirs}"
        for ours, theirs in T5_ATTENTION.items()
    },
    "cross_residual.norm": "1.layer_norm",
}


def load_weights(weights: Path, config: ModelConfig) -> EncoderDecoder:
    """Returns a float32 model on the CPU, filled from one file or from the index of shards."""
    if config.block is not None:
        return _load_t5(weights, config)
    # Maps the main name of each matrix to the other names that a file may have for it.
    copies = {SHARED: (SOURCE, TARGET, OUTPUT)} if config.shared_embeddings else {TARGET: (OUTPUT,)}
    arrays = merge_copies(read_tensors(weights), copies, weights)
    return _filled(config, arrays, name_pairs(config), IGNORED, weights)


def _filled(
    config: ModelConfig,
    arrays: Arrays,
    pairs: list[tuple[str, str]],
    ignored: re.Pattern[str],
    weights: Path,
) -> EncoderDecoder:
    with torch.device("meta"):  # the parameters take no memory; the file's tensors replace them
        model = EncoderDecoder(config)
    fill(model, arrays, pairs, ignored, str(weights))
    model.share_embeddings()
    return model.eval()


def _load_t5(weights: Path, config: ModelConfig) -> EncoderDecoder:
    """Returns T5, whose output layer is tied if the file has the shared matrix in its place."""
    arrays = merge_copies(read_tensors(weights), {T5_SHARED: T5_COPIES}, weights)
    shared, output = arrays.get(T5_SHARED), arrays.get(OUTPUT)
    if output is None or (shared is not None and np.array_equal(output, shared)):
        arrays.pop(OUTPUT, None)
    config = replace(config, tied_output=OUTPUT not in arrays)
    model = _filled(config, arrays, t5_pairs(config), T5_IGNORED, weights)
    if config.scales_output:
        norm = model.decoder.norm
        norm.weight = nn.Parameter(norm.weight * config.d_model**-0.5, requires_grad=False)
    return model


def t5_pairs(config: ModelConfig) -> list[tuple[str, str]]:
    gated = {"feed_forward.fc1": "wi_0", "feed_forward.gate": "wi_1"}
    first = gated if config.encoder_block.has_gate else {"feed_forward.fc1": "wi"}
    inner = {**first, "feed_forward.fc2": "wo"}
    names = {"encoder.embedding.weight": T5_SHARED}
    if not config.tied_output:
        names["decoder.untied_weight"] = OUTPUT
    pairs = [*names.items()]
    sides = (
        ("encoder", T5_MIXER, config.encoder_layers),
        (
            "decoder",
            {**T5_MIXER, **T5_CROSS},
            config.decoder_layers,
        ),
    )
    for side, table, layers in sides:
        last = 1 if side == "encoder" else 2
        parts = {ours: f"{last}.DenseReluDense.{theirs}" for ours, theirs in inner.items()}
        parts |= {**table, "feed_forward_residual.norm": f"{last}.layer_norm"}
        rows = {
            f"{side}.layers.{{i}}.{ours}.weight": f"{side}.block.{{i}}.layer.{theirs}.weight"
            for ours, theirs in parts.items()
        }
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        outer = {f"{side}.relative_bias.weight": bias}
        outer[f"{side}.norm.weight"] = f"{side}.final_layer_norm.weight"
        pairs += [*expand(rows, layers), *outer.items()]
    return pairs


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
