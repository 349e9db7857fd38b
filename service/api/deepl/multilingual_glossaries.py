"""The glossary routes of version 3 of DeepL's API.

In version 3 a glossary may have several dictionaries, and can be changed.
"""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api import error_texts
from service.api.context import services_of
from service.api.deepl.errors import DEEPL_ERRORS, TRACE_HEADER, deepl_shape
from service.api.deepl.glossaries import GLOSSARY_ERRORS, checked, checked_name, read_dictionary
from service.api.deepl.schemas import (
    DictionaryBody,
    DictionaryRequest,
    GlossariesRequest,
    GlossaryChange,
    GlossaryEntries,
    Languages,
    MultilingualGlossary,
    MultilingualGlossaryList,
)
from service.api.dialect import Dialect
from service.api.request.parameters import JSON, request_body
from service.api.request.reading import read_parameters
from service.api.responses import JSONResponse
from service.errors import InvalidRequestError
from service.state.glossaries import DictionaryInfo, Glossary
from service.text.glossary import write_tsv
from service.text.language_codes import base_language

router = APIRouter(tags=["glossaries"], responses=DEEPL_ERRORS)

LANGUAGES = {
    "parameters": [
        {"name": name, "in": "query", "required": True, "schema": {"type": "string"}}
        for name in ("source_lang", "target_lang")
    ]
}
"""The query parameters that name a dictionary, for OpenAPI."""


@router.post(
    "/v3/glossaries",
    status_code=201,
    response_model=MultilingualGlossary,
    responses=GLOSSARY_ERRORS,
    openapi_extra=request_body(GlossariesRequest, JSON),
)
async def create_glossary(request: Request) -> Response:
    """Stores a glossary with one dictionary or more."""
    services = services_of(request)
    body = await read_parameters(request, GlossariesRequest)
    if not body.dictionaries:
        raise error_texts.missing("dictionaries").error(InvalidRequestError, "dictionaries")
    dictionaries = [read_dictionary(each, services) for each in body.dictionaries]
    name = checked_name(body.name)
    glossary = await services.state.call(services.glossaries.create, name, dictionaries)
    return JSONResponse(_body(glossary), 201)


@router.get("/v3/glossaries", response_model=MultilingualGlossaryList)
async def list_glossaries(request: Request) -> Response:
    """Lists all glossaries, without their entries."""
    services = await checked(request)
    glossaries = await services.state.call(services.glossaries.all)
    return JSONResponse({"glossaries": [_body(each) for each in glossaries]})


@router.get(
    "/v3/glossaries/{glossary_id}", response_model=MultilingualGlossary, responses=GLOSSARY_ERRORS
)
async def get_glossary(request: Request, glossary_id: str) -> Response:
    """Returns a glossary without its entries."""
    services = await checked(request)
    return JSONResponse(_body(await services.state.call(services.glossaries.get, glossary_id)))


@router.patch(
    "/v3/glossaries/{glossary_id}",
    response_model=MultilingualGlossary,
    responses=GLOSSARY_ERRORS,
    openapi_extra=request_body(GlossaryChange, JSON),
)
async def change_glossary(request: Request, glossary_id: str) -> Response:
    """Renames a glossary, and adds entries to its dictionaries."""
    services = services_of(request)
    body = await read_parameters(request, GlossaryChange)
    if body.name is None and not body.dictionaries:
        await services.state.call(services.glossaries.get, glossary_id)  # an unknown id gets 404
        raise InvalidRequestError(
            error_texts.missing("dictionaries").text,
            details="send name, dictionaries, or both",
            param="dictionaries",
        )
    name = None if body.name is None else checked_name(body.name)
    dictionaries = [read_dictionary(each, services) for each in body.dictionaries]
    glossary = await services.state.call(
        services.glossaries.change, glossary_id, name, dictionaries
    )
    return JSONResponse(_body(glossary))


@router.delete("/v3/glossaries/{glossary_id}", status_code=204, responses=GLOSSARY_ERRORS)
async def delete_glossary(request: Request, glossary_id: str) -> Response:
    """Deletes a glossary."""
    services = await checked(request)
    await services.state.call(services.glossaries.remove, glossary_id)
    return Response(status_code=204)


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    response_model=DictionaryBody,
    responses=GLOSSARY_ERRORS,
    openapi_extra=request_body(DictionaryRequest, JSON),
)
async def replace_dictionary(request: Request, glossary_id: str) -> Response:
    """Stores a dictionary of a glossary, in place of any dictionary with the same languages."""
    services = services_of(request)
    body = await read_parameters(request, DictionaryRequest)
    dictionary = read_dictionary(body, services)
    info = await services.state.call(services.glossaries.replace, glossary_id, dictionary)
    return JSONResponse(_dictionary_body(info))


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries",
    status_code=204,
    responses=GLOSSARY_ERRORS,
    openapi_extra=LANGUAGES,
)
async def delete_dictionary(request: Request, glossary_id: str) -> Response:
    """Deletes a dictionary of a glossary."""
    services = services_of(request)
    source, target = await _languages(request)
    await services.state.call(services.glossaries.remove_dictionary, glossary_id, source, target)
    return Response(status_code=204)


@router.get(
    "/v3/glossaries/{glossary_id}/entries",
    response_model=GlossaryEntries,
    responses=GLOSSARY_ERRORS,
    openapi_extra=LANGUAGES,
)
async def get_entries(request: Request, glossary_id: str) -> Response:
    """Returns the entries of a dictionary."""
    services = services_of(request)
    source, target = await _languages(request)
    entries = await services.state.call(services.glossaries.entries, glossary_id, source, target)
    dictionary = {"source_lang": source, "target_lang": target, "entries": write_tsv(entries)}
    return JSONResponse({"dictionaries": [{**dictionary, "entries_format": "tsv"}]})


async def _languages(request: Request) -> tuple[str, str]:
    body = await read_parameters(request, Languages)
    return base_language(body.source_lang), base_language(body.target_lang)


def _body(glossary: Glossary) -> dict[str, Any]:
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": [_dictionary_body(each) for each in glossary.dictionaries],
        "creation_time": glossary.created,
    }


def _dictionary_body(info: DictionaryInfo) -> dict[str, Any]:
    return {
        "source_lang": info.source,
        "target_lang": info.target,
        "entry_count": info.num_entries,
    }


DIALECT = Dialect((router,), prefix="/v3/", error_shape=deepl_shape, id_header=TRACE_HEADER)
