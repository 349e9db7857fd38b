"""Settings of the device workers."""

import re
from typing import Literal

from pydantic import BaseModel, Field, field_validator

from service.settings.types import PositiveInt

DEVICE = re.compile(r"auto|cpu|cuda(?::[0-9]+)?")

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8", "fp32", "bf16", "fp16"]
"""Names that `model.precision.select_precision` takes."""


class DeviceSettings(BaseModel):
    """Holds the device, the precision, and the sizes of batches."""

    device: str = Field(
        "auto",
        description="Device of the models: auto, cpu, cuda or cuda:N. `auto` and `cuda` use "
        "all GPUs.",
    )
    dtype: Dtype = Field(
        "auto",
        description="Precision: auto, float32 (fp32), bfloat16 (bf16), float16 (fp16) on a GPU, or "
        "int8 on a CPU. "
        "`auto` takes the fastest precision that keeps the quality.",
    )
    shortlist: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Restrict output to the lexical shortlist, the likely tokens for a source. "
        "`auto` does so only on a CPU.",
    )
    workers: int = Field(
        0,
        ge=0,
        description="Number of device workers of each device. `0` starts one for each CPU core, or "
        "one for each GPU.",
    )
    worker_niceness: int = Field(
        0,
        ge=0,
        le=19,
        description="Niceness that is added to device workers on a CPU. The HTTP process has no "
        "added niceness, so it goes before workers with a niceness above 0.",
    )
    max_rows: int = Field(
        0,
        ge=0,
        description="Largest number of rows of one model that a worker decodes at once. A sentence "
        "takes one row for each hypothesis of its beam. `0` allows 64 rows on a CPU, and up to "
        "1024 on a GPU.",
    )
    max_batch_tokens: PositiveInt = Field(
        4096,
        description="Largest number of source tokens, including padding, that a worker encodes at "
        "once for translations. Native code encodes at most 1024.",
    )
    attention_share: float = Field(
        0.11,
        gt=0,
        lt=1,
        description="Share of a device worker's time that attention gets while the worker has "
        "other work.",
    )

    @field_validator("device")
    @classmethod
    def _is_device(cls, device: str) -> str:
        if DEVICE.fullmatch(device) is None:
            raise ValueError("the device must be auto, cpu, cuda or cuda:N")
        return device
