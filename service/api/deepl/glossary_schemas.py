"""Schemas of DeepL's glossaries.

In version 2 of the API, a glossary has one dictionary. In version 3, it has one or more.

Source: https://developers.deepl.com/api-reference/multilingual-glossaries.
"""

import re
from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from service.api.request.parameters import ListOf, Parameters

FORM_FIELD = re.compile(
    r"dictionaries\[(?P<index>[0-9]{1,4})\]\.(?P<name>source_lang|target_lang|entries_format|entries)"
)


class KeyOnly(Parameters):
    """A request whose only parameter is a key."""

    auth_key: Any = Field(
        None, description="Key, if the server has keys and the header `Authorization` has none."
    )


class Languages(KeyOnly):
    """The languages of a dictionary."""

    source_lang: str = Field(
        description="Language code of the source terms. A region in it is ignored."
    )
    target_lang: str = Field(
        description="Language code of the target terms. A region in it is ignored."
    )


class DictionaryRequest(Languages):
    """A dictionary: terms in one language, and their translations in another."""

    entries: str = Field(description="Source term and target term, one pair on each line.")
    entries_format: Literal["tsv", "csv"] = Field(
        "tsv", description="`tsv` separates terms by a tab, `csv` by a comma."
    )


class GlossaryRequest(DictionaryRequest):
    """The body of `POST /v2/glossaries`: a glossary with one dictionary."""

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
        """Collects the fields of a form in the list `dictionaries`."""
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
    """The body of `POST /v3/glossaries`: a glossary with one dictionary or more."""

    name: str = Field(description="Name of the glossary.")
    dictionaries: ListOf[DictionaryRequest] = Field(description="At least one dictionary.")


class GlossaryChange(DictionaryList):
    """The body of `PATCH /v3/glossaries/{glossary_id}`: a new name, and entries to add."""

    name: str | None = Field(None, description="New name.")
    dictionaries: ListOf[DictionaryRequest] = Field(
        default_factory=list,
        description="Dictionaries whose entries are added. A new entry replaces an old entry with "
        "the same source term.",
    )


class GlossaryBody(BaseModel):
    """A glossary with one dictionary, without its entries."""

    glossary_id: str
    name: str
    ready: bool = Field(description="Always true.")
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossaryList(BaseModel):
    """All glossaries that have exactly one dictionary, from the oldest to the newest."""

    glossaries: list[GlossaryBody]


class DictionaryBody(BaseModel):
    """A dictionary without its entries."""

    source_lang: str
    target_lang: str
    entry_count: int


class MultilingualGlossary(BaseModel):
    """A glossary without its entries."""

    glossary_id: str
    name: str
    dictionaries: list[DictionaryBody]
    creation_time: str


class MultilingualGlossaryList(BaseModel):
    """All glossaries, from the oldest to the newest."""

    glossaries: list[MultilingualGlossary]


class DictionaryEntries(BaseModel):
    """The entries of a dictionary."""

    source_lang: str
    target_lang: str
    entries: str = Field(description="Source term, tab and target term, one pair on each line.")
    entries_format: str = Field(description="Always `tsv`.")


class GlossaryEntries(BaseModel):
    """The entries of the requested dictionary."""

    dictionaries: list[DictionaryEntries]


class LanguagePair(BaseModel):
    """A pair of languages that a dictionary may have."""

    source_lang: str
    target_lang: str


class LanguagePairs(BaseModel):
    """The pairs of languages that dictionaries may have."""

    supported_languages: list[LanguagePair]
