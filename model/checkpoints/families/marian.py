"""Reads the options and tensors of Marian models: those of Firefox and Bergamot, and OPUS-MT."""

import re
from collections.abc import Sequence
from typing import Any

import torch

from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.formats.files import size_reasons, unsupported
from model.checkpoints.formats.marian_bin import MarianFile
from model.checkpoints.names import fill, pairs_of
from model.checkpoints.quantize import quantize
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
}

# Options that are sizes, with Marian's defaults. `None` means that there is no default.
SIZES: dict[str, int | None] = {
    "dim-emb": None,
    "transformer-dim-ffn": 2048,
    "enc-depth": None,
    "dec-depth": None,
    "transformer-heads": 8,
}

# Maps our modules to the tensors of their weight and their bias.
MODULES = {
    **{
        f"{ours}.{part}": (f"{theirs}_W{letter}", f"{theirs}_b{letter}")
        for ours, theirs in (("mixer", "self"), ("cross_attention", "context"))
        for part, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "o"))
    },
    "mixer.update": ("rnn_W", ""),
    "mixer.forget": ("rnn_Wf", "rnn_bf"),
    "feed_forward.fc1": ("ffn_W1", "ffn_b1"),
    "feed_forward.fc2": ("ffn_W2", "ffn_b2"),
}


def read_config(
    file: MarianFile, max_length_factor: float, eos_id: int, unk_id: int
) -> ModelConfig:
    options = file.options()
    reasons = unsupported(options, REQUIRED)
    decoder = str(options.get("transformer-decoder-autoreg", "self-attention"))
    if decoder not in DECODERS:
        reasons.append(f"transformer-decoder-autoreg is {decoder!r}")
    if decoder == "rnn" and options.get("dec-cell") != "ssru":
        reasons.append(f"dec-cell is {options.get('dec-cell')!r}, supported: 'ssru'")
    parts = ("preprocess", "postprocess", "postprocess-top")
    norm = tuple(str(options.get(f"transformer-{part}", "")).replace("d", "") for part in parts)
    if norm not in NORMS:
        reasons.append(f"transformer-preprocess/postprocess/postprocess-top are {norm}")
    activation = str(options.get("transformer-ffn-activation", "swish"))
    if activation not in ACTIVATIONS:
        reasons.append(f"transformer-ffn-activation is {activation!r}")
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
    return ModelConfig(
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
        activation=ACTIVATIONS[activation],
        max_length_factor=max_length_factor,
        alignment_layer=_alignment_layer(options, sizes["dec-depth"]),
    )


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


def load_weights(
    file: MarianFile, config: ModelConfig, is_quantized: bool = False
) -> EncoderDecoder:
    """Returns a model on the CPU, in float32, or with int8 matrices."""
    with torch.device("meta"):  # the parameters take no memory; the file's tensors replace them
        model = EncoderDecoder(config)
    pairs = pairs_of(model, names_of(config))
    sizes = {name: parameter.dim() for name, parameter in model.named_parameters()}
    wanted = {ours: theirs for ours, theirs in pairs if is_quantized and sizes.get(ours) == 2}
    matrices = {name: file.quantized(name) for name in wanted.values() if name in file.items}
    arrays = file.arrays(without=matrices)
    values = {name: matrix.values for name, matrix in matrices.items()}
    fill(model, {**arrays, **values}, pairs, IGNORED, file.path.name)
    if is_quantized:
        quantize(model, {parameter: matrices[name] for parameter, name in wanted.items()})
    return model.eval()


def names_of(config: ModelConfig) -> dict[str, str]:
    suffix = "_pre" if config.norm is NormPosition.PRE else ""
    cells = "rnn" if suffix else "rnn_ffn"

    def norm(tensor: str) -> tuple[str, str]:
        return f"{tensor}_ln_scale{suffix}", f"{tensor}_ln_bias{suffix}"

    modules = {}
    for side in ("encoder", "decoder"):
        is_ssru = side == "decoder" and config.decoder is DecoderKind.SSRU
        parts = MODULES | {
            "mixer_residual.norm": norm(cells if is_ssru else "self_Wo"),
            "cross_residual.norm": norm("context_Wo"),
            "feed_forward_residual.norm": norm("ffn_ffn"),
        }
        for ours, tensors in parts.items():
            names = [f"{side}_l{{n}}_{tensor}" for tensor in tensors]
            modules[f"{side}.layers.{{i}}.{ours}"] = names
        modules[f"{side}.norm"] = [f"{side}_top_ln_scale", f"{side}_top_ln_bias"]
    return {
        **{f"{ours}.weight": weight for ours, (weight, _) in modules.items()},
        **{f"{ours}.bias": bias for ours, (_, bias) in modules.items()},
        "encoder.embedding.weight": "Wemb" if config.shared_embeddings else "encoder_Wemb",
        "decoder.embedding.weight": "decoder_Wemb",
        "decoder.output_bias": "decoder_ff_logit_out_b",
        "decoder.untied_weight": "decoder_ff_logit_out_Wt",
    }
