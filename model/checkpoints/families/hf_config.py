"""Reads configs of Hugging Face's translation models, and names their tensors, without torch.

Source: transformers, models/marian, m2m_100, mbart, t5 and mt5 (configuration and modeling).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.checkpoints.formats.files import (
    read_options,
    read_options_if_there,
    size_reasons,
    unsupported,
)
from model.config import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DecoderKind,
    ModelConfig,
    NormPosition,
    NormSpec,
    Sinusoids,
)
from model.errors import UnsupportedModelError

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"

MULTILINGUAL_TARGET = 32
"""Number of tokens that every target of a multilingual model may have.

A word that is one piece in one language may be many in another, such as Burmese."""

LAYER_NORM_EPS = 1e-5

ACTIVATIONS = {
    "relu": Activation.RELU,
    "swish": Activation.SWISH,
    "silu": Activation.SWISH,
    "gelu": Activation.GELU,
}
T5_ACTIVATIONS = {
    "relu": Activation.RELU,
    "gated-gelu": Activation.GELU_TANH,
    "gated-silu": Activation.SWISH,
}

T5_TYPES = ("t5", "mt5")
MODEL_TYPES = ("marian", "m2m_100", "mbart", *T5_TYPES)

SIZES = {
    "d_model": "d_model",
    "encoder_ffn_dim": "ffn_dim",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "encoder_attention_heads": "num_heads",
}
T5_SIZES = {
    "d_model": "d_model",
    "d_ff": "ffn_dim",
    "num_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "num_heads": "num_heads",
}
IDS = {"eos_token_id": "eos_id", "pad_token_id": "pad_id", "decoder_start_token_id": "start_id"}

T5_DEFAULTS = {
    "feed_forward_proj": "relu",
    "layer_norm_epsilon": 1e-6,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
}

Supported = dict[str, tuple[Any, ...]]
"""Options that change the computation, with the implemented values, the default first."""

ALWAYS: Supported = {"is_encoder_decoder": (True,), "quantization_config": (None,)}
USUALLY: Supported = ALWAYS | {
    "normalize_embedding": (False,),
    "add_bias_logits": (False,),
    "static_position_embeddings": (True,),
    "tie_word_embeddings": (True,),
    "activation_function": tuple(ACTIVATIONS),
}
SUPPORTED: dict[str, Supported] = {
    "marian": USUALLY
    | {
        "normalize_before": (False,),
        "add_final_layer_norm": (False,),
        "forced_bos_token_id": (None,),
    },
    "m2m_100": USUALLY | {"pad_token_id": (1,)},  # the position offset is this id + 1
    "mbart": USUALLY
    | {
        "normalize_embedding": (True,),
        "normalize_before": (True,),
        "add_final_layer_norm": (True,),
        "static_position_embeddings": (False,),
        # mBART-50 starts with EOS, as M2M100 does, and mBART-25 with the token of a language.
        "decoder_start_token_id": (2,),
    },
    **dict.fromkeys(T5_TYPES, ALWAYS | {"feed_forward_proj": tuple(T5_ACTIVATIONS)}),
}

BART: dict[str, Any] = {
    "norm": NormPosition.PRE,
    "position_offset": 2,
    "min_target_tokens": MULTILINGUAL_TARGET,
}
T5: dict[str, Any] = {
    "has_sinusoids": False,
    "has_output_bias": False,
    "scales_embeddings": False,
    "min_target_tokens": MULTILINGUAL_TARGET,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "marian": {"sinusoids": Sinusoids.HUGGING_FACE, "scales_embeddings": False},
    "m2m_100": BART | {"has_output_bias": False, "scales_embeddings": True},
    "mbart": BART | {"has_sinusoids": False, "norms_embedding": True, "scales_embeddings": False},
    **dict.fromkeys(T5_TYPES, T5),
}
"""Properties that the library transformers fixes in code, unless they are those of ModelConfig.

`scales_embeddings` is the default of the option `scale_embedding`.
"""

OTHER_SIZES = {"mbart": ["max_position_embeddings"], "t5": ["d_kv"], "mt5": ["d_kv"]}

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
T5_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
T5_LAYER = {
    **{f"mixer.{ours}": f"0.SelfAttention.{theirs}" for ours, theirs in T5_ATTENTION.items()},
    "mixer_residual.norm": "0.layer_norm",
    **{f"cross_attention.{our}": f"1.EncDecAttention.{its}" for our, its in T5_ATTENTION.items()},
    "cross_residual.norm": "1.layer_norm",
}
T5_PLAIN = {"fc1": "wi", "fc2": "wo"}
T5_GATED = {"fc1": "wi_0", "gate": "wi_1", "fc2": "wo"}


def read_model_options(folder: Path) -> dict[str, Any]:
    """Returns the options of `config.json`; a null is replaced from `generation_config.json`."""
    options = read_options(folder / CONFIG)
    more = read_options_if_there(folder / GENERATION_CONFIG)
    return {**more, **{name: value for name, value in options.items() if value is not None}}


def read_config(folder: Path, num_bytes: int, unk_id: int) -> ModelConfig:
    """Refuses sizes that need more weights than the files have bytes, before memory is reserved.

    The weights of T5 say whether the output layer has a matrix of its own (`tied_output`).
    """
    options, name = read_model_options(folder), str(folder / CONFIG)
    kind = options.get("model_type")
    if kind not in MODEL_TYPES:
        known = ", ".join(MODEL_TYPES)
        raise UnsupportedModelError(name, [f"model_type is {kind!r}, supported: {known}"])
    is_t5 = kind in T5_TYPES
    if is_t5:
        derived = {"num_decoder_layers": "num_layers", "decoder_start_token_id": "pad_token_id"}
        copies = {name: options.get(source) for name, source in derived.items()}
        options = {**T5_DEFAULTS, **copies, **options}
    vocab: Any = options.setdefault("vocab_size", None)
    target_vocab = options.get("decoder_vocab_size", vocab)
    table = T5_SIZES if is_t5 else SIZES
    sizes = {theirs: options.get(theirs) for theirs in (*table, *OTHER_SIZES.get(kind, ()))}
    vocab_sizes = {"vocab_size": vocab, "decoder_vocab_size": target_vocab}
    reasons = unsupported(options, SUPPORTED[kind]) + ([] if is_t5 else _side_reasons(options))
    reasons = reasons or size_reasons(sizes, vocab_sizes, num_bytes)
    reasons = reasons or [
        f"{name} is {number!r}, not an id of the vocabulary"
        for name in IDS
        if type(number := options.get(name)) is not int or not 0 <= number < target_vocab
    ]
    if reasons:
        raise UnsupportedModelError(name, reasons)
    try:
        return ModelConfig(
            **{ours: options[theirs] for theirs, ours in {**table, **IDS}.items()},
            **{**FAMILIES[kind], **(_t5_fields(options) if is_t5 else _fields(options))},
            source_vocab_size=vocab,
            target_vocab_size=target_vocab,
            unk_id=unk_id,
            decoder=DecoderKind.SELF_ATTENTION,
        )
    except UnsupportedModelError as error:
        raise UnsupportedModelError(name, error.reasons) from error


def _side_reasons(options: Mapping[str, Any]) -> list[str]:
    reasons = []
    if "activation_function" not in options:
        reasons.append(f"activation_function is missing, supported: {', '.join(ACTIVATIONS)}")
    for part in ("attention_heads", "ffn_dim"):
        one, other = (options.get(f"{side}_{part}") for side in SIDES)
        if one != other:
            reasons.append(f"{part} of the encoder is {one!r} and of the decoder {other!r}")
    return reasons


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "shared_embeddings": bool(options.get("share_encoder_decoder_embeddings", True)),
        "activation": ACTIVATIONS[options["activation_function"]],
        "layer_norm_eps": LAYER_NORM_EPS,
    }
    if "scale_embedding" in options:
        fields["scales_embeddings"] = bool(options["scale_embedding"])
    if options["model_type"] == "mbart":
        fields["max_positions"] = options["max_position_embeddings"] + 2
    return fields


def _t5_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    proj, heads = options["feed_forward_proj"], options["num_heads"]
    attention = AttentionSpec(
        heads,
        heads,
        options["d_kv"],
        has_bias=False,
        scale=1.0,
        buckets=options["relative_attention_num_buckets"],
        max_distance=options["relative_attention_max_distance"],
    )
    block = BlockSpec(
        options["d_model"],
        options["d_ff"],
        attention,
        activation=T5_ACTIVATIONS[proj],
        has_gate=proj.startswith("gated"),
        ffn_biases=(False, False),
        norm=NormSpec(options["layer_norm_epsilon"], has_bias=False, is_rms=True),
        norm_position=NormPosition.PRE,
    )
    # Version 5 of transformers always saves `tie_word_embeddings` as true, and T5's other option.
    is_tied = options.get("tie_word_embeddings", True)
    is_scaled = bool(options.get("scale_decoder_outputs", is_tied))
    return {"block": block, "scales_output": options["model_type"] == "t5" and is_scaled}


def names_of(config: ModelConfig) -> dict[str, str]:
    if config.block is None:
        source = SHARED if config.shared_embeddings else SOURCE
        return {**NAMES, "encoder.embedding.weight": source}
    names = {"encoder.embedding.weight": T5_SHARED, "decoder.untied_weight": OUTPUT}
    table = T5_GATED if config.block.has_gate else T5_PLAIN
    for side, last in (("encoder", 1), ("decoder", 2)):
        feed_forward = {
            f"feed_forward.{our}": f"{last}.DenseReluDense.{table[our]}" for our in table
        }
        residual = {"feed_forward_residual.norm": f"{last}.layer_norm"}
        for ours, theirs in {**T5_LAYER, **feed_forward, **residual}.items():
            names[f"{side}.layers.{{i}}.{ours}"] = f"{side}.block.{{i}}.layer.{theirs}"
        first = f"{side}.block.0.layer.0.SelfAttention"
        names[f"{side}.relative_bias"] = f"{first}.relative_attention_bias"
        names[f"{side}.norm"] = f"{side}.final_layer_norm"
    return names


def copies_of(config: ModelConfig) -> dict[str, tuple[str, ...]]:
    """Maps the main name of a matrix to the other names that a file may have for it."""
    if config.block is not None:
        return {T5_SHARED: ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")}
    return {SHARED: (SOURCE, TARGET, OUTPUT)} if config.shared_embeddings else {TARGET: (OUTPUT,)}
