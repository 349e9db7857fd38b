"""Rounds a translation model to int8, and has samples to compare a rounded model with float32."""

from collections.abc import Mapping

from torch import nn

from model.architectures.embedding import Embedding
from model.architectures.seq2seq import EncoderDecoder
from model.precision import Precision
from model.quantization.int8 import Int8Linear, QuantizedMatrix, quantize_matrix


def quantize(model: EncoderDecoder, matrices: Mapping[str, QuantizedMatrix]) -> None:
    """Replaces matrices by int8 matrices, given by the names of their parameters."""
    for parameter, matrix in matrices.items():
        path, _, kind = parameter.rpartition(".")
        module = model.get_submodule(path)
        if isinstance(module, nn.Linear):
            owner, _, name = path.rpartition(".")
            setattr(model.get_submodule(owner), name, Int8Linear(matrix, module.bias))
        elif isinstance(module, Embedding) and kind == "weight":  # a table of positions stays
            module.quantize(matrix)
    shared = matrices["encoder.embedding.weight"]
    if model.config.shared_embeddings and model.config.max_positions:
        model.decoder.embedding.quantize(shared)
    tied = matrices.get("decoder.embedding.weight", shared)
    model.decoder.quantize(matrices.get("decoder.untied_weight", tied))
    model.precision = Precision.INT8


def quantize_floats(model: EncoderDecoder) -> None:
    """Rounds the matrices of a filled model to int8. The model must be in float32 on the CPU."""
    parameters = [(name, each.detach()) for name, each in model.named_parameters()]
    quantize(
        model, {name: quantize_matrix(each.numpy()) for name, each in parameters if each.dim() == 2}
    )


SAMPLES = {
    "en": (
        "The library opens at nine, but on Sundays it stays closed.",
        "She had never seen so many birds on the lake before.",
        "Please send us the signed form by the end of the month.",
        "The engineers found out why the bridge moved in the wind.",
    ),
    "pt": (
        "A biblioteca abre às nove, mas aos domingos fica fechada.",
        "Ela nunca tinha visto tantos pássaros no lago.",
    ),
    "es": (
        "La biblioteca abre a las nueve, pero los domingos está cerrada.",
        "Nunca había visto tantos pájaros en el lago.",
    ),
    "fr": (
        "La bibliothèque ouvre à neuf heures, mais elle est fermée le dimanche.",
        "Elle n'avait jamais vu autant d'oiseaux sur le lac.",
    ),
    "de": (
        "Die Bibliothek öffnet um neun, aber sonntags bleibt sie geschlossen.",
        "Sie hatte noch nie so viele Vögel auf dem See gesehen.",
    ),
    "it": ("La biblioteca apre alle nove, ma la domenica resta chiusa.",),
    "ru": ("Библиотека открывается в девять, но по воскресеньям она закрыта.",),
    "zh": ("图书馆九点开门，但是星期天不开门。",),
}
"""Sample sentences. A translation model gets those of a source language, or else all."""

DEGENERATE = ("word " * 100, "....", "1 2 3 4 5 6 7 8 9", "a" * 30, "!!!! ???? ....", "x")
"""Texts in which most tokens attend to a few tokens, whose rounding errors do not cancel out."""


def all_samples() -> list[str]:
    return [text for each in SAMPLES.values() for text in each]
