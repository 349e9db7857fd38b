"""Lists the families of text encoders, by `model_type`, and their heads that score masked words.

Does not import torch.

Source of the heads: transformers, `*ForMaskedLM`; sentence-transformers, sparse_encoder/models.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.checkpoints.families import bert, rotary
from model.checkpoints.families.encoder_family import ACTIVATIONS, Family, Options
from model.config import SparseConfig, TextEncoderConfig
from model.errors import UnsupportedModelError

FAMILIES: dict[str, Family] = {**bert.FAMILIES, **rotary.FAMILIES}

EMBEDDERS = [*dict.fromkeys(name for each in FAMILIES.values() for name in each.embedders)]

# Maps a `model_type` to the names of the head: linear layer, layer norm and bias.
MASKED_BERT = "cls.predictions.transform"
MASKED_HEADS = {
    "bert": (f"{MASKED_BERT}.dense", f"{MASKED_BERT}.LayerNorm", "cls.predictions.bias"),
    "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "camembert", "mpnet"),
        ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    ),
}
MASKED_ACTIVATION = {"bert": "hidden_act", "distilbert": "activation"}
"""The option with the activation of the head; it is fixed in other families."""

SPLADE_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "pooling_strategy": ("max", "sum"),
    "activation_function": ("relu", "log1p_relu"),
}


def check_embedder(options: Mapping[str, Any], name: str) -> None:
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


def family_of(options: Mapping[str, Any], name: str) -> Family:
    model_type = options.get("model_type")
    if model_type == "bert" and options.get("position_embedding_type") == "alibi":
        model_type = bert.JINA
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        known = ", ".join(FAMILIES)
        raise UnsupportedModelError(name, [f"model_type is {model_type!r}, supported: {known}"])
    return family


def read_config(options: Mapping[str, Any], name: str) -> TextEncoderConfig:
    found = Options(options, name)
    found.check({"quantization_config": (None,)})
    return family_of(options, name).read(found)


def read_splade(encoder: Mapping[str, Any], path: Path) -> SparseConfig:
    """Returns the config of SPLADE's head, given the options of its encoder, and its own file."""
    options, kind = Options.of(path), str(encoder.get("model_type"))
    options.check(SPLADE_SUPPORTED)
    activation = str(encoder.get(MASKED_ACTIVATION.get(kind, ""), "gelu"))
    if kind not in MASKED_HEADS or activation not in ACTIVATIONS:
        known = ", ".join(MASKED_HEADS)
        options.reasons.append(f"its encoder is {kind!r} with {activation}, supported: {known}")
    if encoder.get("tie_word_embeddings") is False:
        options.reasons.append("the matrix of its output layer is not the token table")
    options.refuse()
    return SparseConfig(
        ACTIVATIONS[activation],
        1e-12 if kind == "distilbert" else float(encoder.get("layer_norm_eps", 1e-12)),
        is_sum=options.get("pooling_strategy") == "sum",
        num_logs=2 if options.get("activation_function") == "log1p_relu" else 1,
    )
