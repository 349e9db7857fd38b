"""The compute times of the device that a sleeping model imitates."""

from dataclasses import dataclass

VARIABLE = "SLEEPING_PACE"
"""Environment variable that passes the Pace to the worker, as a JSON object of the fields."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a device, in milliseconds."""

    step_ms: float = 20.0  # fixed time of a decode step, to which each row adds `row_ms`
    row_ms: float = 0.1  # time that each row adds to a decode step
    encode_ms: float = 0.02  # time that each source token takes in the encoder
