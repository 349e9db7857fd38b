"""The states of a model while the server runs."""

from typing import Literal

State = Literal["loading", "ready", "unloading", "failed"]
