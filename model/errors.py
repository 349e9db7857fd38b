"""Defines the errors of the model package.

ModelError
├─ CheckpointError                  the model's files cannot be used
│  ├─ CheckpointNotFoundError       a file, folder or package does not exist
│  ├─ CheckpointFormatError         a file is damaged or of a wrong format, or a part is missing
│  ├─ UnsupportedModelError         the checkpoint uses unsupported options (all are listed)
│  └─ WeightMismatchError           tensors are missing, unexpected or misshapen (all are listed)
├─ DeviceError                      the device or precision is unknown or not available
└─ InputError                       the model cannot process the input
   ├─ EmptySourceError              the source has no tokens
   ├─ SourceTooLongError            the source has more tokens than the limit
   ├─ UnknownTokenError             a token id is outside the vocabulary
   ├─ BeamSizeError                 the beam size is below 1, or needs more rows than are free
   ├─ FirstTokenError               the target cannot begin with the given token
   └─ AttentionQueryError           the model cannot answer the attention query
"""


class ModelError(Exception):
    """The base class of every error in this package."""


class CheckpointError(ModelError):
    """The model's files cannot be used."""


class CheckpointNotFoundError(CheckpointError):
    """A file, folder or package of the model does not exist."""


class CheckpointFormatError(CheckpointError):
    """A file is damaged or is not of the format that its name says, or a model is incomplete."""


class UnsupportedModelError(CheckpointError):
    """The checkpoint uses options that are not implemented, or its languages are unknown.

    Args:
        name: Name of the file or folder, or a phrase such as "this configuration".
        reasons: All reasons found, not only the first.
    """

    def __init__(self, name: str, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__(f"{name} is not supported: " + "; ".join(reasons))


class WeightMismatchError(CheckpointError):
    """The tensors of the file do not match the parameters of the model.

    Args:
        missing: Expected tensors that are not in the file, and parameters that the name table does
            not contain.
        unexpected: Tensors without a parameter.
        shapes: Tensors whose shape differs from their parameter's shape, with both shapes.
        name: Name of the file, if known.
    """

    def __init__(
        self, missing: list[str], unexpected: list[str], shapes: list[str], name: str = ""
    ) -> None:
        named = {"missing": missing, "unexpected": unexpected, "shapes differ": shapes}
        reasons = "; ".join(f"{k}: {', '.join(v)}" for k, v in named.items() if v)
        super().__init__(f"{name} does not fit the model: {reasons}" if name else reasons)


class DeviceError(ModelError):
    """The requested device or precision is unknown, or the machine does not have it."""


class InputError(ModelError):
    """The model cannot process this input."""


class EmptySourceError(InputError):
    """The source has no tokens."""


class SourceTooLongError(InputError):
    """The source has more tokens than the model's limit."""


class UnknownTokenError(InputError):
    """A token id is outside the vocabulary."""


class BeamSizeError(InputError):
    """The beam size is below 1, or more rows are needed than are free in the batch."""


class FirstTokenError(InputError):
    """The model never generates the given first token, or accepts no first token at all."""


class AttentionQueryError(InputError):
    """The model cannot answer the attention query, or the query's options exclude each other."""
