"""Time limits, in seconds."""

from typing import Annotated

from pydantic import BaseModel, Field

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TimeSettings(BaseModel):
    """Holds the time limits."""

    request_timeout_seconds: Seconds = Field(
        60.0,
        description="Time after which an unanswered request gets 504.",
    )
    file_timeout_seconds: Seconds = Field(
        600.0,
        description="Time limit for the translation of a document. After it, the request gets 504.",
    )
    file_retention_seconds: Seconds = Field(
        1800.0,
        description="Time that a translated document is kept for its download.",
    )
    header_timeout_seconds: Seconds = Field(
        10.0,
        description="Time in which the headers of a request must arrive. After it, the connection "
        "gets 408 and is closed.",
    )
    idle_timeout_seconds: Seconds = Field(
        75.0,
        description="Time after which a connection without a request is closed. A proxy in front "
        "of the server should close its connections earlier.",
    )
    write_timeout_seconds: Seconds = Field(
        30.0,
        description="Time after which a connection is closed if its client reads nothing of a "
        "reply.",
    )
    drain_delay_seconds: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="Time after SIGTERM for which new requests are still served, while "
        "/health/ready answers 503.",
    )
    drain_timeout_seconds: Seconds = Field(
        30.0,
        description="Time that requests in progress get to finish after SIGTERM and the "
        "drain delay.",
    )
    worker_timeout_seconds: Seconds = Field(
        20.0,
        description="A busy device worker or an HTTP process that sends no message for this time "
        "is replaced.",
    )
