"""Routes of LibreTranslate that this server does not offer.

They answer with the messages of a LibreTranslate server whose administrator has disabled them.
"""

from typing import NoReturn

from fastapi import APIRouter

from service.api.error_texts import FILES_DISABLED, SUGGESTIONS_DISABLED
from service.api.errors import ErrorBody
from service.errors import ForbiddenError, InvalidRequestError

router = APIRouter(tags=["translation"])


@router.post("/suggest", status_code=403, response_model=ErrorBody)
async def suggest() -> NoReturn:
    """Refuses the suggestion of a better translation: this server stores none."""
    raise ForbiddenError(SUGGESTIONS_DISABLED.text, details=SUGGESTIONS_DISABLED.details)


@router.post("/translate_file", status_code=403, response_model=ErrorBody)
async def translate_file() -> NoReturn:
    """Refuses the translation of a file."""
    raise ForbiddenError(FILES_DISABLED.text)


@router.get(
    "/download_file/{name}",
    status_code=400,
    response_model=ErrorBody,
    responses={"4XX": {"model": ErrorBody}},
)
async def download_file(name: str) -> NoReturn:
    """Refuses the download of a translated file."""
    raise InvalidRequestError(FILES_DISABLED.text)
