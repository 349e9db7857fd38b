"""The routes of /v2/document: DeepL's clients upload, poll and download documents."""

import asyncio
import hmac
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.context import HttpContext, Services
from service.api.deepl.errors import DEEPL_ERRORS, DeepLErrorBody
from service.api.deepl.glossaries import resolve_languages
from service.api.deepl.schemas import KeyOnly, TranslationFields
from service.api.errors import responses_of
from service.api.middleware import ended
from service.api.request.handlers import route
from service.api.request.parameters import FORM, JSON, MULTIPART, Upload, UploadedFile
from service.api.request.reading import read_form
from service.api.request.translation import download, enabled, open_job
from service.documents.base import DocumentError
from service.documents.formats import extension_of, format_of
from service.errors import (
    KINDS,
    InvalidRequestError,
    NotFoundError,
    ServiceError,
    UnavailableError,
    outcome,
)
from service.metrics.figures import DOCUMENT
from service.state.documents import DocumentState
from service.tasks.context import RequestContext
from service.tasks.documents import DocumentJob, DocumentTranslator
from service.tasks.parameters import Parameters

ERRORS = {**DEEPL_ERRORS, **responses_of(DeepLErrorBody, "4XX")}
router = APIRouter(tags=["deepl"], responses=ERRORS)

RETRY_SECONDS = 2


class FileField(Parameters):
    """The file. This field is checked first, because only a multipart form can have a file."""

    file: UploadedFile


class DocumentRequest(TranslationFields, FileField):
    filename: str | None = Field(
        None, description="Name of the document, in place of the name of the uploaded file."
    )
    output_format: str | None = Field(
        None, description="Extension of the translation. It must equal the document's extension."
    )


class DocumentHandle(BaseModel):
    """The id and the key of an uploaded document. Both are secret, and later requests need both."""

    document_id: str
    document_key: str


class DocumentKeyRequest(KeyOnly):
    document_key: str = Field(description="The key that the upload returned.")


class DocumentStatus(BaseModel):
    """The status of a document; members without a value are absent."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = Field(
        None,
        description="Estimated time until the translation is done. Present only while `status` is "
        "`translating`.",
    )
    progress: float | None = Field(
        None, description="Share of the texts that are translated, with `seconds_remaining`."
    )
    billed_characters: int | None = Field(
        None, description="Number of code points of the texts, if `status` is `done`."
    )
    skipped: dict[str, int] | None = Field(
        None, description="Numbers of `images` and `equations`, which are not translated, if done."
    )
    error_message: str | None = Field(
        None, description="Reason for the failure, if `status` is `error`."
    )
    message: str | None = Field(None, description="The same as `error_message`.")


@route(router.post, "/v2/document", DocumentHandle, MULTIPART, read=read_form)
async def upload(context: HttpContext, body: DocumentRequest) -> dict[str, str]:
    """Begins the translation of a document, and returns the id and the key of the document."""
    services, name = context.services, body.filename or body.file.name
    documents = enabled(services)
    source, target, terms = await resolve_languages(services, body)
    check_format(body, name)
    file = Upload(name, body.file.data)
    own = RequestContext(
        context.request_id, task=DOCUMENT, address=context.address, account=context.account
    )
    job = await open_job(documents, file, source, target, terms, own)
    job.languages_differ = True
    documents.in_background(run(services, documents, job))
    return {"document_id": shown_id(job.state), "document_key": job.state.key}


@route(router.post, "/v2/document/{document_id}", DocumentStatus, JSON, FORM)
async def status(context: HttpContext, body: DocumentKeyRequest, document_id: str) -> Any:
    """Returns the status of a document."""
    state = find(context, body, document_id)
    found: dict[str, Any] = {"document_id": shown_id(state), "status": state.status}
    if state.status == "translating" and state.remaining_seconds is not None:
        found["seconds_remaining"] = state.remaining_seconds
        found["progress"] = state.progress
    if state.status == "done":
        found["billed_characters"] = state.characters
        if state.skipped:
            found["skipped"] = state.skipped
    if state.status == "error":
        found["error_message"] = found["message"] = state.error
    return found


@route(
    router.post,
    "/v2/document/{document_id}/result",
    None,
    JSON,
    FORM,
    response_class=Response,
    responses={200: {"description": "The document.", "content": {"application/octet-stream": {}}}},
)
async def result(context: HttpContext, body: DocumentKeyRequest, document_id: str) -> Response:
    """Returns a translated document, and deletes it from the server."""
    state = find(context, body, document_id)
    if state.status == "error":
        raise InvalidRequestError("The document was not translated.", details=state.error)
    if state.status != "done":
        raise UnavailableError("The document is being translated; ask again", RETRY_SECONDS)
    content = await asyncio.to_thread(enabled(context.services).store.take, state.id)
    if content is None:
        raise not_found()
    return download(state, content)


def check_format(body: DocumentRequest, name: str) -> None:
    try:
        format_of(name)
    except DocumentError as error:
        raise InvalidRequestError("Invalid file", details=str(error)) from None
    extension = extension_of(name)
    wanted = body.output_format
    if wanted and "." + wanted.lower().removeprefix(".") != extension:
        raise InvalidRequestError(
            "Value for 'output_format' not supported.",
            details="a document keeps its format; leave output_format out, or send "
            f"{extension[1:]}",
        )


def shown_id(state: DocumentState) -> str:
    """Returns the id as DeepL writes it, with capital letters; `find` accepts small ones too."""
    return state.id.upper()


def find(context: HttpContext, body: DocumentKeyRequest, document_id: str) -> DocumentState:
    state = enabled(context.services).store.load(document_id.lower())
    if state is None or not hmac.compare_digest(state.key.encode(), body.document_key.encode()):
        raise not_found()
    return state


def not_found() -> NotFoundError:
    return NotFoundError(
        "Document not found",
        details="the id or the key is wrong, or the document was deleted: after its download, or "
        "after REGARD_FILE_RETENTION_SECONDS",
    )


async def run(services: Services, documents: DocumentTranslator, job: DocumentJob) -> None:
    """Translates an uploaded document after the reply, and counts it as a request."""
    context, requests = job.context, services.requests
    status = 200
    services.backend.recorder.begin(DOCUMENT)
    requests.begin(context)
    try:
        await documents.run(job)
        context.billed_characters = job.state.characters
    except ServiceError as error:
        context.outcome, status = outcome(error), KINDS[type(error)].status
    except asyncio.CancelledError:
        context.outcome = "cancelled"
        raise
    except Exception:  # the job has already logged the error
        context.outcome, status = "error", 500
    finally:
        requests.end(context)
        services.backend.recorder.end(ended(context, DOCUMENT, status))
