"""Lists the families of text encoders, by `model_type`. Does not import torch."""

from itertools import chain

from model.checkpoints.families import bert, deberta, language_models, rotary_bert
from model.checkpoints.families.encoder_family import Family, Options
from model.config import TextEncoderConfig
from model.errors import UnsupportedModelError

FAMILIES: dict[str, Family] = {
    **bert.FAMILIES,
    **deberta.FAMILIES,
    **rotary_bert.FAMILIES,
    **language_models.FAMILIES,
}

EMBEDDERS = [*dict.fromkeys(chain.from_iterable(each.embedders for each in FAMILIES.values()))]


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
    if model_type == "bert" and options.get("position_embedding_type") == "alibi":
        model_type = bert.JINA
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        known = ", ".join(FAMILIES)
        raise UnsupportedModelError(name, [f"model_type is {model_type!r}, supported: {known}"])
    return family


def read_config(options: Options, name: str) -> TextEncoderConfig:
    return family_of(options, name).read(options, name)
