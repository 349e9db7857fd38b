"""The glossary routes of version 2 of DeepL's API.

In version 2 a glossary has exactly one dictionary, and cannot be changed. A glossary of version 3
may have several dictionaries.
"""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api import error_texts
from service.api.context import Services, services_of
from service.api.deepl.errors import DEEPL_ERRORS, DeepLErrorBody
from service.api.deepl.schemas import (
    DictionaryRequest,
    GlossaryBody,
    GlossaryList,
    GlossaryRequest,
    KeyOnly,
    LanguagePairs,
)
from service.api.request.parameters import FORM, JSON, request_body
from service.api.request.reading import read_parameters
from service.api.request.translation import find_languages
from service.api.responses import JSONResponse
from service.errors import InvalidRequestError, NotFoundError
from service.models.catalog import Catalog
from service.state.glossaries import Dictionary, Glossary
from service.text.glossary import MAX_TERM_BYTES, read_entries, write_tsv
from service.text.language_codes import base_language

router = APIRouter(tags=["glossaries"], responses=DEEPL_ERRORS)

GLOSSARY_ERRORS: dict[int | str, dict[str, Any]] = {
    404: {"model": DeepLErrorBody},
    "4XX": {"model": DeepLErrorBody},  # in place of FastAPI's own 422
}
"""Further error responses of the routes of glossaries, for OpenAPI."""

TSV = "text/tab-separated-values"


@router.post(
    "/v2/glossaries",
    status_code=201,
    response_model=GlossaryBody,
    responses=GLOSSARY_ERRORS,
    openapi_extra=request_body(GlossaryRequest, JSON, FORM),
)
async def create_glossary(request: Request) -> Response:
    """Stores a glossary with one dictionary."""
    services = services_of(request)
    body = await read_parameters(request, GlossaryRequest)
    name, dictionary = checked_name(body.name), read_dictionary(body, services)
    glossary = await services.state.call(services.glossaries.create, name, [dictionary])
    return JSONResponse(_body(glossary), 201)


@router.get("/v2/glossaries", response_model=GlossaryList)
async def list_glossaries(request: Request) -> Response:
    """Lists the glossaries with one dictionary."""
    services = await checked(request)
    glossaries = await services.state.call(services.glossaries.all)
    return JSONResponse({"glossaries": [_body(each) for each in glossaries if _is_single(each)]})


@router.get("/v2/glossaries/{glossary_id}", response_model=GlossaryBody, responses=GLOSSARY_ERRORS)
async def get_glossary(request: Request, glossary_id: str) -> Response:
    """Returns a glossary without its entries."""
    services = await checked(request)
    return JSONResponse(_body(await _single(services, glossary_id)))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    response_class=Response,
    responses={200: {"content": {TSV: {"schema": {"type": "string"}}}}, **GLOSSARY_ERRORS},
)
async def get_entries(request: Request, glossary_id: str) -> Response:
    """Returns the entries of a glossary as tab-separated values."""
    services = await checked(request)
    (info,) = (await _single(services, glossary_id)).dictionaries
    entries = await services.state.call(
        services.glossaries.entries, glossary_id, info.source, info.target
    )
    return Response(write_tsv(entries), media_type=TSV)


@router.delete("/v2/glossaries/{glossary_id}", status_code=204, responses=GLOSSARY_ERRORS)
async def delete_glossary(request: Request, glossary_id: str) -> Response:
    """Deletes a glossary with all its dictionaries, even if it has several."""
    services = await checked(request)
    await services.state.call(services.glossaries.remove, glossary_id)
    return Response(status_code=204)


@router.get("/v2/glossary-language-pairs", response_model=LanguagePairs)
async def language_pairs(request: Request) -> Response:
    """Lists the language pairs that the server translates; a dictionary may have any of them."""
    services = await checked(request)
    return JSONResponse(
        {
            "supported_languages": [
                {"source_lang": source, "target_lang": target}
                for source, target in pairs(services.catalog)
            ]
        }
    )


async def checked(request: Request) -> Services:
    services = services_of(request)
    await read_parameters(request, KeyOnly)
    return services


def pairs(catalog: Catalog) -> list[tuple[str, str]]:
    """Returns the language pairs that the server translates; the codes have no regions."""
    directions = (
        (base_language(source), base_language(target))
        for source, targets in catalog.offers().items()
        for target in targets
    )
    return sorted({pair for pair in directions if pair[0] != pair[1]})


def checked_name(name: str) -> str:
    if not name.strip():
        raise error_texts.missing("name").error(InvalidRequestError, "name")
    if (size := len(name.encode())) > MAX_TERM_BYTES:
        details = f"the name has {size} bytes in UTF-8; the limit is {MAX_TERM_BYTES}"
        raise InvalidRequestError(details, param="name")
    return name


def read_dictionary(body: DictionaryRequest, services: Services) -> Dictionary:
    found = find_languages(
        services.catalog, ("source_lang", body.source_lang), ("target_lang", body.target_lang)
    )
    source, target = (base_language(code or "") for code in found)
    if source == target:
        raise InvalidRequestError("both languages are the same; change one", param="target_lang")
    return Dictionary(source, target, read_entries(body.entries, body.entries_format))


def _is_single(glossary: Glossary) -> bool:
    return len(glossary.dictionaries) == 1


async def _single(services: Services, glossary_id: str) -> Glossary:
    glossary = await services.state.call(services.glossaries.get, glossary_id)
    if not _is_single(glossary):
        number = len(glossary.dictionaries)
        details = f"it has {number} dictionaries; use /v3/glossaries/{glossary_id}"
        raise NotFoundError("Glossary not found", details=details)
    return glossary


def _body(glossary: Glossary) -> dict[str, Any]:
    (info,) = glossary.dictionaries
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": True,
        "source_lang": info.source,
        "target_lang": info.target,
        "creation_time": glossary.created,
        "entry_count": info.num_entries,
    }
