"""Lists the families of text encoders, and the architectures that give embeddings.

Does not import torch.
"""

from model.checkpoints.families import bert, modern_bert
from model.checkpoints.families.bert import Family, Options
from model.embedding_config import TextEncoderConfig
from model.errors import UnsupportedModelError

FAMILIES: dict[str, Family] = {**bert.FAMILIES, "modernbert": modern_bert.FAMILY}
"""All families by `model_type`."""

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
    "ModernBertModel",
    "ModernBertForMaskedLM",
)
"""Architectures whose hidden states serve as embeddings, as in folders of sentence-transformers.

Every other architecture, such as BertForSequenceClassification, has a head for another task. Its
hidden states were trained for that head, so they are of no use as embeddings.
"""


def check_embedder(options: Options, name: str) -> None:
    """Refuses a model whose config names an architecture that is not in `EMBEDDERS`.

    A config that names no architecture passes this check. If such a model has a head for another
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


def family_of(options: Options, name: str) -> Family:
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


def read_config(options: Options, name: str) -> TextEncoderConfig:
    """Returns the config of an encoder.

    Args:
        options: The content of a `config.json`.
        name: The file, for messages.

    Raises:
        UnsupportedModelError: The family or an option is not implemented.
    """
    return family_of(options, name).read(options, name)
