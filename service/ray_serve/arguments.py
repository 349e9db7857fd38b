"""The arguments of the application. A configuration of Ray Serve lists them under `args`."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Arguments(BaseModel):
    """Holds the resources of a replica, the number of replicas, and settings of the server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_cpus: float = Field(
        default=1.0,
        gt=0,
        description="CPU cores of a replica. A replica without GPUs starts a device worker for "
        "each whole core.",
    )
    num_gpus: float = Field(
        default=0.0,
        ge=0,
        description="GPUs of a replica. A replica with GPUs starts a device worker for each GPU.",
    )
    min_replicas: int = Field(default=1, ge=1, description="Smallest number of replicas.")
    max_replicas: int = Field(default=1, ge=1, description="Largest number of replicas.")
    max_replicas_per_node: int = Field(
        default=0,
        ge=0,
        le=100,
        description="Largest number of replicas on one node. `0` sets no limit.",
    )
    target_queued_tokens: float = Field(
        default=8192.0,
        gt=0,
        description="Number of waiting source tokens for which one replica is enough.",
    )
    upscale_delay_seconds: float = Field(
        default=10.0,
        ge=0,
        description="Time for which more replicas must be needed before they start.",
    )
    downscale_delay_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Time for which fewer replicas must be enough before they end.",
    )
    max_ongoing_requests: int = Field(
        default=0,
        ge=0,
        description="Largest number of requests that Ray Serve sends to a replica at once. `0` "
        "means twice REGARD_MAX_PENDING_REQUESTS.",
    )
    settings: Mapping[str, str | int | float | bool] = Field(
        default_factory=dict,
        description="Settings of the server, such as `dtype: int8`. They override REGARD_DTYPE "
        "and the other variables in the environment of a replica.",
    )

    @model_validator(mode="after")
    def _has_room(self) -> "Arguments":
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas is {self.max_replicas}, and min_replicas is {self.min_replicas}; "
                "raise max_replicas"
            )
        return self
