"""Reads the translation models of CTranslate2: Marian, M2M100, NLLB-200, and OpenNMT-py (Argos).

Source: OpenNMT/CTranslate2, python/ctranslate2/specs/transformer_spec.py (names),
src/layers/transformer.cc and common.cc (meaning of the numbers). No code was copied.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from model.architectures.embedding import sinusoid_table
from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.families.hf_config import MAX_LENGTH_FACTOR, MULTILINGUAL_TARGET
from model.checkpoints.formats.ctranslate2 import CTranslate2File
from model.checkpoints.formats.marian_bin import copy_of
from model.checkpoints.names import fill
from model.checkpoints.quantize import quantize
from model.config import Activation, DecoderKind, ModelConfig, NormPosition, Sinusoids
from model.errors import UnsupportedModelError
from model.quantization.int8 import QuantizedMatrix, quantize_matrix
from model.tokenization.tokenizer import MappedTokenizer

REVISIONS = range(3, 8)
"""Revisions of the specification. Earlier ones have other names. Encoder and decoder have numbers
of their own, such as `num_heads`, since the fifth."""

ACTIVATIONS = (
    Activation.RELU,
    Activation.GELU_TANH,
    Activation.SWISH,
    Activation.GELU,
    Activation.GELU_SIGMOID,
)
"""In the order of their numbers."""

# Parts of names of tensors, and the property of a model with such tensors.
UNSERVED = {
    "relative_": "relative positions",
    "rotary": "rotary positions",
    "linear_0_noact": "a gate in the feed-forward layers",
    "layernorm_embedding": "layer norm of the embeddings",
    "embeddings_1/": "several embeddings of a source token",
    "project_in": "projections around the decoder",
    "num_heads_kv": "fewer heads for keys than for queries",
    "scale_outputs": "scaled outputs",
    "queries_scale": "a scale of the queries",
}

Names = Mapping[str, tuple[str, ...]]
"""Maps a module of the file to our modules, whose weights it joins in this order."""

LAYER: Names = {
    "self_attention/linear_0": ("mixer.query", "mixer.key", "mixer.value"),
    "self_attention/linear_1": ("mixer.out",),
    "self_attention/layer_norm": ("mixer_residual.norm",),
    "attention/linear_0": ("cross_attention.query",),
    "attention/linear_1": ("cross_attention.key", "cross_attention.value"),
    "attention/linear_2": ("cross_attention.out",),
    "attention/layer_norm": ("cross_residual.norm",),
    "ffn/linear_0": ("feed_forward.fc1",),
    "ffn/linear_1": ("feed_forward.fc2",),
    "ffn/layer_norm": ("feed_forward_residual.norm",),
}
SIDES = ("encoder", "decoder")
OUTPUT = "decoder/projection/weight"
KINDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}

# Numbers and switches, scales of integers, and tables that the model computes itself.
IGNORED = re.compile(
    r"(^|/)(num_heads|multi_query_attention|pre_norm|activation|embeddings_merge|alignment_\w+"
    r"|scale_embeddings|alibi\w*|scale_alibi|start_from_zero_embedding|position_encodings/encodings"
    r"|with_\w+|user_\w+|\w+_token|\w+_scale)$"
)
NOTHING = re.compile(r"(?!)")

SCALE_ERROR = 1e-2
TABLE_ERROR = 2e-2
"""Largest differences from the computed numbers. bfloat16 rounds a sinusoid by up to 0.004."""

COMPARED = 32
"""Number of rows of a position table that are compared. Other conventions differ by over 0.1."""

OFFSETS = (0, 2)
"""Rows of the computed table with which the table in a file may begin. M2M100 begins with 2."""

PADDING = ("<pad>", "<blank>")


def read_config(
    file: CTranslate2File, options: Mapping[str, Any], target: MappedTokenizer
) -> ModelConfig:
    """Returns the config of a model; `options` are those of `ctranslate2_folder.read_options`."""
    reasons = [
        f"it has {fact}"
        for part, fact in UNSERVED.items()
        if any(f"/{part}" in name for name in (*file.variables, *file.aliases))
    ]
    if file.revision not in REVISIONS:
        reasons.append(f"its revision is {file.revision}, supported: 3 to 7")
    sides = [_read_side(file, side, reasons) for side in SIDES]
    if sides[0] != sides[1] and not reasons:
        reasons.append(f"encoder and decoder differ: {sides[0]} and {sides[1]}")
    starts_at_zero = file.scalar("decoder/start_from_zero_embedding", 0) != 0
    start_id = None if starts_at_zero else target.ids.get(options["decoder_start_token"])
    if start_id is None and not starts_at_zero:
        reasons.append(f"decoder_start_token is {options['decoder_start_token']!r}, not a token")
    if reasons:
        raise UnsupportedModelError(str(file.path), reasons)
    tables = [file.name_of(_embeddings(file, side)) for side in SIDES]
    layers = [_num_layers(file, side) for side in SIDES]
    return ModelConfig(
        **sides[1],
        encoder_layers=layers[0],
        decoder_layers=layers[1],
        source_vocab_size=file.shape(tables[0])[0],
        target_vocab_size=file.shape(tables[1])[0],
        eos_id=target.eos_id,
        unk_id=target.unk_id,
        pad_id=next((target.ids[each] for each in PADDING if each in target.ids), None),
        start_id=start_id,
        shared_embeddings=tables[0] == tables[1],
        tied_output=file.name_of(OUTPUT) == tables[1],
        decoder=DecoderKind.SELF_ATTENTION,
        has_output_bias="decoder/projection/bias" in file,
        layer_norm_eps=options["layer_norm_epsilon"],
        max_length_factor=MAX_LENGTH_FACTOR,
        # M2M100 and NLLB-200 begin targets with EOS.
        min_target_tokens=MULTILINGUAL_TARGET if start_id == target.eos_id else 1,
        alignment_layer=_alignment_layer(file, layers[1], options["add_source_eos"]),
    )


def _read_side(file: CTranslate2File, side: str, reasons: list[str]) -> dict[str, Any]:
    """Returns the part of a ModelConfig that encoder and decoder have in common."""

    def number(name: str, default: int) -> int:
        return int(file.scalar(f"{side}/{name}", file.scalar(name, default)))

    table, ffn = (
        file.shape(_embeddings(file, side)),
        file.shape(f"{side}/layer_0/ffn/linear_0/weight"),
    )
    if len(table) != 2 or len(ffn) != 2:
        reasons.append(f"the {side} has no embeddings or no layers")
        return {}
    width, heads, activation = table[1], number("num_heads", 8), number("activation", 0)
    if activation not in range(len(ACTIVATIONS)):
        reasons.append(f"the activation of the {side} has the number {activation}")
        activation = 0
    scale, root = _embedding_scale(file, side), width**0.5
    if min(abs(scale - 1), abs(scale / root - 1)) > SCALE_ERROR:
        reasons.append(f"the {side} multiplies embeddings by {scale:g}, supported: 1 or {root:g}")
    positions = _read_positions(file, side, width)
    if positions is None:
        reasons.append(f"the positions of the {side} are learned, or sinusoids in an unknown order")
        positions = Sinusoids.MARIAN, 0
    return {
        "d_model": width,
        "ffn_dim": ffn[0],
        "num_heads": heads,
        "norm": NormPosition.PRE if number("pre_norm", 1) else NormPosition.POST,
        "activation": ACTIVATIONS[activation],
        "scales_embeddings": abs(scale - 1) > SCALE_ERROR,
        "sinusoids": positions[0],
        "position_offset": positions[1],
    }


def _embedding_scale(file: CTranslate2File, side: str) -> float:
    """Returns the factor of the embeddings, from a flag or the factor itself."""
    name = f"{side}/scale_embeddings"
    scale = file.scalar(name, 1)
    if name in file and not file.is_int8(name):
        return scale
    return file.shape(_embeddings(file, side))[1] ** 0.5 if scale else 1.0


def _read_positions(file: CTranslate2File, side: str, width: int) -> tuple[Sinusoids, int] | None:
    """Returns the convention of a position table, and the row for the first token."""
    name = f"{side}/position_encodings/encodings"
    if name not in file:  # OpenNMT-tf counts positions from 1
        return Sinusoids.MARIAN, 1
    found = file.array(name).reshape(-1, file.shape(name)[-1])[:COMPARED]
    for convention, offset in product(Sinusoids, OFFSETS):
        rows = sinusoid_table(offset + len(found), width, convention)[offset:].numpy()
        if rows.shape == found.shape and np.abs(rows - found).max() < TABLE_ERROR:
            return convention, offset
    return None


def _alignment_layer(file: CTranslate2File, layers: int, is_marian: bool) -> int | None:
    """Returns the decoder layer for alignment. -1 is Marian's `last`, and no layer of others."""
    layer = int(file.scalar("decoder/alignment_layer", file.scalar("alignment_layer", -1)))
    if layer < 0 and is_marian:
        layer += layers
    return layer if 0 <= layer < layers else None


def _embeddings(file: CTranslate2File, side: str) -> str:
    names = f"{side}/embeddings_0/weight", f"{side}/embeddings/weight"
    return next((name for name in names if name in file), names[1])


def _num_layers(file: CTranslate2File, side: str) -> int:
    found = (re.match(rf"{side}/layer_(\d+)/", name) for name in (*file.variables, *file.aliases))
    return max(int(each[1]) for each in found if each) + 1


def load_weights(
    file: CTranslate2File, config: ModelConfig, is_quantized: bool = False
) -> EncoderDecoder:
    """Returns a model filled from the file, on the CPU, in float32.

    With `is_quantized`, the model's matrices are int8, and float matrices are rounded.
    """
    with torch.device("meta"):  # the parameters take no memory; the file's tensors replace them
        model = EncoderDecoder(config)
    parameters = {name: each.dim() for name, each in model.named_parameters()}
    arrays: dict[str, NDArray[Any]] = {}
    matrices: dict[str, QuantizedMatrix] = {}
    read = set()
    for theirs, names in name_table(file, config):
        if theirs in file:
            read.add(file.name_of(theirs))
            if is_quantized and parameters.get(names[0]) == 2:
                parts = _split_int8(file, theirs, len(names))
                matrices |= dict(zip(names, parts, strict=True))
                arrays |= {name: matrices[name].values for name in names}
            else:
                arrays |= dict(zip(names, _split(file.array(theirs), len(names)), strict=True))
        elif theirs.endswith("/bias") and names[0] in parameters:
            width = model.get_parameter(names[0]).numel()
            arrays |= {name: np.zeros(width, np.float32) for name in names}
    unread = [name for name in file.variables if name not in read]
    arrays |= {name: np.empty(0) for name in unread if not IGNORED.search(name)}
    fill(model, arrays, [(name, name) for name in parameters], NOTHING, str(file.path))
    if is_quantized:
        quantize(model, matrices)
    return model.eval()


def name_table(file: CTranslate2File, config: ModelConfig) -> Iterator[tuple[str, list[str]]]:
    """Yields each tensor that a model may have, with the parameters whose values it joins."""
    modules: dict[str, tuple[str, ...]] = {
        f"{side}/layer_{i}/{theirs}": tuple(f"{side}.layers.{i}.{each}" for each in ours)
        for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
        for i in range(layers)
        for theirs, ours in LAYER.items()
    }
    for side in SIDES[: 1 if config.shared_embeddings else 2]:
        modules[_embeddings(file, side).removesuffix("/weight")] = (f"{side}.embedding",)
    for side in SIDES:
        modules[f"{side}/layer_norm"] = (f"{side}.norm",)
    for theirs, ours in modules.items():
        for kind, name in KINDS.items():
            yield f"{theirs}/{kind}", [f"{each}.{name}" for each in ours]
    yield "decoder/projection/bias", ["decoder.output_bias"]
    if not config.tied_output:
        yield OUTPUT, ["decoder.untied_weight"]


def _split(array: NDArray[np.float32], count: int) -> list[NDArray[np.float32]]:
    parts = np.array_split(array, count)
    return [np.ascontiguousarray(part) for part in parts]


def _split_int8(file: CTranslate2File, name: str, count: int) -> list[QuantizedMatrix]:
    """Returns the int8 matrices that are joined in a matrix; floats are rounded."""
    if not file.is_int8(name):
        return [quantize_matrix(part) for part in _split(file.array(name), count)]
    values, scales = file.integers(name)
    steps = np.broadcast_to(np.float32(1) / scales, len(values))
    parts = zip(np.array_split(values, count), np.array_split(steps, count), strict=True)
    return [QuantizedMatrix(copy_of(each), part.copy()) for each, part in parts]
