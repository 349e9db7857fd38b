"""POST /translate_file and GET /download_file: LibreTranslate's translation of documents."""

import asyncio
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.context import context_of, services_of
from service.api.error_texts import FILES_DISABLED
from service.api.errors import ERRORS, MISSING, ErrorBody
from service.api.libretranslate import languages
from service.api.libretranslate.schemas import TranslateFileRequest, TranslateFileResponse
from service.api.request.parameters import MULTIPART, request_body
from service.api.request.reading import read_upload, unless_disconnected
from service.api.request.translation import download, enabled, find_terms, open_job
from service.api.responses import JSONResponse
from service.errors import InvalidRequestError, NotFoundError

router = APIRouter(tags=["translation"])

DOCUMENT: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody},
    200: {"description": "The document.", "content": {"application/octet-stream": {}}},
}


@router.post(
    "/translate_file",
    response_model=TranslateFileResponse,
    responses={**ERRORS, **MISSING},
    openapi_extra=request_body(TranslateFileRequest, MULTIPART),
)
async def translate_file(request: Request) -> Response:
    """Translates a document, and returns the address of the translated document."""
    services, context = services_of(request), context_of(request)
    documents = enabled(services)
    with context.stage("validate"):
        body = await read_upload(request, TranslateFileRequest, services.settings)
        source, target = languages.find(services.catalog, body.source, body.target)
        glossaries = languages.glossaries_of(body, source)
        terms = await find_terms(services, glossaries, source, target)
        opening = open_job(documents, body.file, source, target, terms, context)
        job = await unless_disconnected(request, opening)
    await unless_disconnected(request, documents.run(job))
    name = quote(job.state.name)
    url = f"{request.base_url}download_file/{job.state.id}.{name}"
    return JSONResponse({"translatedFileUrl": url})


@router.get("/download_file/{name}", response_class=Response, responses=DOCUMENT)
async def download_file(request: Request, name: str) -> Response:
    """Returns a translated document. The address cannot be guessed, and it expires."""
    documents = services_of(request).documents
    if documents is None:
        raise InvalidRequestError(FILES_DISABLED.text, details=FILES_DISABLED.details)
    state = documents.store.load(name.partition(".")[0])
    content = None
    if state is not None and state.status == "done":
        content = await asyncio.to_thread(documents.store.content, state.id)
    if state is None or content is None:
        raise NotFoundError("the file does not exist or has expired; translate the document again")
    return download(state, content)
