"""What can go wrong in the model package.

ModelError
├─ CheckpointError                  a model's files cannot be used
│  ├─ CheckpointNotFoundError       a file or package is not there
│  ├─ CheckpointFormatError         a file is cut short or is not what its name says
│  ├─ UnsupportedModelError         options that this package does not implement, all at once
│  └─ WeightMismatchError           tensors missing, left over, or of another shape, all at once
├─ DeviceError                      a device or precision that this machine does not have
└─ InputError                       a request that the model cannot take
   ├─ EmptySourceError              no tokens at all
   ├─ SourceTooLongError            more tokens than the model's limit
   ├─ UnknownTokenError             an id outside the vocabulary
   ├─ BeamSizeError                 more hypotheses than rows
   ├─ FirstTokenError               a beginning of a target that the model does not take
   └─ AttentionQueryError           attention that the model does not have
"""


class ModelError(Exception):
    """The root of every error of this package."""


class CheckpointError(ModelError):
    """A model's files cannot be used."""


class CheckpointNotFoundError(CheckpointError):
    """A file, folder or package of the model is not there."""


class CheckpointFormatError(CheckpointError):
    """A file is damaged, or is not what its name says."""


class UnsupportedModelError(CheckpointError):
    """The checkpoint asks for options that are not implemented.

    Args:
        name: The file that asks.
        reasons: Every reason found, not only the first.
    """

    def __init__(self, name: str, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__(f"{name} is not supported: " + "; ".join(reasons))


class WeightMismatchError(CheckpointError):
    """The tensors of the file and the parameters of the model do not pair up.

    Args:
        missing: Parameters that no tensor fills.
        unexpected: Tensors that fill nothing.
        shapes: Pairs whose shapes differ, with both shapes.
        name: The file, where it is known.
    """

    def __init__(
        self, missing: list[str], unexpected: list[str], shapes: list[str], name: str = ""
    ) -> None:
        named = {"missing": missing, "unexpected": unexpected, "shapes differ": shapes}
        reasons = "; ".join(f"{k}: {', '.join(v)}" for k, v in named.items() if v)
        super().__init__(f"{name} does not fit the model: {reasons}" if name else reasons)


class DeviceError(ModelError):
    """The device or the precision asked for is not on this machine."""


class InputError(ModelError):
    """The model cannot take this input."""


class EmptySourceError(InputError):
    """The source has no tokens."""


class SourceTooLongError(InputError):
    """The source has more tokens than the model's limit."""


class UnknownTokenError(InputError):
    """A token id is outside the vocabulary."""


class BeamSizeError(InputError):
    """A sequence wants more rows than the batch has."""


class FirstTokenError(InputError):
    """A target cannot begin with that token."""


class AttentionQueryError(InputError):
    """What is asked for is no attention of this model, or cannot be combined."""
