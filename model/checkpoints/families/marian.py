"""Reads the options and tensors of Marian models: those of Firefox and Bergamot, and OPUS-MT."""

import re
from collections.abc import Sequence
from typing import Any

from model.checkpoints.formats.files import size_reasons, unsupported
from model.checkpoints.formats.marian_bin import MarianFile
from model.checkpoints.weights import Checkpoint
from model.config import Activation, DecoderKind, ModelConfig, NormPosition
from model.errors import UnsupportedModelError

# Marian's fixed multipliers for the inputs of int8 products. They are not used, because each input
# row gets a scale of its own.
IGNORED = re.compile(r"_QuantMultA$")

DECODERS = {"rnn": DecoderKind.SSRU, "self-attention": DecoderKind.SELF_ATTENTION}
# Source: marian-dev, src/graph/expression_operators.cpp.
ACTIVATIONS = {"relu": Activation.RELU, "swish": Activation.SWISH, "gelu": Activation.GELU_SIGMOID}
# Keys are values of transformer-preprocess, -postprocess and -postprocess-top. The letter `d`
# (dropout) is removed from these values, because only training uses dropout.
NORMS: dict[tuple[str, ...], NormPosition] = {
    ("", "an", ""): NormPosition.POST,
    ("n", "a", "n"): NormPosition.PRE,
}

# Options that change the computation, with the implemented values. The first value is the default.
REQUIRED: dict[str, Sequence[Any]] = {
    "type": ["transformer"],
    "lemma-dim-emb": [0],
    "lemma-dependency": [""],
    "factors-combine": ["sum"],
    "input-types": [[]],
    "output-omit-bias": [False],
    "right-left": [False],
    "transformer-ffn-depth": [2],
    "transformer-no-projection": [False],
    "transformer-pool": [False],
    "transformer-postprocess-emb": ["", "d"],
    "transformer-tied-layers": [[]],
    "transformer-train-position-embeddings": [False],
    "transformer-depth-scaling": [False],
    "ulr": [False],
    "transformer-decoder-autoreg": [*DECODERS],
    "transformer-ffn-activation": [*ACTIVATIONS],
}

# Options that are sizes, with Marian's defaults. `None` means that there is no default.
SIZES: dict[str, int | None] = {
    "dim-emb": None,
    "transformer-dim-ffn": 2048,
    "enc-depth": None,
    "dec-depth": None,
    "transformer-heads": 8,
}

ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
LAYER = {
    **{f"mixer.{ours}": f"self_{{W|b}}{theirs}" for ours, theirs in ATTENTION.items()},
    **{f"cross_attention.{ours}": f"context_{{W|b}}{theirs}" for ours, theirs in ATTENTION.items()},
    "mixer.update.weight": "rnn_W",
    "mixer.forget": "rnn_{W|b}f",
    "feed_forward.fc1": "ffn_{W|b}1",
    "feed_forward.fc2": "ffn_{W|b}2",
}


def read_checkpoint(
    file: MarianFile, max_length_factor: float, eos_id: int, unk_id: int
) -> Checkpoint:
    options = file.options()
    reasons = unsupported(options, REQUIRED)
    decoder = options.get("transformer-decoder-autoreg", "self-attention")
    if decoder == "rnn" and options.get("dec-cell") != "ssru":
        reasons.append(f"dec-cell is {options.get('dec-cell')!r}, supported: 'ssru'")
    parts = ("preprocess", "postprocess", "postprocess-top")
    norm = tuple(str(options.get(f"transformer-{part}", "")).replace("d", "") for part in parts)
    if norm not in NORMS:
        reasons.append(f"transformer-preprocess/postprocess/postprocess-top are {norm}")
    sizes: dict[str, Any] = {name: options.get(name, default) for name, default in SIZES.items()}
    vocabs = options.get("dim-vocabs")
    if not isinstance(vocabs, list) or len(vocabs) != 2:
        reasons.append(f"dim-vocabs is {vocabs!r}, supported: two sizes")
        vocabs = []
    named = {f"dim-vocabs[{side}]": size for side, size in enumerate(vocabs)}
    reasons += size_reasons(sizes, named, len(file.data))
    if reasons:
        raise UnsupportedModelError(file.path.name, reasons)
    is_shared = bool(options.get("tied-embeddings-all"))
    config = ModelConfig(
        d_model=sizes["dim-emb"],
        num_heads=sizes["transformer-heads"],
        ffn_dim=sizes["transformer-dim-ffn"],
        encoder_layers=sizes["enc-depth"],
        decoder_layers=sizes["dec-depth"],
        source_vocab_size=options["dim-vocabs"][0],
        target_vocab_size=options["dim-vocabs"][-1],
        eos_id=eos_id,
        unk_id=unk_id,
        shared_embeddings=is_shared or bool(options.get("tied-embeddings-src")),
        tied_output=is_shared or bool(options.get("tied-embeddings")),
        decoder=DECODERS[decoder],
        norm=NORMS[norm],
        norms_keys=False,
        activation=ACTIVATIONS[options.get("transformer-ffn-activation", "swish")],
        max_length_factor=max_length_factor,
        alignment_layer=_alignment_layer(options, sizes["dec-depth"]),
    )
    integers = file.integers if file.is_quantized else None
    return Checkpoint(config, file.path.name, file, names_of(config), IGNORED, integers)


def _alignment_layer(options: dict[str, Any], decoder_layers: int) -> int | None:
    """Returns the decoder layer that the options name for guided alignment, counted from 0.

    Guided alignment trains head 0 of this layer to align words. Marian writes its default layer,
    `last`, even into files of models without such training, and usually not `guided-alignment`.

    Source: marian-dev, src/models/transformer.h: the decoder's `step` counts layers from 1, and
    `collectOneHead` takes head 0; src/models/encoder_decoder.cpp, `modelFeatures_`.
    """
    if options.get("guided-alignment") == "none":
        return None
    named = str(options.get("transformer-guided-alignment-layer"))
    if named == "last":
        return decoder_layers - 1
    layer = int(named) - 1 if named.isdecimal() else -1
    return layer if 0 <= layer < decoder_layers else None


def names_of(config: ModelConfig) -> dict[str, str]:
    is_pre = config.norm is NormPosition.PRE
    norm, cells = "_ln_{scale|bias}" + "_pre" * is_pre, "rnn" if is_pre else "rnn_ffn"
    names = {
        "encoder.embedding.weight": "Wemb" if config.shared_embeddings else "encoder_Wemb",
        "decoder.embedding.weight": "decoder_Wemb",
        "decoder.output_bias": "decoder_ff_logit_out_b",
        "decoder.untied_weight": "decoder_ff_logit_out_Wt",
    }
    for side in ("encoder", "decoder"):
        is_ssru = side == "decoder" and config.decoder is DecoderKind.SSRU
        layer = LAYER | {
            "mixer_residual.norm": (cells if is_ssru else "self_Wo") + norm,
            "cross_residual.norm": f"context_Wo{norm}",
            "feed_forward_residual.norm": f"ffn_ffn{norm}",
        }
        for ours, theirs in layer.items():
            names[f"{side}.layers.{{i}}.{ours}"] = f"{side}_l{{n}}_{theirs}"
        names[f"{side}.norm"] = f"{side}_top_ln_{{scale|bias}}"
    return names
