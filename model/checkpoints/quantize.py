"""Replaces the matrices of a filled translation model with int8 matrices."""

from collections.abc import Mapping

from torch import nn

from model.architectures.embedding import Embedding
from model.architectures.seq2seq import EncoderDecoder
from model.precision import Precision
from model.quantization.int8 import Int8Linear, QuantizedMatrix, quantize_matrix


def quantize(model: EncoderDecoder, matrices: Mapping[str, QuantizedMatrix]) -> None:
    """Replaces matrices of a filled model by int8 matrices, and sets its precision to int8.

    Args:
        model: The filled model.
        matrices: Maps the name of each replaced parameter to its int8 matrix. The name
            `encoder.embedding.weight` must be in the map.
    """
    for parameter, matrix in matrices.items():
        path, _, _ = parameter.rpartition(".")
        module = model.get_submodule(path)
        if isinstance(module, nn.Linear):
            owner, _, name = path.rpartition(".")
            setattr(model.get_submodule(owner), name, Int8Linear(matrix, module.bias))
        elif isinstance(module, Embedding):
            module.quantize(matrix)
    shared = matrices["encoder.embedding.weight"]
    tied = matrices.get("decoder.embedding.weight", shared)
    model.decoder.quantize(matrices.get("decoder.untied_weight", tied))
    model.precision = Precision.INT8


def quantize_floats(model: EncoderDecoder) -> None:
    """Rounds the matrices of a filled model to int8. The model must be in float32 on the CPU."""
    parameters = [(name, each.detach()) for name, each in model.named_parameters()]
    quantize(
        model,
        {name: quantize_matrix(each.numpy()) for name, each in parameters if each.dim() == 2},
    )
