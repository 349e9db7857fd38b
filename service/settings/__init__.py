"""The settings of the server. Each field has its own environment variable.

types       types that several groups use
keys        API keys and the file of keys
network     addresses, keys, stored data
models      served models and registries
device      device workers and batches
limits      limits of requests
durations   time limits
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, PrivateAttr
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.logs import LogFormat
from service.settings.device import DeviceSettings
from service.settings.durations import TimeSettings
from service.settings.limits import LimitSettings
from service.settings.models import ModelSettings
from service.settings.network import NetworkSettings


class Settings(
    # pydantic validates the last class first. The validators of a group may therefore read the
    # fields of the groups below it in this list.
    TimeSettings,
    LimitSettings,
    DeviceSettings,
    ModelSettings,
    NetworkSettings,
    BaseSettings,
):
    """Holds the settings. The environment variable REGARD_<NAME> sets the field of that name."""

    model_config = SettingsConfigDict(
        env_prefix="REGARD_",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,  # a wrong value may be a key
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level of logged messages. Texts and keys are never logged."
    )

    log_format: LogFormat = Field(
        "text", description="text, or json: one JSON object in each line of the log."
    )

    _placements: dict[str, tuple[str, str]] = PrivateAttr(default_factory=dict)

    def with_models(
        self, models: Sequence[str], placements: Mapping[str, tuple[str, str]]
    ) -> "Settings":
        """Returns a copy of the settings with models that have been located.

        Args:
            models: Folders of the models, and references to packages and remote models.
            placements: Maps the folder of a model to its device and dtype. Both values come from a
                manifest, a file that lists the models of a server. "" stands for the server's own
                setting.
        """
        found = self.model_copy(update={"models": tuple(models)})
        found._placements = dict(placements)
        return found

    @property
    def placements(self) -> Mapping[str, tuple[str, str]]:
        """Maps the folder of a model to the device and dtype that a manifest gives to it."""
        return self._placements
