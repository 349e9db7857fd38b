"""Reads configs of DeBERTa-v2 and -v3, whose attention compares contents with distances.

Does not import torch. Source: He et al. 2021, "DeBERTa"; transformers, models/deberta_v2.
"""

import re
from dataclasses import replace
from typing import Any

from model.checkpoints.families.bert import ATTENTION, FEED_FORWARD, bert_names, read_bert
from model.checkpoints.families.encoder_family import Family, Options
from model.checkpoints.formats.files import positive_integer, unsupported
from model.config import TextEncoderConfig
from model.errors import UnsupportedModelError

# The options of DeBERTa-v3, with the default that a missing option has.
DEFAULTS = {
    "relative_attention": False,
    "share_att_key": False,
    "norm_rel_ebd": "none",
    "position_biased_input": True,
    "pos_att_type": None,
    "layer_norm_eps": 1e-7,
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "relative_attention": (True,),
    "share_att_key": (True,),
    "norm_rel_ebd": ("layer_norm",),
    "position_biased_input": (False,),
    "pos_att_type": ("c2p|p2c", "p2c|c2p", ["c2p", "p2c"], ["p2c", "c2p"]),
    "type_vocab_size": (0,),
    "conv_kernel_size": (0, None),
    "embedding_size": (None,),
    "attention_head_size": (None,),
}
MODULES = {name: f"attention.self.{name.rpartition('.')[2]}_proj" for name in list(ATTENTION)[:3]}
NAMES = bert_names({**ATTENTION, **MODULES, **FEED_FORWARD}) | {
    "relative_vectors.weight": "encoder.rel_embeddings.weight",
    "relative_vectors.norm": "encoder.LayerNorm",
}
IGNORED = re.compile(r"^embeddings\.position_|^pooler\.|^cls\.|^(lm|mask)_predictions\.")


def read_deberta(options: Options, name: str) -> TextEncoderConfig:
    known = {**DEFAULTS, **options}
    reasons = unsupported(known, SUPPORTED)
    half = positive_integer(known, "position_buckets", 0, reasons)
    is_given = known.get("max_relative_positions", -1) != -1
    source = "max_relative_positions" if is_given else "max_position_embeddings"
    largest = positive_integer(known, source, 512, reasons)
    most = 2 * (largest - 2)
    if half % 2 or half > most:
        limit = f"at most {most} with {source} {largest}"
        reasons.append(f"position_buckets is {half}, it must be even and {limit}")
    if reasons:
        raise UnsupportedModelError(name, reasons)
    config = read_bert(known, name)
    mixer = replace(
        config.attention,
        buckets=2 * half,
        max_distance=largest,
        is_disentangled=True,
        scale=(3 * config.attention.head_dim) ** -0.5,  # of three products
    )
    block = replace(config.blocks[0], mixer=mixer)
    return replace(config, blocks=(block,) * config.layers, has_positions=False)


FAMILIES = {
    "deberta-v2": Family(
        ("DebertaV2Model", "DebertaV2ForMaskedLM"), "deberta.", NAMES, read_deberta, IGNORED
    ),
}
