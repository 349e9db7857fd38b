"""Schemas of Azure's requests and responses.

Source: https://learn.microsoft.com/azure/ai-services/translator/text-translation/reference/v3/
translate, and the pages `detect`, `languages` and `break-sentence` beside it.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from service.tasks.embedding.inputs import lower
from service.tasks.parameters import ListOf, Parameters, example, refuse


class AzureText(BaseModel):
    model_config = example(Text="The cat sat on the mat.")

    text: str = Field(alias="Text", description="The text. `text` is accepted too.")


def _as_texts(body: Any) -> Any:
    if not isinstance(body, list):
        return body
    return [
        {"Text": each["text"]} if isinstance(each, dict) and "text" in each else each
        for each in body
    ]


def _as_codes(value: Any) -> Any:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        return listed
    return [code.strip() for each in listed for code in str(each).split(",")]


def _refuse_script(value: str | None) -> None:
    if value:
        refuse("the models read and write one script for each language; leave the script out")


Script = Annotated[str | None, BeforeValidator(_refuse_script)]


class AzureRequest(Parameters):
    """The parameters of a query, and the body, which is a list."""

    body: Annotated[ListOf[AzureText], BeforeValidator(_as_texts)] = Field(description="Texts.")
    version: Literal["3.0"] = Field("3.0", alias="api-version", description="Version of the API.")

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.body]


class AzureTranslateRequest(AzureRequest):
    to: Annotated[ListOf[str], BeforeValidator(_as_codes)] = Field(
        description="Language codes, repeated or separated by commas."
    )
    source: str | None = Field(
        None,
        alias="from",
        description="Language code. If absent, the language of each text is detected.",
    )
    textType: Annotated[Literal["plain", "html"], BeforeValidator(lower)] = Field(
        "plain", description="`plain`, or `html`. In HTML, tags are kept."
    )
    includeAlignment: bool = Field(False, description="Return the alignment of the words.")
    includeSentenceLength: bool = Field(False, description="Return the lengths of sentences.")
    fromScript: Script = Field(None, description="Refused: there is no transliteration.")
    toScript: Script = Field(None, description="Refused: there is no transliteration.")
    category: str | None = Field(None, description="Accepted without effect.")
    profanityAction: str | None = Field(None, description="Accepted without effect.")
    profanityMarker: str | None = Field(None, description="Accepted without effect.")
    suggestedFrom: str | None = Field(None, description="Accepted without effect.")
    allowFallback: str | None = Field(None, description="Accepted without effect.")


class AzureBreakRequest(AzureRequest):
    language: str | None = Field(
        None, description="Language code. If absent, the language of each text is detected."
    )
    script: str | None = Field(None, description="Accepted without effect.")


class AzureDetected(BaseModel):
    language: str = Field(description="Language code.")
    score: float = Field(description="Confidence from 0 to 1.")


class AzureAlignment(BaseModel):
    proj: str = Field(
        description="Pairs of words, such as `0:2-0:1 4:6-3:6`: first and last place of the source "
        "word, and of the target word, in UTF-16 code units. Empty if there is no alignment."
    )


class AzureLengths(BaseModel):
    """The lengths of the sentences in UTF-16 code units, with the white space after them."""

    srcSentLen: list[int]
    transSentLen: list[int]


class AzureTranslation(BaseModel):
    """The translation of a text to one language. Members that were not requested are absent."""

    text: str
    to: str = Field(description="The language code of the request.")
    alignment: AzureAlignment | None = None
    sentLen: AzureLengths | None = None


class AzureTranslations(BaseModel):
    detectedLanguage: AzureDetected | None = Field(
        None, description="Present if `from` was absent."
    )
    translations: list[AzureTranslation]


class AzureCandidate(AzureDetected):
    """A language in which a text may be written."""

    isTranslationSupported: bool
    isTransliterationSupported: bool = Field(description="Always false.")


class AzureDetection(AzureCandidate):
    """The most probable language of one text."""

    alternatives: list[AzureCandidate] = Field(description="Up to two other languages.")


class AzureSentences(BaseModel):
    sentLen: list[int] = Field(
        description="Length of each sentence in UTF-16 code units, with the white space after it."
    )
    detectedLanguage: AzureDetected | None = Field(
        None, description="Present if `language` was absent."
    )


class AzureLanguage(BaseModel):
    name: str = Field(description="Name in the language of Accept-Language.")
    nativeName: str = Field(description="Name in the language itself.")
    dir: Literal["ltr", "rtl"] = Field(description="Direction of writing.")


class AzureLanguages(BaseModel):
    """The languages by code. `scope` chooses the members; only `translation` has languages."""

    translation: dict[str, AzureLanguage] | None = None
    transliteration: dict[str, Any] | None = None
    dictionary: dict[str, Any] | None = None
