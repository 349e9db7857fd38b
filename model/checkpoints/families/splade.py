"""Reads the head of SPLADE models, which score masked words. Does not import torch.

Source: sentence-transformers, sparse_encoder/models; transformers, `*ForMaskedLM`.
"""

from pathlib import Path
from typing import Any

from model.checkpoints.families.encoder_family import ACTIVATIONS, Options
from model.checkpoints.formats.files import read_options, unsupported
from model.config import SparseConfig
from model.errors import UnsupportedModelError

MODULE = "SpladePooling"
ENCODERS = ("MLMTransformer", "Transformer")

SUPPORTED: dict[str, tuple[Any, ...]] = {
    "pooling_strategy": ("max", "sum"),
    "activation_function": ("relu", "log1p_relu"),
}

# Maps a `model_type` to the names of its head: linear layer, layer norm and bias.
BERT = "cls.predictions.transform"
HEADS = {
    "bert": (f"{BERT}.dense", f"{BERT}.LayerNorm", "cls.predictions.bias"),
    "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "camembert", "mpnet"),
        ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    ),
}
ACTIVATION = {"bert": "hidden_act", "distilbert": "activation"}
"""The option with the activation of the head; it is fixed in other families."""


def read_splade(options: Options, module: Path) -> SparseConfig:
    """Returns the config of the head; `options` are the encoder's, `module` has the pooling's."""
    kind, pooling = str(options.get("model_type")), read_options(module)
    reasons = unsupported(pooling, SUPPORTED)
    activation = str(options.get(ACTIVATION.get(kind, ""), "gelu"))
    if kind not in HEADS or activation not in ACTIVATIONS:
        reasons.append(f"its encoder is {kind!r} with {activation}, supported: {', '.join(HEADS)}")
    if options.get("tie_word_embeddings") is False:
        reasons.append("the matrix of its output layer is not the token table")
    if reasons:
        raise UnsupportedModelError(str(module), reasons)
    return SparseConfig(
        ACTIVATIONS[activation],
        1e-12 if kind == "distilbert" else float(options.get("layer_norm_eps", 1e-12)),
        is_sum=pooling.get("pooling_strategy") == "sum",
        num_logs=2 if pooling.get("activation_function") == "log1p_relu" else 1,
    )
