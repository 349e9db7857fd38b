"""Reads the configs of text encoders: BERT, RoBERTa, XLM-RoBERTa, CamemBERT, MPNet, ModernBERT.

Does not import torch. Source: transformers, models/modernbert/configuration_modernbert.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from model.checkpoints.formats.files import MAX_SIZE, positive_integer, unsupported
from model.config import Activation, Rotary, TextEncoderConfig
from model.errors import UnsupportedModelError

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    """The encoders of one `model_type`."""

    prefix: str  # of tensor names in files that also contain a task head
    # Maps the encoder's parameters to tensor names of the file. `{i}` is the number of a layer,
    # from 0. Some encoders have only a part of the parameters.
    names: Mapping[str, str]
    read: Callable[[Options, str], TextEncoderConfig]  # takes the file's name for messages
    # Matches the tensors that embeddings do not need, but not those of a classification head. Files
    # with such a head are therefore refused.
    ignored: re.Pattern[str]
    # Maps the suffix of a tensor's name to the suffixes of its equal parts.
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


MAX_LAYERS = 1000

ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "relu": Activation.RELU,
    "silu": Activation.SWISH,
    "swish": Activation.SWISH,
}

# Options that change the computation, with the implemented values. The first value is the default.
BERT_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "quantization_config": (None,),
}
MODERN_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "norm_bias": (False,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "quantization_config": (None,),
}

EMBEDDERS = (
    "BertModel BertForMaskedLM BertForPreTraining RobertaModel RobertaForMaskedLM "
    "XLMRobertaModel XLMRobertaForMaskedLM CamembertModel CamembertForMaskedLM MPNetModel "
    "MPNetForMaskedLM MPNetForPreTraining ModernBertModel ModernBertForMaskedLM"
).split()
"""Architectures whose hidden states serve as embeddings, as in folders of sentence-transformers.

Every other architecture has a head for another task, for which its hidden states were trained."""

BERT_ATTENTION = {
    **{f"self_attention.{name}": f"attention.self.{name}" for name in ("query", "key", "value")},
    "self_attention.out": "attention.output.dense",
    "self_residual.norm": "attention.output.LayerNorm",
}
MPNET_ATTENTION = {
    **{f"self_attention.{name}": f"attention.attn.{name[0]}" for name in ("query", "key", "value")},
    "self_attention.out": "attention.attn.o",
    "self_residual.norm": "attention.LayerNorm",
}
TABLES = {
    "embedding.tokens": "embeddings.word_embeddings.weight",
    "embedding.positions": "embeddings.position_embeddings.weight",
    "embedding.types": "embeddings.token_type_embeddings.weight",
    "relative_bias.weight": "encoder.relative_attention_bias.weight",
}
FEED_FORWARD = {
    "feed_forward.fc1": "intermediate.dense",
    "feed_forward.fc2": "output.dense",
    "feed_forward_residual.norm": "output.LayerNorm",
}

BERT_IGNORED = re.compile(
    r"(^|\.)embeddings\.(position_ids|token_type_ids)$|^pooler\.|^cls\.|^lm_head\."
)
"""position_ids and token_type_ids are constants. The pooler is a layer on the first token's vector;
sentence vectors do not need this layer. The heads cls and lm_head predict masked words."""

GLOBAL, LOCAL = "full_attention", "sliding_attention"
THETAS = {GLOBAL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
"""Maps a layer type to (option, default) of theta, the base of the rotary frequencies."""

MODERN_NAMES = {
    "embedding.tokens": "embeddings.tok_embeddings.weight",
    "embedding.norm.weight": "embeddings.norm.weight",
    "layers.{i}.self_residual.norm.weight": "layers.{i}.attn_norm.weight",
    "layers.{i}.self_attention.query.weight": "layers.{i}.attn.query",
    "layers.{i}.self_attention.key.weight": "layers.{i}.attn.key",
    "layers.{i}.self_attention.value.weight": "layers.{i}.attn.value",
    "layers.{i}.self_attention.out.weight": "layers.{i}.attn.Wo.weight",
    "layers.{i}.feed_forward_residual.norm.weight": "layers.{i}.mlp_norm.weight",
    "layers.{i}.feed_forward.fc1.weight": "layers.{i}.mlp.fc1",
    "layers.{i}.feed_forward.gate.weight": "layers.{i}.mlp.gate",
    "layers.{i}.feed_forward.fc2.weight": "layers.{i}.mlp.Wo.weight",
    "norm.weight": "final_norm.weight",
}
MODERN_SPLITS = {
    "attn.Wqkv.weight": ("attn.query", "attn.key", "attn.value"),
    "mlp.Wi.weight": ("mlp.fc1", "mlp.gate"),
}
MODERN_IGNORED = re.compile(r"^(head|decoder)\.")


def bert_names(attention: Mapping[str, str]) -> dict[str, str]:
    modules = {"embedding.norm": "embeddings.LayerNorm"}
    for ours, theirs in {**attention, **FEED_FORWARD}.items():
        modules[f"layers.{{i}}.{ours}"] = f"encoder.layer.{{i}}.{theirs}"
    return TABLES | {
        f"{ours}.{kind}": f"{theirs}.{kind}"
        for ours, theirs in modules.items()
        for kind in ("weight", "bias")
    }


def read_bert(
    options: Options,
    name: str,
    pad_id: int | None = None,
    token_types: int = 0,
    relative_buckets: int = 0,
    sizes: tuple[int, int] = (512, 30522),
) -> TextEncoderConfig:
    """Returns the config of an encoder; `sizes` are defaults of positions and vocabulary.

    Positions begin after `pad_id`, or at 0 if it is None (BERT). In RoBERTa, XLM-RoBERTa and
    CamemBERT, an option can replace `pad_id`. `token_types` is a default; 0 means no token types.
    """
    reasons = unsupported(options, BERT_SUPPORTED)
    activation = _activation(options, "hidden_act", reasons)
    eps = _number(options, "layer_norm_eps", 1e-12, reasons, limit=1)
    found = _sizes(options, reasons, 3072, 12, *sizes)
    if token_types:
        option = "type_vocab_size"
        found["token_types"] = positive_integer(options, option, token_types, reasons)
    if relative_buckets:
        found["relative_buckets"] = relative_buckets
        fixed = {"relative_attention_num_buckets": (relative_buckets,)}
        reasons += unsupported(options, fixed)
    if pad_id is not None and not reasons:
        pad_id = pad_id if relative_buckets else options.get("pad_token_id", 1)
        if isinstance(pad_id, bool) or not isinstance(pad_id, int) or pad_id < 0:
            reasons.append(f"pad_token_id is {pad_id!r}, it must be an id")
        else:
            found["position_offset"] = pad_id + 1
    return _config(name, reasons, found, activation=activation, layer_norm_eps=eps)


def read_modern_bert(options: Options, name: str) -> TextEncoderConfig:
    reasons = unsupported(options, MODERN_SUPPORTED)
    activation = _activation(options, "hidden_activation", reasons)
    sizes = _sizes(options, reasons, 1152, 22, 8192, 50368)
    window = positive_integer(options, "local_attention", 128, reasons) // 2
    thetas = {kind: _theta(options, kind, reasons) for kind in THETAS}
    kinds = _layer_types(options, sizes["layers"], reasons)
    eps = _number(options, "norm_eps", 1e-5, reasons)
    rotary = tuple(Rotary(thetas[kind], None if kind == GLOBAL else window) for kind in kinds)
    return _config(name, reasons, sizes, rotary=rotary, activation=activation, layer_norm_eps=eps)


def _config(
    name: str, reasons: list[str], sizes: Mapping[str, Any], **others: Any
) -> TextEncoderConfig:
    try:
        if not reasons:
            return TextEncoderConfig(**sizes, **others)
    except UnsupportedModelError as error:
        reasons = error.reasons
    raise UnsupportedModelError(name, reasons)


def _sizes(
    options: Options, reasons: list[str], ffn_dim: int, layers: int, positions: int, vocab: int
) -> dict[str, Any]:
    names = {
        "d_model": ("hidden_size", 768, MAX_SIZE),
        "num_heads": ("num_attention_heads", 12, MAX_SIZE),
        "ffn_dim": ("intermediate_size", ffn_dim, MAX_SIZE),
        "layers": ("num_hidden_layers", layers, MAX_LAYERS),
        "vocab_size": ("vocab_size", vocab, MAX_SIZE),
        "max_positions": ("max_position_embeddings", positions, MAX_SIZE),
    }
    return {
        ours: positive_integer(options, theirs, usual, reasons, most)
        for ours, (theirs, usual, most) in names.items()
    }


def _activation(options: Options, option: str, reasons: list[str]) -> Activation | None:
    activation = ACTIVATIONS.get(str(options.get(option, "gelu")))
    if activation is None:
        known = ", ".join(ACTIVATIONS)
        reasons.append(f"{option} is {options[option]!r}, supported: {known}")
    return activation


def _layer_types(options: Options, layers: int, reasons: list[str]) -> list[str]:
    every = positive_integer(options, "global_attn_every_n_layers", 3, reasons)
    kinds = options.get("layer_types")
    if kinds is None:
        return [LOCAL if number % every else GLOBAL for number in range(layers)]
    is_list = isinstance(kinds, list) and len(kinds) == layers
    if not is_list or any(kind not in [*THETAS] for kind in kinds):
        reasons.append(f"layer_types must name {GLOBAL} or {LOCAL} for each of {layers} layers")
        return []
    named: list[str] = kinds
    return named


def _theta(options: Options, kind: str, reasons: list[str]) -> float:
    usual = _number(options, *THETAS[kind], reasons)
    parameters = options.get("rope_parameters") or {}
    own = (parameters.get(kind) or {}) if isinstance(parameters, dict) else None
    is_plain = isinstance(own, dict) and own.get("rope_type", "default") == "default"
    if own is None or not is_plain or options.get("rope_scaling"):
        reasons.append(f"{kind} must have no rope_scaling, and no rope_type except 'default'")
        return usual
    return _number(own, "rope_theta", usual, reasons)


def _number(
    options: Options, option: str, default: float, reasons: list[str], limit: float = 1e12
) -> float:
    value = options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < limit:
        reasons.append(f"{option} is {value!r}, it must be a number above 0 and below {limit:g}")
        return default
    return float(value)


def _family(prefix: str, attention: Mapping[str, str], **defaults: Any) -> Family:
    return Family(prefix, bert_names(attention), partial(read_bert, **defaults), BERT_IGNORED)


ROBERTA = {"pad_id": 1, "token_types": 2}
FAMILIES = {
    "bert": _family("bert.", BERT_ATTENTION, token_types=2),
    "roberta": _family("roberta.", BERT_ATTENTION, **ROBERTA, sizes=(512, 50265)),
    "xlm-roberta": _family("roberta.", BERT_ATTENTION, **ROBERTA),
    "camembert": _family("roberta.", BERT_ATTENTION, **ROBERTA),
    "mpnet": _family("mpnet.", MPNET_ATTENTION, pad_id=1, relative_buckets=32, sizes=(512, 30527)),
    "modernbert": Family("model.", MODERN_NAMES, read_modern_bert, MODERN_IGNORED, MODERN_SPLITS),
}


def check_embedder(options: Options, name: str) -> None:
    """Refuses a model whose config names an architecture that is not in `EMBEDDERS`.

    If the config names none, a head is refused when the weights are read.
    """
    named = options.get("architectures") or []
    if not isinstance(named, list) or any(each not in EMBEDDERS for each in named):
        reason = (
            f"architectures is {named!r}; models that embed are {', '.join(EMBEDDERS)}. A head for "
            "another task gives no embeddings: serve an embedding model, or the model that this "
            "one was fine-tuned from"
        )
        raise UnsupportedModelError(name, [reason])


def family_of(options: Options, name: str) -> Family:
    model_type = options.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        known = ", ".join(FAMILIES)
        raise UnsupportedModelError(name, [f"model_type is {model_type!r}, supported: {known}"])
    return family


def read_config(options: Options, name: str) -> TextEncoderConfig:
    return family_of(options, name).read(options, name)
