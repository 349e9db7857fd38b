"""Opens uploaded documents and returns translated ones, for the LibreTranslate and DeepL APIs."""

from urllib.parse import quote

from starlette.responses import Response

from service.api import error_texts
from service.api.error_texts import FILES_DISABLED
from service.api.request.body import Upload
from service.api.services import Services
from service.documents.base import DocumentError, DocumentTooLargeError, UnsupportedFormatError
from service.documents.formats import format_of
from service.documents.store import DocumentState
from service.errors import ForbiddenError, InvalidRequestError, RequestTooLargeError, ServiceError
from service.tasks.context import RequestContext
from service.tasks.documents.job import DocumentJob
from service.tasks.documents.translator import DocumentTranslator
from service.text.glossary.terms import Terms


async def open_job(
    documents: DocumentTranslator,
    file: Upload,
    source: str | None,
    target: str,
    terms: Terms | None,
    context: RequestContext,
) -> DocumentJob:
    """Returns the job of an uploaded document. The caller must run the job.

    The job counts against REGARD_MAX_FILES until it has run.

    Raises:
        ServiceError: The document cannot be read, the server has no room for it, or the API key has
            too few characters left this month.
    """
    try:
        job = await documents.open(file.name, file.data, source, target, context)
    except DocumentError as error:
        raise refusal(error) from None
    job.terms = terms
    return job


def enabled(services: Services) -> DocumentTranslator:
    """Returns the translator of documents.

    Raises:
        ForbiddenError: REGARD_FILES is false, so the server does not translate documents.
    """
    if services.documents is None:
        raise ForbiddenError(FILES_DISABLED.text, details=FILES_DISABLED.details)
    return services.documents


def refusal(error: DocumentError) -> ServiceError:
    """Returns the error for a request whose document cannot be read."""
    if isinstance(error, UnsupportedFormatError):
        return InvalidRequestError(error_texts.FILE_FORMAT, details=str(error))
    text, details = error_texts.broken_file(error)
    if isinstance(error, DocumentTooLargeError):
        return RequestTooLargeError(text, details=details)
    return InvalidRequestError(text, details=details)


def download(state: DocumentState, content: bytes) -> Response:
    """Returns the response with a translated document. A browser saves the document as a file."""
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(state.name)}",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return Response(content, media_type=format_of(state.name).media_type, headers=headers)
