"""Reads the options of BERT, RoBERTa, XLM-RoBERTa, CamemBERT and MPNet encoders.

Does not import torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.checkpoints.formats.json_files import MAX_SIZE, positive_integer, unsupported
from model.config import Activation
from model.embedding_config import TextEncoderConfig
from model.errors import UnsupportedModelError

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
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "quantization_config": (None,),
}


@dataclass(frozen=True, slots=True)
class Family:
    """The properties and defaults of one `model_type`.

    Attributes:
        prefix: Prefix of the tensor names in files that also contain a task head.
        attention: Maps our names of the attention modules and the norm after them to the names in
            the file.
        pad_id: Padding id of MPNet, and default of the padding id of other families. None if
            positions are not counted from the padding id.
        token_types: Default of `type_vocab_size`; 0 if the family has no token types.
        relative_buckets: The fixed `relative_attention_num_buckets`; 0 if the family has no
            relative positions.
        sizes: Defaults of (max_position_embeddings, vocab_size).
    """

    prefix: str
    attention: Mapping[str, str]
    pad_id: int | None = None
    token_types: int = 0
    relative_buckets: int = 0
    sizes: tuple[int, int] = (512, 30522)


BERT_ATTENTION = {
    "self_attention.query": "attention.self.query",
    "self_attention.key": "attention.self.key",
    "self_attention.value": "attention.self.value",
    "self_attention.out": "attention.output.dense",
    "self_residual.norm": "attention.output.LayerNorm",
}
MPNET_ATTENTION = {
    "self_attention.query": "attention.attn.q",
    "self_attention.key": "attention.attn.k",
    "self_attention.value": "attention.attn.v",
    "self_attention.out": "attention.attn.o",
    "self_residual.norm": "attention.LayerNorm",
}
FAMILIES = {
    "bert": Family("bert.", BERT_ATTENTION, token_types=2),
    "roberta": Family("roberta.", BERT_ATTENTION, 1, token_types=2, sizes=(512, 50265)),
    "xlm-roberta": Family("roberta.", BERT_ATTENTION, 1, token_types=2, sizes=(512, 30522)),
    "camembert": Family("roberta.", BERT_ATTENTION, 1, token_types=2, sizes=(512, 30522)),
    "mpnet": Family("mpnet.", MPNET_ATTENTION, 1, relative_buckets=32, sizes=(512, 30527)),
}

EMBEDDERS = (
    "BertModel",
    "BertForMaskedLM",
    "BertForPreTraining",
    "RobertaModel",
    "RobertaForMaskedLM",
    "XLMRobertaModel",
    "XLMRobertaForMaskedLM",
    "CamembertModel",
    "CamembertForMaskedLM",
    "MPNetModel",
    "MPNetForMaskedLM",
    "MPNetForPreTraining",
)
"""Architectures whose hidden states serve as embeddings, as in folders of sentence-transformers.

Every other architecture, such as BertForSequenceClassification, has a head for another task. Its
hidden states were trained for that head, so they are of no use as embeddings.
"""


def check_embedder(options: Mapping[str, Any], name: str) -> None:
    """Refuses a model that was trained for a task other than to embed or to fill in words.

    A config that names no architecture passes this check. If the model has a head for another
    task, the tensors of the head are refused when the weights are read.

    Args:
        options: Content of a `config.json`.
        name: The file, for messages.

    Raises:
        UnsupportedModelError: `architectures` names a class that is not in `EMBEDDERS`.
    """
    named = options.get("architectures") or []
    if not isinstance(named, list) or any(each not in EMBEDDERS for each in named):
        reason = (
            f"architectures is {named!r}; models that embed are {', '.join(EMBEDDERS)}. A head for "
            "another task gives no embeddings: serve an embedding model, or the model that this "
            "one was fine-tuned from"
        )
        raise UnsupportedModelError(name, [reason])


def family_of(options: Mapping[str, Any], name: str) -> Family:
    """Returns the family that a `config.json` names.

    Raises:
        UnsupportedModelError: The family is not implemented.
    """
    model_type = options.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        known = ", ".join(FAMILIES)
        raise UnsupportedModelError(name, [f"model_type is {model_type!r}, supported: {known}"])
    return family


def read_config(options: Mapping[str, Any], name: str) -> TextEncoderConfig:
    """Returns the config of an encoder. Missing sizes get the defaults of the family.

    Args:
        options: The content of a `config.json`.
        name: The file, for messages.

    Raises:
        UnsupportedModelError: Options are not implemented or have wrong values. The error lists
            all of them, except for a wrong padding id.
    """
    family = family_of(options, name)
    reasons = unsupported(options, SUPPORTED)
    activation = ACTIVATIONS.get(str(options.get("hidden_act", "gelu")))
    if activation is None:
        known = ", ".join(ACTIVATIONS)
        reasons.append(f"hidden_act is {options['hidden_act']!r}, supported: {known}")
    eps = options.get("layer_norm_eps", 1e-12)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 <= eps < 1:
        reasons.append(f"layer_norm_eps is {eps!r}, it must be at least 0 and below 1")
    sizes = _sizes(options, family, reasons)
    if reasons or activation is None:
        raise UnsupportedModelError(name, reasons)
    return _config(sizes, _position_offset(options, family, name), activation, float(eps), name)


def _sizes(options: Mapping[str, Any], family: Family, reasons: list[str]) -> dict[str, int]:
    """Returns the sizes by their names in `TextEncoderConfig`; adds wrong sizes to `reasons`."""

    def size(option: str, default: int, most: int = MAX_SIZE) -> int:
        return positive_integer(options, option, default, reasons, most)

    sizes = {
        "d_model": size("hidden_size", 768),
        "num_heads": size("num_attention_heads", 12),
        "ffn_dim": size("intermediate_size", 3072),
        "layers": size("num_hidden_layers", 12, MAX_LAYERS),
        "vocab_size": size("vocab_size", family.sizes[1]),
        "max_positions": size("max_position_embeddings", family.sizes[0]),
    }
    if family.token_types:
        sizes["token_types"] = size("type_vocab_size", family.token_types)
    if family.relative_buckets:
        sizes["relative_buckets"] = family.relative_buckets
        fixed = {"relative_attention_num_buckets": (family.relative_buckets,)}
        reasons += unsupported(options, fixed)
    return sizes


def _config(
    sizes: dict[str, int], offset: int, activation: Activation, eps: float, name: str
) -> TextEncoderConfig:
    try:
        return TextEncoderConfig(
            **sizes, position_offset=offset, activation=activation, layer_norm_eps=eps
        )
    except UnsupportedModelError as error:
        raise UnsupportedModelError(name, error.reasons) from error


def _position_offset(options: Mapping[str, Any], family: Family, name: str) -> int:
    """Returns the row of the position table for the first token.

    BERT begins at row 0. All other families begin after the row of the padding id. MPNet has a
    fixed padding id. In RoBERTa, XLM-RoBERTa and CamemBERT, an option gives the padding id.
    """
    if family.pad_id is None:
        return 0
    pad_id = family.pad_id if family.relative_buckets else options.get("pad_token_id", 1)
    if isinstance(pad_id, bool) or not isinstance(pad_id, int) or pad_id < 0:
        raise UnsupportedModelError(name, [f"pad_token_id is {pad_id!r}, it must be an id"])
    return pad_id + 1
