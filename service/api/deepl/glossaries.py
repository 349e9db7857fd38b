"""The glossary routes of versions 2 and 3 of DeepL's API.

In version 2 a glossary has exactly one dictionary, and cannot be changed. In version 3 a glossary
may have several dictionaries, and can be changed.
"""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api import error_texts
from service.api.context import Services, services_of
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
from service.api.request.parameters import FORM, JSON, described
from service.api.request.reading import read_parameters
from service.api.request.translation import find_languages, find_terms
from service.api.responses import JSONResponse
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

LANGUAGES = {
    "parameters": [
        {"name": name, "in": "query", "required": True, "schema": {"type": "string"}}
        for name in ("source_lang", "target_lang")
    ]
}
"""The query parameters that name a dictionary, for OpenAPI."""


@router.post(
    "/v2/glossaries", status_code=201, **described(GlossaryRequest, GlossaryBody, JSON, FORM)
)
async def create_glossary(request: Request) -> Response:
    """Stores a glossary with one dictionary."""
    services = services_of(request)
    body = await read_parameters(request, GlossaryRequest)
    name, dictionary = checked_name(body.name), read_dictionary(body, services)
    glossary = await services.state.call(services.glossaries.create, name, [dictionary])
    return JSONResponse(single_body(glossary), 201)


@router.post(
    "/v3/glossaries",
    status_code=201,
    name="create_glossary",
    **described(GlossariesRequest, Glossary),
)
async def create_multilingual_glossary(request: Request) -> Response:
    """Stores a glossary with any number of dictionaries."""
    services = services_of(request)
    body = await read_parameters(request, GlossariesRequest)
    dictionaries = [read_dictionary(each, services) for each in body.dictionaries]
    name = checked_name(body.name)
    glossary = await services.state.call(services.glossaries.create, name, dictionaries)
    return JSONResponse(glossary, 201)


@lists.get("/v2/glossaries", response_model=GlossaryList)
async def list_glossaries(request: Request) -> Response:
    """Lists the glossaries with one dictionary."""
    glossaries = await all_glossaries(request)
    single = [single_body(each) for each in glossaries if len(each.dictionaries) == 1]
    return JSONResponse({"glossaries": single})


@lists.get("/v3/glossaries", name="list_glossaries", response_model=MultilingualGlossaryList)
async def list_multilingual_glossaries(request: Request) -> Response:
    """Lists all glossaries, without their entries."""
    return JSONResponse({"glossaries": await all_glossaries(request)})


async def all_glossaries(request: Request) -> list[Glossary]:
    services = await checked(request)
    return await services.state.call(services.glossaries.all)


@router.get("/v2/glossaries/{glossary_id}", response_model=GlossaryBody)
async def get_glossary(request: Request, glossary_id: str) -> Response:
    """Returns a glossary without its entries."""
    return JSONResponse(single_body(await single_glossary(request, glossary_id)))


@router.get("/v3/glossaries/{glossary_id}", name="get_glossary", response_model=Glossary)
async def get_multilingual_glossary(request: Request, glossary_id: str) -> Response:
    """Returns a glossary without its entries."""
    services = await checked(request)
    found = await services.state.call(services.glossaries.get, glossary_id)
    return JSONResponse(found)


@router.patch("/v3/glossaries/{glossary_id}", **described(GlossaryChange, Glossary))
async def change_glossary(request: Request, glossary_id: str) -> Response:
    """Renames a glossary, and adds entries to its dictionaries."""
    services = services_of(request)
    body = await read_parameters(request, GlossaryChange)
    if body.name is None and not body.dictionaries:
        await services.state.call(services.glossaries.get, glossary_id)  # an unknown id gets 404
        error = error_texts.missing("dictionaries")
        error.details = "send name, dictionaries, or both"
        raise error
    name = None if body.name is None else checked_name(body.name)
    dictionaries = [read_dictionary(each, services) for each in body.dictionaries]
    glossary = await services.state.call(
        services.glossaries.change, glossary_id, name, dictionaries
    )
    return JSONResponse(glossary)


@router.delete("/v2/glossaries/{glossary_id}", status_code=204)
@router.delete("/v3/glossaries/{glossary_id}", status_code=204)
async def delete_glossary(request: Request, glossary_id: str) -> Response:
    """Deletes a glossary with all its dictionaries."""
    services = await checked(request)
    await services.state.call(services.glossaries.remove, glossary_id)
    return Response(status_code=204)


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries", **described(DictionaryRequest, DictionaryInfo)
)
async def replace_dictionary(request: Request, glossary_id: str) -> Response:
    """Stores a dictionary of a glossary, in place of any dictionary with the same languages."""
    services = services_of(request)
    dictionary = read_dictionary(await read_parameters(request, DictionaryRequest), services)
    info = await services.state.call(services.glossaries.replace, glossary_id, dictionary)
    return JSONResponse(info)


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries", status_code=204, openapi_extra=LANGUAGES
)
async def delete_dictionary(request: Request, glossary_id: str) -> Response:
    """Deletes a dictionary of a glossary."""
    services, languages = services_of(request), await read_languages(request)
    await services.state.call(services.glossaries.remove_dictionary, glossary_id, *languages)
    return Response(status_code=204)


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    response_class=Response,
    responses={200: {"content": {TSV: {"schema": {"type": "string"}}}}},
)
async def get_entries(request: Request, glossary_id: str) -> Response:
    """Returns the entries of a glossary as tab-separated values."""
    services = services_of(request)
    (info,) = (await single_glossary(request, glossary_id)).dictionaries
    entries = await services.state.call(
        services.glossaries.entries, glossary_id, info.source_lang, info.target_lang
    )
    return Response(write_tsv(entries), media_type=TSV)


@router.get(
    "/v3/glossaries/{glossary_id}/entries",
    name="get_entries",
    response_model=GlossaryEntries,
    openapi_extra=LANGUAGES,
)
async def get_dictionary_entries(request: Request, glossary_id: str) -> Response:
    """Returns the entries of a dictionary."""
    services, (source, target) = services_of(request), await read_languages(request)
    entries = await services.state.call(services.glossaries.entries, glossary_id, source, target)
    dictionary = {"source_lang": source, "target_lang": target, "entries": write_tsv(entries)}
    return JSONResponse({"dictionaries": [{**dictionary, "entries_format": "tsv"}]})


@lists.get("/v2/glossary-language-pairs", response_model=LanguagePairs)
async def language_pairs(request: Request) -> Response:
    """Lists the language pairs that the server translates; a dictionary may have any of them."""
    found = pairs((await checked(request)).catalog)
    bodies = [{"source_lang": source, "target_lang": target} for source, target in found]
    return JSONResponse({"supported_languages": bodies})


async def checked(request: Request) -> Services:
    await read_parameters(request, KeyOnly)
    return services_of(request)


async def read_languages(request: Request) -> tuple[str, str]:
    body = await read_parameters(request, Languages)
    return base_language(body.source_lang), base_language(body.target_lang)


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


def read_dictionary(body: DictionaryFields, services: Services) -> Dictionary:
    found = find_languages(
        services.catalog, ("source_lang", body.source_lang), ("target_lang", body.target_lang)
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


async def single_glossary(request: Request, glossary_id: str) -> Glossary:
    services = await checked(request)
    glossary = await services.state.call(services.glossaries.get, glossary_id)
    if (number := len(glossary.dictionaries)) != 1:
        details = f"it has {number} dictionaries; use /v3/glossaries/{glossary_id}"
        raise NotFoundError("Glossary not found", details=details)
    return glossary


def single_body(glossary: Glossary) -> dict[str, Any]:
    body = asdict(glossary)
    (info,) = body.pop("dictionaries")
    return {**body, "ready": True, **info}
