"""The times of the device that a sleeping model stands for."""

from dataclasses import dataclass

VARIABLE = "SLEEPING_PACE"
"""Environment variable by which the worker gets its Pace, as a JSON object of its fields."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a device, in milliseconds.

    Attributes:
        step_ms: Time of a decode step without its rows.
        row_ms: Time that each row adds to a decode step.
        encode_ms: Time that each source token takes in the encoder.
    """

    step_ms: float = 20.0
    row_ms: float = 0.1
    encode_ms: float = 0.02

    @property
    def arguments(self) -> list[str]:
        """The flags of `sleeping.server` for this pace."""
        return [
            *("--step-ms", str(self.step_ms)),
            *("--row-ms", str(self.row_ms)),
            *("--encode-ms", str(self.encode_ms)),
        ]
