"""Defines the errors of the model package.

ModelError
├─ CheckpointError                  the model's files cannot be used
│  ├─ CheckpointNotFoundError       a file, folder or package does not exist
│  ├─ CheckpointFormatError         a file is damaged or of a wrong format, or a part is missing
│  ├─ UnsupportedModelError         the checkpoint uses unsupported options (all are listed)
│  └─ WeightMismatchError           tensors are missing, unexpected or misshapen (all are listed)
├─ DeviceError                      the device or precision is unknown or not available
└─ InputError                       the model cannot process the input
   └─ AttentionQueryError           the model cannot answer the attention query
"""


class ModelError(Exception): ...


class CheckpointError(ModelError): ...


class CheckpointNotFoundError(CheckpointError): ...


class CheckpointFormatError(CheckpointError): ...


class UnsupportedModelError(CheckpointError):
    """The error of all unsupported options, or of unknown languages.

    `name` is a file or folder, or a phrase such as "this configuration"; `reasons` are all found.
    """

    def __init__(self, name: str, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__(f"{name} is not supported: " + "; ".join(reasons))


class WeightMismatchError(CheckpointError):
    """The error of all tensors that do not match the parameters of the model.

    `missing` are tensors and parameters without a partner, `unexpected` are tensors without a
    parameter, and `shapes` have both shapes.
    """

    def __init__(
        self, missing: list[str], unexpected: list[str], shapes: list[str], name: str = ""
    ) -> None:
        named = {"missing": missing, "unexpected": unexpected, "shapes differ": shapes}
        reasons = "; ".join(f"{k}: {', '.join(v)}" for k, v in named.items() if v)
        super().__init__(f"{name} does not fit the model: {reasons}" if name else reasons)


class DeviceError(ModelError): ...


class InputError(ModelError): ...


class AttentionQueryError(InputError): ...
