"""Reads a Hugging Face `config.json` into the config of a translation model, without torch.

Source: transformers, models/marian and models/m2m_100 (configuration and modeling).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.checkpoints.formats.files import (
    read_options,
    read_options_if_there,
    size_reasons,
    unsupported,
)
from model.config import Activation, DecoderKind, ModelConfig, NormPosition, Sinusoids
from model.errors import UnsupportedModelError

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
MAX_LENGTH_FACTOR = 3.0
"""Maximum ratio of target tokens to source tokens: Marian's default."""

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

SIZES = {
    "d_model": "d_model",
    "encoder_ffn_dim": "ffn_dim",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "encoder_attention_heads": "num_heads",
}
IDS = {"eos_token_id": "eos_id", "pad_token_id": "pad_id", "decoder_start_token_id": "start_id"}

# Options that change the computation, with the implemented values. The first value is the default.
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True,),
    "normalize_embedding": (False,),
    "add_bias_logits": (False,),
    "static_position_embeddings": (True,),
    "tie_word_embeddings": (True,),
    "quantization_config": (None,),
}


FAMILIES: dict[str, dict[str, Any]] = {
    "marian": {
        "sinusoids": Sinusoids.HUGGING_FACE,
        "scales_embeddings": False,
    },
    "m2m_100": {
        "norm": NormPosition.PRE,
        "position_offset": 2,
        "has_output_bias": False,
        "scales_embeddings": True,
        "min_target_tokens": MULTILINGUAL_TARGET,
    },
    "mbart": {
        "norm": NormPosition.PRE,
        "has_sinusoids": False,
        "position_offset": 2,
        "norms_embedding": True,
        "scales_embeddings": False,
        "min_target_tokens": MULTILINGUAL_TARGET,
    },
}
"""Properties that the library transformers fixes in code, unless they are those of ModelConfig.

`scales_embeddings` is the default of the option `scale_embedding`.
"""

T5_TYPES = ("t5", "mt5")
MODEL_TYPES = (*FAMILIES, *T5_TYPES)

FAMILY_SUPPORTED: dict[str, dict[str, tuple[Any, ...]]] = {
    "marian": {
        "normalize_before": (False,),
        "add_final_layer_norm": (False,),
        "forced_bos_token_id": (None,),
    },
    "m2m_100": {"pad_token_id": (1,)},  # the position offset is this id + 1
    "mbart": {
        "normalize_embedding": (True,),
        "normalize_before": (True,),
        "add_final_layer_norm": (True,),
        "static_position_embeddings": (False,),
        # mBART-50 starts with EOS, as M2M100 does, and mBART-25 with the token of a language.
        "decoder_start_token_id": (2,),
    },
}


def read_model_options(folder: Path) -> dict[str, Any]:
    """Returns the options of `config.json`; a null is replaced from `generation_config.json`."""
    options = read_options(folder / CONFIG)
    more = read_options_if_there(folder / GENERATION_CONFIG)
    return {**more, **{name: value for name, value in options.items() if value is not None}}


def read_config(folder: Path, num_bytes: int, unk_id: int) -> ModelConfig:
    """Refuses sizes that need more weights than the files have bytes, before memory is reserved."""
    options = read_model_options(folder)
    name = str(folder / CONFIG)
    kind = str(options.get("model_type"))
    if kind not in FAMILIES:
        known = ", ".join(MODEL_TYPES)
        raise UnsupportedModelError(
            name, [f"model_type is {options.get('model_type')!r}, supported: {known}"]
        )
    reasons = _reasons(options, kind) or _size_reasons(options, num_bytes)
    if reasons:
        raise UnsupportedModelError(name, reasons)
    try:
        family = FAMILIES[kind]
        scales_embeddings = bool(options.get("scale_embedding", family["scales_embeddings"]))
        return ModelConfig(
            **{ours: options[theirs] for theirs, ours in {**SIZES, **IDS}.items()},
            **{**family, "scales_embeddings": scales_embeddings},
            source_vocab_size=options["vocab_size"],
            target_vocab_size=options.get("decoder_vocab_size", options["vocab_size"]),
            max_positions=options["max_position_embeddings"] + 2 if kind == "mbart" else 0,
            unk_id=unk_id,
            shared_embeddings=bool(options.get("share_encoder_decoder_embeddings", True)),
            decoder=DecoderKind.SELF_ATTENTION,
            activation=ACTIVATIONS[options["activation_function"]],
            layer_norm_eps=LAYER_NORM_EPS,
            max_length_factor=MAX_LENGTH_FACTOR,
        )
    except UnsupportedModelError as error:
        raise UnsupportedModelError(name, error.reasons) from error


def _reasons(options: Mapping[str, Any], kind: str) -> list[str]:
    reasons = unsupported(options, {**SUPPORTED, **FAMILY_SUPPORTED[kind]})
    activation = options.get("activation_function")
    if str(activation) not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        reasons.append(f"activation_function is {activation!r}, supported: {known}")
    for part in ("attention_heads", "ffn_dim"):
        one, other = (options.get(f"{side}_{part}") for side in ("encoder", "decoder"))
        if one != other:
            reasons.append(f"{part} of the encoder is {one!r} and of the decoder {other!r}")
    return reasons


def _size_reasons(options: Mapping[str, Any], num_bytes: int) -> list[str]:
    vocab = options.get("decoder_vocab_size", options.get("vocab_size"))
    sizes = {name: options.get(name) for name in SIZES}
    if options["model_type"] == "mbart":
        sizes["max_position_embeddings"] = options.get("max_position_embeddings")
    vocab_sizes = {"vocab_size": options.get("vocab_size"), "decoder_vocab_size": vocab}
    return size_reasons(sizes, vocab_sizes, num_bytes) or id_reasons(options, vocab)


def id_reasons(options: Mapping[str, Any], vocab: int) -> list[str]:
    return [
        f"{name} is {number!r}, not an id of the vocabulary"
        for name in IDS
        if type(number := options.get(name)) is not int or not 0 <= number < vocab
    ]
