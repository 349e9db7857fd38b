"""Schemas of LibreTranslate's requests and responses, with additional fields of Regard."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from service.api.request.parameters import UploadedFile
from service.tasks.alignment.alignment import Alignment
from service.tasks.parameters import ListOf, Natural, Parameters, Positive, Texts, example
from service.tasks.translation.guards import GuardWarning
from service.tasks.translation.sentences import SentenceScore

# LibreTranslate accepts an empty format.
TextFormat = Annotated[
    Literal["text", "html"], BeforeValidator(lambda value: "text" if value == "" else value)
]
API_KEY: Any = Field(None, description="Key, if the server has keys.")
GLOSSARY: Any = Field(
    None,
    description="Id of a glossary whose terms the translation uses. `source` must not be `auto`.",
)
"""The field `glossary` of translation requests. LibreTranslate does not have this field."""


class TranslateRequest(Parameters):
    """The parameters of `POST /translate`, as JSON, as a form or in the query."""

    model_config = example(q="The cat sat on the mat.", source="en", target="pt")

    q: Texts = Field(description="Text, or list of texts, to translate.")
    source: str = Field(description="Language code, or `auto`.")
    target: str = Field(description="Language code.")
    format: TextFormat = Field(
        "text",
        description="`text`, or `html`. In HTML, tags are kept, and the text between them is "
        "translated.",
    )
    alternatives: Natural = Field(0, description="Number of other translations to return.")
    api_key: Any = API_KEY
    beam_size: Positive | None = Field(
        None,
        description="Number of hypotheses of beam search. A number below `alternatives` + 1 counts "
        "as `alternatives` + 1. The default is 1: greedy decoding.",
    )
    split_sentences: bool = Field(
        True, description="Translate sentence by sentence. If false, each text is one sentence."
    )
    return_scores: bool = Field(
        False, description="Return the log-probability of every sentence and token."
    )
    glossary: str | None = GLOSSARY
    return_alignment: bool = Field(
        False,
        description="Return the alignment between the words of the text and of the translation. "
        "Refused for HTML, with `glossary`, and for pairs that need more than one model.",
    )
    target_prefix: str | ListOf[str] = Field(
        "",
        description="Beginning of the translation, which the model continues: one for all texts, "
        "or one for each. Such a text must be one sentence. Refused for HTML, with `glossary`, for "
        "pairs that need more than one model, and for remote models.",
    )


class DetectedLanguage(BaseModel):
    confidence: float = Field(description="Confidence from 0 to 100.")
    language: str = Field(description="Language code.")
    unserved: str | None = Field(
        None,
        description="ISO 639-1 code of a language that the server does not translate. Present only "
        "if the text has many frequent words of this language.",
    )


class TranslateResponse(BaseModel):
    """The translation. If `q` was a list, each member is a list with an entry for each text.

    Members that were not requested are absent.
    """

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(
        None, description="Present if `source` was `auto`."
    )
    models: list[str] | list[list[str]] | None = Field(
        None,
        description="Names of the models that translated the text, in order. Present if a text "
        "needed more than one model. The last one may have translated sentences in place of a "
        "remote model.",
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None,
        description="Present if `alternatives` was above 0. The response may have fewer "
        "alternatives than requested.",
    )
    scores: list[SentenceScore] | list[list[SentenceScore]] | None = Field(
        None, description="One score for each sentence. Present if `return_scores` was true."
    )
    alignment: list[Alignment] | list[list[Alignment]] | None = Field(
        None,
        description="One alignment for each sentence. Present if `return_alignment` was true. "
        "Positions of words are offsets in code points of `q` and `translatedText`.",
    )
    warnings: list[GuardWarning] | list[list[GuardWarning]] | None = Field(
        None, description="Present if a sentence is probably translated wrongly."
    )


class DetectRequest(Parameters):
    q: Texts = Field(description="Text, or list of texts, in one language.")
    api_key: Any = API_KEY


class SuggestRequest(Parameters):
    model_config = example(q="Good morning.", s="Bom dia.", source="en", target="pt")

    q: str = Field(description="Text that was translated.")
    s: str = Field(description="Better translation of `q`.")
    source: str = Field(description="Language code of `q`, or `auto`.")
    target: str = Field(description="Language code of `s`.")
    api_key: Any = API_KEY


class SuggestResponse(BaseModel):
    success: bool


class TranslateFileRequest(Parameters):
    file: UploadedFile
    source: str = Field(description="Language code, or `auto`.")
    target: str = Field(description="Language code.")
    api_key: Any = API_KEY
    glossary: str | None = GLOSSARY


class TranslateFileResponse(BaseModel):
    translatedFileUrl: str = Field(description="Address of the download. It expires.")
    skipped: dict[str, int] = Field(
        description="Numbers of `images` and `equations`, which are not translated. Regard's own."
    )


class Language(BaseModel):
    code: str
    name: str = Field(description="Name in the language of Accept-Language.")
    targets: list[str] = Field(
        description="Codes of the target languages and of the source itself."
    )


class LanguageChoice(BaseModel):
    code: str
    name: str


class DefaultLanguages(BaseModel):
    source: LanguageChoice
    target: LanguageChoice


class FrontendSettings(BaseModel):
    """Settings that LibreTranslate's clients request before they show a form."""

    charLimit: int
    frontendTimeout: int
    apiKeys: bool
    keyRequired: bool
    suggestions: bool
    filesTranslation: bool
    supportedFilesFormat: list[str]
    language: DefaultLanguages
