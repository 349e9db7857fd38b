"""Reads options and tensors of Marian models.

Marian models are the small models of Firefox and Bergamot (students), the large models that
trained the students (teachers), and OPUS-MT.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch

from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.formats.marian_bin import MarianFile
from model.checkpoints.names import Name, fill
from model.checkpoints.quantize import quantize
from model.config import Activation, DecoderKind, ModelConfig, NormPosition
from model.errors import UnsupportedModelError

# Marian's fixed multipliers for the inputs of int8 products. They are not used, because each input
# row gets a scale of its own.
IGNORED = re.compile(r"_QuantMultA$")

DECODERS = {"rnn": DecoderKind.SSRU, "self-attention": DecoderKind.SELF_ATTENTION}
# Source: marian-dev, src/graph/expression_operators.cpp.
ACTIVATIONS = {
    "relu": Activation.RELU,
    "swish": Activation.SWISH,
    "gelu": Activation.GELU_SIGMOID,
}
# Keys are values of transformer-preprocess, -postprocess and -postprocess-top. The letter `d`
# (dropout) is removed from these values, because only training uses dropout.
NORMS = {("", "an", ""): NormPosition.POST, ("n", "a", "n"): NormPosition.PRE}

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
DEFAULTS: dict[str, Any] = {name: values[0] for name, values in REQUIRED.items()}

# Options that are sizes, with Marian's defaults. `None` means that there is no default.
SIZES: dict[str, int | None] = {
    "dim-emb": None,
    "enc-depth": None,
    "dec-depth": None,
    "transformer-heads": 8,
    "transformer-dim-ffn": 2048,
}


def read_config(
    file: MarianFile, max_length_factor: float, eos_id: int, unk_id: int
) -> ModelConfig:
    """Returns the config from the options in the file.

    Args:
        file: The checkpoint.
        max_length_factor: Maximum ratio of target tokens to source tokens.
        eos_id: Id of the token at the end of a text.
        unk_id: Id of unknown tokens.

    Raises:
        UnsupportedModelError: Options are not implemented; the error lists all of them.
        CheckpointFormatError: The file has no options, or they are not a YAML mapping.
    """
    options = file.options()
    reasons = [
        f"{name} is {options[name]!r}, supported: {', '.join(map(repr, values))}"
        for name, values in REQUIRED.items()
        if options.get(name, DEFAULTS[name]) not in values
    ]
    decoder = str(options.get("transformer-decoder-autoreg", "self-attention"))
    if decoder not in DECODERS:
        reasons.append(f"transformer-decoder-autoreg is {decoder!r}")
    if decoder == "rnn" and options.get("dec-cell") != "ssru":
        reasons.append(f"dec-cell is {options.get('dec-cell')!r}, supported: 'ssru'")
    norm = _norm(options)
    if norm not in NORMS:
        reasons.append(f"transformer-preprocess/postprocess/postprocess-top are {norm}")
    activation = str(options.get("transformer-ffn-activation", "swish"))
    if activation not in ACTIVATIONS:
        reasons.append(f"transformer-ffn-activation is {activation!r}")
    sizes: dict[str, Any] = {name: options.get(name, default) for name, default in SIZES.items()}
    reasons += _size_reasons(sizes, options.get("dim-vocabs"), len(file.data))
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
    """Returns the decoder layer that the options name for guided alignment, or None.

    Layers are counted from 0. Guided alignment trains head 0 of this layer to align words. Marian
    writes its default layer, `last`, even into files of models without such training. Marian does
    not write the option `guided-alignment`, so most files do not say whether the layer was trained.
    A few files have this option nevertheless; its value `none` means that no layer was trained. If
    the named layer does not exist, the result is None and not an error, because translation does
    not need guided alignment.

    Source: marian-dev, src/models/transformer.h: the decoder's `step` counts layers from 1, and
    `collectOneHead` takes head 0; src/models/encoder_decoder.cpp, `modelFeatures_`, lists the
    options that are written.
    """
    if options.get("guided-alignment") == "none":
        return None
    named = str(options.get("transformer-guided-alignment-layer"))
    if named == "last":
        return decoder_layers - 1
    layer = int(named) - 1 if named.isdecimal() else -1
    return layer if 0 <= layer < decoder_layers else None


def _size_reasons(sizes: dict[str, Any], vocabs: Any, num_bytes: int) -> list[str]:
    """Returns the reasons to refuse the sizes.

    Sizes that need more weights than the file has bytes are refused, because a damaged number must
    not use up the memory.
    """
    reasons = [
        f"{name} is {size!r}, not a size" for name, size in sizes.items() if not _is_size(size)
    ]
    if not (isinstance(vocabs, list) and len(vocabs) == 2 and all(map(_is_size, vocabs))):
        reasons.append(f"dim-vocabs is {vocabs!r}, supported: two sizes")
    if reasons:
        return reasons
    layers = sizes["enc-depth"] + sizes["dec-depth"]
    layer = sizes["dim-emb"] * max(sizes["dim-emb"], sizes["transformer-dim-ffn"])
    if max(layers * layer, sizes["dim-emb"] * max(vocabs)) > num_bytes:
        reasons.append(f"the sizes need more weights than the {num_bytes} bytes of the file")
    return reasons


def _is_size(size: Any) -> bool:
    return type(size) is int and size > 0


def _norm(options: dict[str, Any]) -> tuple[str, str, str]:
    names = ("preprocess", "postprocess", "postprocess-top")
    pre, post, top = (str(options.get(f"transformer-{n}", "")).replace("d", "") for n in names)
    return pre, post, top


def load_weights(
    file: MarianFile, config: ModelConfig, is_quantized: bool = False
) -> EncoderDecoder:
    """Returns a model filled from the file, on the CPU.

    Args:
        file: The checkpoint.
        config: The config from `read_config`.
        is_quantized: If True, the model's matrices are int8, and float matrices of the file are
            rounded. If False, everything is float32.

    Raises:
        WeightMismatchError: Tensors and parameters do not match.
        UnsupportedModelError: A tensor has a type that cannot be read.
        CheckpointFormatError: A tensor is damaged.
    """
    with torch.device("meta"):  # the parameters take no memory; the file's tensors replace them
        model = EncoderDecoder(config)
    pairs = name_pairs(config)
    wanted = _matrices(model, pairs) if is_quantized else {}
    matrices = {name: file.quantized(name) for name in wanted.values() if name in file.items}
    arrays = file.arrays(without=matrices)
    values = {name: matrix.values for name, matrix in matrices.items()}
    fill(model, {**arrays, **values}, pairs, IGNORED, file.path.name)
    if is_quantized:
        quantize(model, {parameter: matrices[name] for parameter, name in wanted.items()})
    return model.eval()


def _matrices(model: EncoderDecoder, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Maps the name of each parameter that is a matrix to the name of its tensor in the file."""
    sizes = {name: parameter.dim() for name, parameter in model.named_parameters()}
    return {parameter: tensor for parameter, tensor in pairs if sizes.get(parameter) == 2}


def name_pairs(config: ModelConfig) -> list[tuple[str, str]]:
    """Returns (name of the parameter, name of its tensor) for every parameter of the model."""
    tables = (
        (_encoder_names(config), config.encoder_layers),
        (_decoder_names(config), config.decoder_layers),
        (_outer_names(config), 1),
    )
    return [pair for names, layers in tables for name in names for pair in name.expand(layers)]


def _attention(parameter: str, tensor: str) -> list[Name]:
    pieces = {"query": "q", "key": "k", "value": "v", "out": "o"}
    kinds = {"weight": "W", "bias": "b"}
    return [
        Name(f"{parameter}.{piece}.{kind}", f"{tensor}_{short}{letter}")
        for piece, letter in pieces.items()
        for kind, short in kinds.items()
    ]


def _norm_names(parameter: str, tensor: str, config: ModelConfig) -> list[Name]:
    suffix = "_pre" if config.norm is NormPosition.PRE else ""
    return [
        Name(f"{parameter}.norm.weight", f"{tensor}_ln_scale{suffix}"),
        Name(f"{parameter}.norm.bias", f"{tensor}_ln_bias{suffix}"),
    ]


def _feed_forward(parameter: str, tensor: str, config: ModelConfig) -> list[Name]:
    return [
        Name(f"{parameter}.fc1.weight", f"{tensor}_W1"),
        Name(f"{parameter}.fc1.bias", f"{tensor}_b1"),
        Name(f"{parameter}.fc2.weight", f"{tensor}_W2"),
        Name(f"{parameter}.fc2.bias", f"{tensor}_b2"),
        *_norm_names(f"{parameter}_residual", f"{tensor}_ffn", config),
    ]


def _encoder_names(config: ModelConfig) -> list[Name]:
    layer = "encoder.layers.{i}"
    return [
        *_attention(f"{layer}.self_attention", "encoder_l{i}_self"),
        *_norm_names(f"{layer}.self_residual", "encoder_l{i}_self_Wo", config),
        *_feed_forward(f"{layer}.feed_forward", "encoder_l{i}_ffn", config),
    ]


def _decoder_names(config: ModelConfig) -> list[Name]:
    layer = "decoder.layers.{i}"
    if config.decoder is DecoderKind.SSRU:
        rnn_norm = "decoder_l{i}_rnn" + ("" if config.norm is NormPosition.PRE else "_ffn")
        token_mixer = [
            Name(f"{layer}.token_mixer.update.weight", "decoder_l{i}_rnn_W"),
            Name(f"{layer}.token_mixer.forget.weight", "decoder_l{i}_rnn_Wf"),
            Name(f"{layer}.token_mixer.forget.bias", "decoder_l{i}_rnn_bf"),
            *_norm_names(f"{layer}.token_mixer_residual", rnn_norm, config),
        ]
    else:
        token_mixer = [
            *_attention(f"{layer}.token_mixer", "decoder_l{i}_self"),
            *_norm_names(f"{layer}.token_mixer_residual", "decoder_l{i}_self_Wo", config),
        ]
    return [
        *token_mixer,
        *_attention(f"{layer}.cross_attention", "decoder_l{i}_context"),
        *_norm_names(f"{layer}.cross_residual", "decoder_l{i}_context_Wo", config),
        *_feed_forward(f"{layer}.feed_forward", "decoder_l{i}_ffn", config),
    ]


def _outer_names(config: ModelConfig) -> list[Name]:
    shared = config.shared_embeddings
    names = [
        Name("encoder.embedding.weight", "Wemb" if shared else "encoder_Wemb"),
        Name("decoder.output_bias", "decoder_ff_logit_out_b"),
    ]
    if not shared:
        names.append(Name("decoder.embedding.weight", "decoder_Wemb"))
    if not config.tied_output:
        names.append(Name("decoder.untied_weight", "decoder_ff_logit_out_Wt"))
    if config.norm is NormPosition.PRE:
        for side in ("encoder", "decoder"):
            names.append(Name(f"{side}.norm.weight", f"{side}_top_ln_scale"))
            names.append(Name(f"{side}.norm.bias", f"{side}_top_ln_bias"))
    return names
