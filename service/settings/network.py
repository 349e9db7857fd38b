"""Settings of the network, of the keys, and of the data that is stored."""

import re
from pathlib import Path

from pydantic import BaseModel, Field, SecretStr, ValidationInfo, field_validator

from service.settings.keys import KEYS_FILE, listed_keys, read_keys
from service.settings.types import NO_SECRET, Names, split_names

HOST = re.compile(r"[*]|(?:[*][.])?[^*:/?#\s]+")
ORIGIN = re.compile(r"[*]|null|[a-z][a-z0-9+.-]*://[^*/?#\s]+/?", re.IGNORECASE)


class NetworkSettings(BaseModel):
    """Holds the addresses, the keys and the stored data of the server."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on.")
    admin_host: str = Field(
        "",
        description="Address to listen on for the admin port; needs REGARD_ADMIN_PORT. Empty means "
        "REGARD_HOST.",
    )
    admin_port: int = Field(
        0,
        validate_default=True,
        ge=0,
        le=65535,
        description="Second port. If it is set, only this port serves /metrics and the routes that "
        "load and unload models. `0` serves these routes on REGARD_PORT.",
    )
    http_workers: int = Field(
        0,
        ge=0,
        description="Number of HTTP processes. `0` starts one process if the models are on a CPU. "
        "With a GPU it starts one for every two CPU cores, but at most 8.",
    )
    admin_key: SecretStr = Field(
        NO_SECRET,
        description="Key for loading and unloading models at run time. A server without a key "
        "refuses these requests.",
    )
    api_keys: SecretStr = Field(
        NO_SECRET,
        description="Keys for all routes that compute, separated by commas; or file:PATH, a file "
        "with one key on each line, which is read again when it changes. If the setting is empty, "
        "requests need no key. A file without keys is an error.",
    )
    monthly_characters: int = Field(
        0,
        ge=0,
        description="Largest number of characters that the server translates for each API key in a "
        "calendar month (UTC). `0` sets no limit.",
    )
    allowed_hosts: Names = Field(
        (),
        description="Names in the header Host that the server answers for, separated by commas. "
        "*.example.org allows all names below example.org, and * allows all names. By default, a "
        "server that listens on a loopback address answers only for names of this machine, and "
        "any other server for all names. IP addresses are always allowed.",
    )
    allowed_origins: Names = Field(
        (),
        description="Origins of web pages that may call the server, besides its own page, "
        "separated by commas: https://example.org. * allows all pages.",
    )
    load_reports: bool = Field(
        False,
        description="Send the load of the server in the response header endpoint-load-metrics "
        "(ORCA). A proxy can use this load to choose a server for each request.",
    )
    suggestions: bool = Field(
        False, description="Store the better translations that users send to POST /suggest."
    )
    state: str = Field(
        "~/.local/share/regard",
        min_length=1,
        description="Folder for glossaries, suggestions and the usage of API keys.",
    )

    @field_validator("allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _split_lists(cls, value: object) -> object:
        return split_names(value)

    @field_validator("allowed_hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not HOST.fullmatch(host):
                raise ValueError(f"{host} is no name of a host; write it without scheme and port")
        return hosts

    @field_validator("allowed_origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin} is no origin; write it as https://example.org")
        return origins

    @field_validator("admin_port")
    @classmethod
    def _has_port(cls, port: int, info: ValidationInfo) -> int:
        if not port and info.data.get("admin_host"):
            raise ValueError("REGARD_ADMIN_HOST needs a port; set REGARD_ADMIN_PORT too")
        return port

    @field_validator("api_keys")
    @classmethod
    def _are_keys(cls, listed: SecretStr) -> SecretStr:
        """Checks the keys of the setting, or those of the file that the setting names."""
        text = listed.get_secret_value().strip()
        if text.startswith(KEYS_FILE):
            try:
                keys = read_keys(Path(text.removeprefix(KEYS_FILE)).read_text("utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"the file of keys cannot be read: {error}") from None
        else:
            keys = listed_keys(text)
        if text and not keys:
            raise ValueError("the setting has no key; add a key, or leave the setting out")
        return SecretStr(text)

    @property
    def keys_file(self) -> Path | None:
        """The file of keys; None if REGARD_API_KEYS names no file."""
        text = self.api_keys.get_secret_value()
        is_file = text.startswith(KEYS_FILE)
        return Path(text.removeprefix(KEYS_FILE)).absolute() if is_file else None

    @property
    def needs_keys(self) -> bool:
        return bool(self.api_keys.get_secret_value())
