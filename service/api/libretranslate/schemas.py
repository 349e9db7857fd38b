"""What clients send and get, with limits and examples; LibreTranslate's shapes and our extras."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.api.attention.response_schemas import AlignmentBody
from service.api.parameters import ListOf, Parameters, Whole
from service.models.states import State


class ErrorBody(BaseModel):
    """The one body of every error."""

    error: str = Field(description="What happened, with the value, the limit and the way out.")
    error_type: str = Field(description="The kind of error, for programs.")
    request_id: str = Field(description="Also in X-Request-Id; give it when you ask for help.")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "error": "zz is not supported; supported: en, pt",
                "error_type": "unsupported_language",
                "request_id": "5f2c6f0e8d7b4a53",
            }
        }
    )


class TranslateRequest(BaseModel):
    """`POST /translate`, as JSON, as a form, or as query parameters."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"q": "The cat sat on the mat.", "source": "en", "target": "pt"}
        }
    )

    q: str | ListOf[str] = Field(description="Text, or list of texts, to translate.")
    source: str = Field(description="Language code, or `auto`.")
    target: str = Field(description="Language code.")
    format: Literal["text"] = Field("text", description="`text`.")
    alternatives: Whole = Field(0, ge=0, description="How many other translations to give.")
    api_key: Any = Field(None, description="Accepted, and not looked at.")
    beam_size: Annotated[Whole, Field(ge=1)] | None = Field(
        None, description="Hypotheses kept while decoding; 1, the default, is greedy."
    )
    split_sentences: bool = Field(
        True, description="Translate sentence by sentence; false takes each text as one sentence."
    )
    return_scores: bool = Field(
        False, description="Give the log-probability of every sentence and token."
    )
    return_alignment: bool = Field(
        False, description="Say which word of the text became which of the translation."
    )


class DetectedLanguage(BaseModel):
    """What a text was taken for."""

    confidence: float = Field(description="0 to 100.")
    language: str = Field(description="Language code.")


class TokenScoreBody(BaseModel):
    """One target token."""

    token: str = Field(description="The piece as the vocabulary spells it.")
    log_prob: float = Field(description="Natural logarithm of its probability.")


class SentenceScoreBody(BaseModel):
    """One sentence."""

    score: float = Field(description="Mean log-probability of its tokens.")
    tokens: list[TokenScoreBody]


class TranslateResponse(BaseModel):
    """A list where `q` was a list; keys that were not asked for are left out."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(
        None, description="Where `source` was `auto`."
    )
    models: list[str] | list[list[str]] | None = Field(
        None,
        description="Where no one model has the pair: those that were gone through, in order.",
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None, description="Where `alternatives` was above 0; there may be fewer than asked for."
    )
    scores: list[SentenceScoreBody] | list[list[SentenceScoreBody]] | None = Field(
        None, description="Where `return_scores` was true: one for each sentence."
    )
    alignment: list[AlignmentBody] | list[list[AlignmentBody]] | None = Field(
        None,
        description="Where `return_alignment` was true: one for each sentence, with words in code "
        "points of `q` and `translatedText`.",
    )


class DetectRequest(BaseModel):
    """`POST /detect`."""

    q: str | ListOf[str] = Field(description="Text, or list of texts, in one language.")
    api_key: Any = Field(None, description="Accepted, and not looked at.")


class Language(BaseModel):
    """A language that is served."""

    code: str
    name: str = Field(description="In the language of Accept-Language.")
    targets: list[str] = Field(description="What it can be translated to, itself included.")


class LanguageChoice(BaseModel):
    """A language that a form may start with."""

    code: str
    name: str


class DefaultLanguages(BaseModel):
    """What a form may start with."""

    source: LanguageChoice
    target: LanguageChoice


class FrontendSettings(BaseModel):
    """What LibreTranslate's clients ask before they show a form."""

    charLimit: int
    frontendTimeout: int
    apiKeys: bool
    keyRequired: bool
    suggestions: bool
    filesTranslation: bool
    supportedFilesFormat: list[str]
    language: DefaultLanguages


class AttentionSizeBody(BaseModel):
    """One kind of attention of a model."""

    layers: int
    heads: int = Field(description="In each layer.")


class ModelBody(BaseModel):
    """A resident model, in OpenAI's shape with more of our own."""

    id: str
    state: State = Field(description="`loading` until the server is ready, then `ready`.")
    object: Literal["model"] = "model"
    created: int = Field(description="When the server started, in Unix seconds.")
    owned_by: str = "regard"
    task: Literal["translate"] = "translate"
    source: str | None = Field(description="None of a model of more than one pair.")
    target: str | None = Field(description="Likewise.")
    sources: list[str] = Field(description="What it reads.")
    targets: list[str] = Field(description="What it writes; not what it reads just then.")
    revision: str = Field(description="First digits of the sha256 sum of the weights.")
    device: str | None = Field(description="None while it loads.")
    dtype: str | None = Field(description="None while it loads.")
    attention: dict[str, AttentionSizeBody] | None = Field(
        description="What can be looked into: encoder, decoder, cross. None while it loads."
    )


class EmbedderBody(BaseModel):
    """A resident embedding model."""

    id: str
    state: State = Field(description="As of a translation model.")
    object: Literal["model"] = "model"
    created: int = Field(description="When the server started, in Unix seconds.")
    owned_by: str = "regard"
    task: Literal["embed"] = "embed"
    dimensions: int = Field(description="Numbers of a vector.")
    max_tokens: int = Field(description="Of a text, special ones included; more are cut.")
    prompts: list[str] = Field(description="Names of what may be put before a text.")
    revision: str = Field(description="First digits of the sha256 sum of the weights.")
    device: str | None = Field(description="None while it loads.")
    dtype: str | None = Field(description="None while it loads.")
    attention: dict[str, AttentionSizeBody] | None = Field(
        description="What can be looked into: encoder. None while it loads."
    )


class ChangingBody(BaseModel):
    """A model that is not served: not yet, not any more, or because it could not be loaded."""

    id: str
    state: State
    object: Literal["model"] = "model"
    created: int = Field(description="When the server started, in Unix seconds.")
    owned_by: str = "regard"
    error: str | None = Field(
        None,
        description="Why it could not be loaded; null where that is not so, and for those who ask "
        "without the admin key: it may name files of the server.",
    )


class LoadRequest(Parameters):
    """`POST /v1/models/{id}`."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"source": "firefox:en-de"}}
    )

    source: str = Field(
        min_length=1,
        description="Where the model is: a reference as in REGARD_MODELS, on the server's disk.",
    )


class DeletedModel(BaseModel):
    """What `DELETE /v1/models/{id}` answers, in OpenAI's shape."""

    id: str
    object: Literal["model"] = "model"
    deleted: bool = Field(description="False where requests of the model still run.")


class ModelList(BaseModel):
    """`GET /v1/models`."""

    object: Literal["list"] = "list"
    data: list[ModelBody | EmbedderBody | ChangingBody]


class Health(BaseModel):
    """`ok`, or why not."""

    status: str
