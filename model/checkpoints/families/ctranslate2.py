"""Reads the translation models of CTranslate2: Marian, M2M100, NLLB-200, and OpenNMT-py (Argos).

Source: OpenNMT/CTranslate2, python/ctranslate2/specs/transformer_spec.py (names),
src/layers/transformer.cc and common.cc (meaning of the numbers). No code was copied.
"""

import re
from itertools import product
from typing import Any

import numpy as np

from model.architectures.embedding import sinusoid_table
from model.checkpoints.families.ctranslate2_folder import CTranslate2File, read_options
from model.checkpoints.families.hf_config import MULTILINGUAL_TARGET
from model.checkpoints.weights import Checkpoint
from model.config import Activation, DecoderKind, ModelConfig, NormPosition, Sinusoids
from model.errors import UnsupportedModelError
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

LINEAR, NORM = "{weight|bias}", "{gamma|beta}"
LAYER = {
    "mixer.query": f"self_attention/linear_0/{LINEAR}[0/3]",
    "mixer.key": f"self_attention/linear_0/{LINEAR}[1/3]",
    "mixer.value": f"self_attention/linear_0/{LINEAR}[2/3]",
    "mixer.out": f"self_attention/linear_1/{LINEAR}",
    "mixer_residual.norm": f"self_attention/layer_norm/{NORM}",
    "cross_attention.query": f"attention/linear_0/{LINEAR}",
    "cross_attention.key": f"attention/linear_1/{LINEAR}[0/2]",
    "cross_attention.value": f"attention/linear_1/{LINEAR}[1/2]",
    "cross_attention.out": f"attention/linear_2/{LINEAR}",
    "cross_residual.norm": f"attention/layer_norm/{NORM}",
    "feed_forward.fc1": f"ffn/linear_0/{LINEAR}",
    "feed_forward.fc2": f"ffn/linear_1/{LINEAR}",
    "feed_forward_residual.norm": f"ffn/layer_norm/{NORM}",
}
SIDE = {
    **{f"layers.{{i}}.{ours}": f"layer_{{i}}/{theirs}" for ours, theirs in LAYER.items()},
    "norm": f"layer_norm/{NORM}",
}
SIDES = ("encoder", "decoder")
OUTPUT = "decoder/projection/weight"

# Numbers and switches, scales of integers, tables that the model computes itself, and further names
# of the table of embeddings.
IGNORED = re.compile(
    r"(^|/)(num_heads|multi_query_attention|pre_norm|activation|embeddings_merge|alignment_\w+"
    r"|scale_embeddings|alibi\w*|scale_alibi|start_from_zero_embedding|position_encodings/encodings"
    r"|with_\w+|user_\w+|\w+_token|\w+_scale|decoder/(projection|embeddings(_0)?)/weight)$"
)

SCALE_ERROR = 1e-2
TABLE_ERROR = 2e-2
"""Largest differences from the computed numbers. bfloat16 rounds a sinusoid by up to 0.004."""

COMPARED = 32
"""Number of rows of a position table that are compared. Other conventions differ by over 0.1."""

OFFSETS = (0, 2)
"""Rows of the computed table with which the table in a file may begin. M2M100 begins with 2."""

PADDING = ("<pad>", "<blank>")


def read_checkpoint(file: CTranslate2File, target: MappedTokenizer) -> Checkpoint:
    options = read_options(file)
    reasons = [
        f"it has {fact}"
        for part, fact in UNSERVED.items()
        if any(f"/{part}" in name for name in file)
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
    tables = [file.entries[_embeddings(file, side)] for side in SIDES]
    layers = [_num_layers(file, side) for side in SIDES]
    config = ModelConfig(
        **sides[1],
        encoder_layers=layers[0],
        decoder_layers=layers[1],
        source_vocab_size=tables[0].shape[0],
        target_vocab_size=tables[1].shape[0],
        eos_id=target.eos_id,
        unk_id=target.unk_id,
        pad_id=next((target.ids[each] for each in PADDING if each in target.ids), None),
        start_id=start_id,
        shared_embeddings=tables[0] is tables[1],
        tied_output=file.entries.get(OUTPUT) is tables[1],
        decoder=DecoderKind.SELF_ATTENTION,
        has_output_bias="decoder/projection/bias" in file,
        layer_norm_eps=options["layer_norm_epsilon"],
        # M2M100 and NLLB-200 begin targets with EOS.
        min_target_tokens=MULTILINGUAL_TARGET if start_id == target.eos_id else 1,
        alignment_layer=_alignment_layer(file, layers[1], options["add_source_eos"]),
    )
    integers = file.integers if file.is_int8("encoder/layer_0/ffn/linear_0/weight") else None
    return Checkpoint(config, str(file.path), file, names_of(file), IGNORED, integers)


def _read_side(file: CTranslate2File, side: str, reasons: list[str]) -> dict[str, Any]:
    """Returns the part of a ModelConfig that encoder and decoder have in common."""

    def number(name: str, default: int) -> int:
        return int(file.scalar(f"{side}/{name}", file.scalar(name, default)))

    table = file.shape(_embeddings(file, side))
    ffn = file.shape(f"{side}/layer_0/ffn/linear_0/weight")
    if len(table) != 2 or len(ffn) != 2:
        reasons.append(f"the {side} has no embeddings or no layers")
        return {}
    width, heads, activation = table[1], number("num_heads", 8), number("activation", 0)
    if activation not in range(len(ACTIVATIONS)):
        reasons.append(f"the activation of the {side} has the number {activation}")
        activation = 0
    root, factor = width**0.5, f"{side}/scale_embeddings"
    scale = file.scalar(factor, 1)
    if factor not in file or file.is_int8(factor):  # a flag
        scale = root if scale else 1.0
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


def _read_positions(file: CTranslate2File, side: str, width: int) -> tuple[Sinusoids, int] | None:
    """Returns the convention of a position table, and the row for the first token."""
    name = f"{side}/position_encodings/encodings"
    if name not in file:  # OpenNMT-tf counts positions from 1
        return Sinusoids.MARIAN, 1
    found = file[name].reshape(-1, file.shape(name)[-1])[:COMPARED]
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
    found = (re.match(rf"{side}/layer_(\d+)/", name) for name in file)
    return max(int(each[1]) for each in found if each) + 1


def names_of(file: CTranslate2File) -> dict[str, str]:
    return {
        **{f"{side}.{ours}": f"{side}/{SIDE[ours]}" for side in SIDES for ours in SIDE},
        **{f"{side}.embedding.weight": _embeddings(file, side) for side in SIDES},
        "decoder.output_bias": "decoder/projection/bias",
        "decoder.untied_weight": OUTPUT,
    }
