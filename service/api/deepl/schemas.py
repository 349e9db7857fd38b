"""Schemas of DeepL's requests and responses.

Source: https://developers.deepl.com/api-reference/translate.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from service.errors import SHOWN_CHARS, InvalidRequestError
from service.state.glossaries import Glossary
from service.tasks.parameters import ListOf, Parameters, Texts, example
from service.text.language_codes import base_language

# Some clients send `split_sentences` as a number.
SplitSentences = Annotated[
    Literal["0", "1", "nonewlines"],
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
]
TagHandling = Annotated[
    Literal["xml", "html"] | None, BeforeValidator(lambda value: None if value == "" else value)
]


def _as_names(value: Any) -> Any:
    """Returns names as a list; a form has them in one text, separated by commas."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        return value
    return [name.strip() for each in listed for name in each.split(",") if name.strip()]


Names = Annotated[ListOf[str], BeforeValidator(_as_names)]

UNAVAILABLE = {
    "style_id": "there are no style rules",
    "translation_memory_id": "there are no translation memories",
    "custom_instructions": "the models do not follow instructions",
}
"""Parameters that change a translation at DeepL, and why the server refuses them."""

MAX_GLOSSARY_IDS = 5
"""Largest number of glossaries in one request. DeepL has the same limit."""


class KeyOnly(Parameters):
    """A request whose only parameter is a key."""

    auth_key: Any = Field(
        None, description="Key, if the server has keys and the header `Authorization` has none."
    )


class TranslationFields(KeyOnly):
    """The fields that requests for translations of texts and of documents share."""

    target_lang: str = Field(description="Language code, such as `PT` or `PT-BR`.")
    source_lang: str | None = Field(
        None, description="Language code. If absent, the language is detected."
    )
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = Field(
        "default",
        description="Without effect, because no model has a choice of formality. `more` and `less` "
        "are refused if REGARD_DEEPL_FORMALITY is `refuse`.",
    )
    glossary_id: str | None = Field(
        None,
        description="Glossary whose terms the translation uses. Without `source_lang`, its only "
        "source language for the target is taken.",
    )
    glossary_ids: Names = Field(
        default_factory=list,
        description="Up to 5 glossaries, in place of `glossary_id`. If several glossaries have the "
        "same term, the first of these glossaries decides.",
    )
    style_id: Any = Field(None, description="Refused: there are no style rules.")
    translation_memory_id: Any = Field(
        None, description="Refused: there are no translation memories."
    )
    custom_instructions: Any = Field(
        None, description="Refused: the models do not follow instructions."
    )

    @property
    def glossaries(self) -> list[str]:
        return [*self.glossary_ids, *([self.glossary_id] if self.glossary_id else [])]

    def check(self, formality: Literal["ignore", "refuse"]) -> None:
        """Refuses options that the server cannot apply; `formality` is the setting."""
        if formality == "refuse" and self.formality in ("more", "less"):
            raise InvalidRequestError(
                "'formality' is not supported for given 'target_lang'.",
                details=f"send default or prefer_{self.formality}",
            )
        for name, reason in UNAVAILABLE.items():
            if (value := getattr(self, name)) not in (None, "", []):
                raise InvalidRequestError(
                    f"'{name}' is not available on this server.",
                    details=f"{str(value)[:SHOWN_CHARS]}: {reason}; leave {name} out",
                )
        if self.glossary_id and self.glossary_ids:
            raise InvalidRequestError(
                "'glossary_id' and 'glossary_ids' cannot be used together",
                details="send one of them",
            )
        if (number := len(self.glossaries)) > MAX_GLOSSARY_IDS:
            details = f"{number} glossaries; the limit is {MAX_GLOSSARY_IDS}, send fewer"
            raise InvalidRequestError("Too many glossaries", details=details)


class DeepLRequest(TranslationFields):
    model_config = example(text=["The cat sat on the mat."], target_lang="PT-BR")

    text: Texts = Field(description="Texts to translate; in a form, `text` may be repeated.")
    split_sentences: SplitSentences = Field(
        "1",
        description="`1` splits at punctuation and line breaks, `nonewlines` only at punctuation. "
        "`0` takes each text as one sentence, or each block with `tag_handling`. The default for "
        "HTML is `nonewlines`.",
    )
    show_billed_characters: bool = Field(
        False, description="Return the number of characters of each text."
    )
    model_type: (
        Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None
    ) = Field(
        None,
        description="Accepted without effect, because each pair of languages has one model. The "
        "response has the value without `prefer_`.",
    )
    context: str | None = Field(
        None, description="Text that is not translated; only remote models read it."
    )
    preserve_formatting: bool = Field(
        False, description="Accepted; formatting is preserved in any case."
    )
    tag_handling: TagHandling = Field(
        None,
        description="Format of the texts. Tags are kept, and the text between them is translated.",
    )
    tag_handling_version: Literal["v1", "v2"] | None = Field(
        None,
        description="Accepted without effect, because there is one algorithm. If `tag_handling` is "
        "given, the response repeats the value, or has `v2` by default.",
    )
    outline_detection: bool = Field(
        True,
        description="XML: the tags of an element end a sentence, unless its parent element has "
        "words of its own or is inside a sentence. If false, only the tags of `splitting_tags` end "
        "a sentence.",
    )
    splitting_tags: Names = Field(
        default_factory=list, description="XML: elements that end a sentence."
    )
    non_splitting_tags: Names = Field(
        default_factory=list, description="XML: elements that are always inside a sentence."
    )
    ignore_tags: Names = Field(
        default_factory=list, description="XML: elements that are returned without translation."
    )


class DeepLTranslation(BaseModel):
    """The translation of one text. Members that were not requested are absent."""

    detected_source_language: str = Field(description="Detected or given source language.")
    text: str = Field(description="The translation.")
    billed_characters: int | None = Field(
        None,
        description="Number of code points of the source text. Present if "
        "`show_billed_characters` was true.",
    )
    tag_handling_version: str | None = Field(
        None, description="Present if `tag_handling` was given."
    )
    model_type_used: str | None = Field(None, description="Present if `model_type` was given.")


class DeepLResponse(BaseModel):
    translations: list[DeepLTranslation]


FORM_FIELD = re.compile(
    r"dictionaries\[(?P<index>[0-9]{1,4})\]\.(?P<name>source_lang|target_lang|entries_format|entries)"
)


class DictionaryLanguages(Parameters):
    source_lang: str = Field(
        description="Language code of the source terms. A region in it is ignored."
    )
    target_lang: str = Field(
        description="Language code of the target terms. A region in it is ignored."
    )


class Languages(KeyOnly, DictionaryLanguages):
    """A request that names a dictionary by its languages."""

    @property
    def bases(self) -> tuple[str, str]:
        return base_language(self.source_lang), base_language(self.target_lang)


class DictionaryFields(DictionaryLanguages):
    """A dictionary: terms in one language, and their translations in another."""

    entries: str = Field(description="Source term and target term, one pair on each line.")
    entries_format: Literal["tsv", "csv"] = Field(
        "tsv", description="`tsv` separates terms by a tab, `csv` by a comma."
    )


class DictionaryRequest(KeyOnly, DictionaryFields):
    """The body of `PUT /v3/glossaries/{glossary_id}/dictionaries`: a dictionary."""


class GlossaryRequest(DictionaryRequest):
    name: str = Field(description="Name of the glossary.")


class DictionaryList(KeyOnly):
    """A request with a list of dictionaries, as JSON or as a form.

    A form has a field for each parameter of each dictionary, such as `dictionaries[0].entries`.

    Source: deepl-node, src/utils.ts, `appendDictionaryEntries`; the clients for Java and .NET send
    the same fields.
    """

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or "dictionaries" in fields:
            return fields
        found: dict[int, dict[str, Any]] = {}
        for name, value in fields.items():
            if field := FORM_FIELD.fullmatch(name):
                found.setdefault(int(field["index"]), {})[field["name"]] = value
        if not found:
            return fields
        return {**fields, "dictionaries": [found[index] for index in sorted(found)]}


class GlossariesRequest(DictionaryList):
    name: str = Field(description="Name of the glossary.")
    dictionaries: ListOf[DictionaryFields] = Field(
        default_factory=list, description="The dictionaries; they can be added later."
    )


class GlossaryChange(DictionaryList):
    """The body of `PATCH /v3/glossaries/{glossary_id}`: a new name, and entries to add."""

    name: str | None = Field(None, description="New name.")
    dictionaries: ListOf[DictionaryFields] = Field(
        default_factory=list,
        description="Dictionaries whose entries are added. A new entry replaces an old entry with "
        "the same source term.",
    )


class LanguagePair(BaseModel):
    source_lang: str
    target_lang: str


class LanguagePairs(BaseModel):
    supported_languages: list[LanguagePair]


class GlossaryBody(LanguagePair):
    entry_count: int
    glossary_id: str
    name: str
    ready: bool = Field(description="Always true.")
    creation_time: str


class GlossaryList(BaseModel):
    """All glossaries that have exactly one dictionary, from the oldest to the newest."""

    glossaries: list[GlossaryBody]


class MultilingualGlossaryList(BaseModel):
    glossaries: list[Glossary]


class DictionaryEntries(LanguagePair):
    """The entries of a dictionary."""

    entries: str = Field(description="Source term, tab and target term, one pair on each line.")
    entries_format: str = Field(description="Always `tsv`.")


class GlossaryEntries(BaseModel):
    dictionaries: list[DictionaryEntries]
