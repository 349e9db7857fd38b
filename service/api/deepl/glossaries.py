"""The glossary routes of versions 2 and 3 of DeepL's API.

In version 2 a glossary has exactly one dictionary, and cannot be changed. In version 3 a glossary
may have several dictionaries, and can be changed.
"""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from service.api import error_texts
from service.api.context import HttpContext, Services
from service.api.deepl.errors import DEEPL_ERRORS, GLOSSARY_NEEDS_SOURCE, DeepLErrorBody
from service.api.deepl.schemas import (
    DictionaryFields,
    DictionaryRequest,
    GlossariesRequest,
    GlossaryBody,
    GlossaryChange,
    GlossaryEntries,
    GlossaryList,
    GlossaryRequest,
    KeyOnly,
    LanguagePairs,
    Languages,
    MultilingualGlossaryList,
    TranslationFields,
)
from service.api.errors import responses_of
from service.api.request.handlers import route
from service.api.request.parameters import FORM, JSON
from service.api.request.translation import find_languages, find_terms
from service.errors import InvalidRequestError, NotFoundError
from service.models.catalog import Catalog
from service.state.glossaries import Dictionary, DictionaryInfo, Glossary
from service.text.glossary import MAX_TERM_BYTES, Terms, read_entries, write_tsv
from service.text.language_codes import base_language

# "4XX" takes the place of FastAPI's own 422.
router = APIRouter(
    tags=["glossaries"], responses={**DEEPL_ERRORS, **responses_of(DeepLErrorBody, 404, "4XX")}
)
lists = APIRouter(tags=["glossaries"], responses=DEEPL_ERRORS)

TSV = "text/tab-separated-values"


@route(router.post, "/v2/glossaries", GlossaryBody, JSON, FORM, status_code=201)
async def create_glossary(context: HttpContext, body: GlossaryRequest) -> dict[str, Any]:
    """Stores a glossary with one dictionary."""
    name, dictionary = checked_name(body.name), read_dictionary(context, body)
    glossary = await context.services.state.call(
        context.services.glossaries.create, name, [dictionary]
    )
    return single_body(glossary)


@route(router.post, "/v3/glossaries", Glossary, status_code=201, name="create_glossary")
async def create_multilingual_glossary(context: HttpContext, body: GlossariesRequest) -> Glossary:
    """Stores a glossary with any number of dictionaries."""
    dictionaries = [read_dictionary(context, each) for each in body.dictionaries]
    name = checked_name(body.name)
    return await context.services.state.call(context.services.glossaries.create, name, dictionaries)


@route(lists.get, "/v2/glossaries", GlossaryList)
async def list_glossaries(context: HttpContext, _body: KeyOnly) -> Any:
    """Lists the glossaries with one dictionary."""
    glossaries = await context.services.state.call(context.services.glossaries.all)
    single = [single_body(each) for each in glossaries if len(each.dictionaries) == 1]
    return {"glossaries": single}


@route(lists.get, "/v3/glossaries", MultilingualGlossaryList, name="list_glossaries")
async def list_multilingual_glossaries(context: HttpContext, _body: KeyOnly) -> Any:
    """Lists all glossaries, without their entries."""
    return {"glossaries": await context.services.state.call(context.services.glossaries.all)}


@route(router.get, "/v2/glossaries/{glossary_id}", GlossaryBody)
async def get_glossary(context: HttpContext, _body: KeyOnly, glossary_id: str) -> dict[str, Any]:
    """Returns a glossary without its entries."""
    return single_body(await single_glossary(context, glossary_id))


@route(router.get, "/v3/glossaries/{glossary_id}", Glossary, name="get_glossary")
async def get_multilingual_glossary(
    context: HttpContext, _body: KeyOnly, glossary_id: str
) -> Glossary:
    """Returns a glossary without its entries."""
    return await context.services.state.call(context.services.glossaries.get, glossary_id)


@route(router.patch, "/v3/glossaries/{glossary_id}", Glossary)
async def change_glossary(context: HttpContext, body: GlossaryChange, glossary_id: str) -> Glossary:
    """Renames a glossary, and adds entries to its dictionaries."""
    if body.name is None and not body.dictionaries:
        await context.services.state.call(
            context.services.glossaries.get, glossary_id
        )  # an unknown id gets 404
        error = error_texts.missing("dictionaries")
        error.details = "send name, dictionaries, or both"
        raise error
    name = None if body.name is None else checked_name(body.name)
    dictionaries = [read_dictionary(context, each) for each in body.dictionaries]
    return await context.services.state.call(
        context.services.glossaries.change, glossary_id, name, dictionaries
    )


@route(router.delete, "/v2/glossaries/{glossary_id}", None, status_code=204)
@route(router.delete, "/v3/glossaries/{glossary_id}", None, status_code=204)
async def delete_glossary(context: HttpContext, _body: KeyOnly, glossary_id: str) -> Response:
    """Deletes a glossary with all its dictionaries."""
    await context.services.state.call(context.services.glossaries.remove, glossary_id)
    return Response(status_code=204)


DICTIONARIES = "/v3/glossaries/{glossary_id}/dictionaries"


@route(router.put, DICTIONARIES, DictionaryInfo)
async def replace_dictionary(
    context: HttpContext, body: DictionaryRequest, glossary_id: str
) -> DictionaryInfo:
    """Stores a dictionary of a glossary, in place of any dictionary with the same languages."""
    dictionary = read_dictionary(context, body)
    return await context.services.state.call(
        context.services.glossaries.replace, glossary_id, dictionary
    )


@route(router.delete, DICTIONARIES, None, status_code=204)
async def delete_dictionary(context: HttpContext, body: Languages, glossary_id: str) -> Response:
    """Deletes a dictionary of a glossary."""
    remove = context.services.glossaries.remove_dictionary
    await context.services.state.call(remove, glossary_id, *body.bases)
    return Response(status_code=204)


@route(
    router.get,
    "/v2/glossaries/{glossary_id}/entries",
    None,
    response_class=Response,
    responses={200: {"content": {TSV: {"schema": {"type": "string"}}}}},
)
async def get_entries(context: HttpContext, _body: KeyOnly, glossary_id: str) -> Response:
    """Returns the entries of a glossary as tab-separated values."""
    (info,) = (await single_glossary(context, glossary_id)).dictionaries
    entries = await context.services.state.call(
        context.services.glossaries.entries, glossary_id, info.source_lang, info.target_lang
    )
    return Response(write_tsv(entries), media_type=TSV)


@route(router.get, "/v3/glossaries/{glossary_id}/entries", GlossaryEntries, name="get_entries")
async def get_dictionary_entries(context: HttpContext, body: Languages, glossary_id: str) -> Any:
    """Returns the entries of a dictionary."""
    source, target = body.bases
    entries = await context.services.state.call(
        context.services.glossaries.entries, glossary_id, source, target
    )
    dictionary = {"source_lang": source, "target_lang": target, "entries": write_tsv(entries)}
    return {"dictionaries": [{**dictionary, "entries_format": "tsv"}]}


@route(lists.get, "/v2/glossary-language-pairs", LanguagePairs)
async def language_pairs(context: HttpContext, _body: KeyOnly) -> Any:
    """Lists the language pairs that the server translates; a dictionary may have any of them."""
    found = pairs(context.services.catalog)
    bodies = [{"source_lang": source, "target_lang": target} for source, target in found]
    return {"supported_languages": bodies}


def pairs(catalog: Catalog) -> list[tuple[str, str]]:
    directions = (
        (base_language(source), base_language(target))
        for source, targets in catalog.offers().items()
        for target in targets
    )
    return sorted({pair for pair in directions if pair[0] != pair[1]})


def checked_name(name: str) -> str:
    if not name.strip():
        raise error_texts.missing("name")
    if (size := len(name.encode())) > MAX_TERM_BYTES:
        details = f"the name has {size} bytes in UTF-8; the limit is {MAX_TERM_BYTES}"
        raise InvalidRequestError(details, param="name")
    return name


def read_dictionary(context: HttpContext, body: DictionaryFields) -> Dictionary:
    found = find_languages(
        context.services.catalog,
        ("source_lang", body.source_lang),
        ("target_lang", body.target_lang),
    )
    source, target = (base_language(code or "") for code in found)
    if source == target:
        raise InvalidRequestError("both languages are the same; change one", param="target_lang")
    return Dictionary(source, target, read_entries(body.entries, body.entries_format))


async def resolve_languages(
    services: Services, body: TranslationFields
) -> tuple[str | None, str, Terms | None]:
    """Returns the source, the target and the terms of a translation; refuses unknown options.

    Without `source_lang`, the source is the only one that the glossaries have for the target. If
    there is no glossary, the source is None.
    """
    wanted = ("target_lang", body.target_lang)
    source, target = find_languages(
        services.catalog, ("source_lang", body.source_lang or None), wanted
    )
    body.check(services.settings.deepl_formality)
    if body.glossaries and source is None:
        found = await services.state.call(
            services.glossaries.sources, body.glossaries, base_language(target)
        )
        if len(found) != 1:
            details = f"source languages of the glossary: {', '.join(found) or 'none'}"
            raise InvalidRequestError(GLOSSARY_NEEDS_SOURCE, details=details)
        source, target = find_languages(services.catalog, ("source_lang", found[0]), wanted)
    return source, target, await find_terms(services, body.glossaries, source, target)


async def single_glossary(context: HttpContext, glossary_id: str) -> Glossary:
    glossary = await context.services.state.call(context.services.glossaries.get, glossary_id)
    if (number := len(glossary.dictionaries)) != 1:
        details = f"it has {number} dictionaries; use /v3/glossaries/{glossary_id}"
        raise NotFoundError("Glossary not found", details=details)
    return glossary


def single_body(glossary: Glossary) -> dict[str, Any]:
    body = asdict(glossary)
    (info,) = body.pop("dictionaries")
    return {**body, "ready": True, **info}
