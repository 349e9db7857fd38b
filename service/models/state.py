"""States of a model while the server runs."""

from typing import Literal

ModelState = Literal["loading", "ready", "unloading", "failed"]
"""State of one model, as `GET /v1/models` reports it."""
