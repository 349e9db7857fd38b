"""Routes of LibreTranslate that this server does not offer.

They answer with the messages of a LibreTranslate server whose administrator has disabled them.
"""

from typing import NoReturn

from fastapi import APIRouter

from service.api.error_texts import SUGGESTIONS_DISABLED
from service.api.errors import ErrorBody
from service.errors import ForbiddenError

router = APIRouter(tags=["translation"])


@router.post("/suggest", status_code=403, response_model=ErrorBody)
async def suggest() -> NoReturn:
    """Refuses the suggestion of a better translation: this server stores none."""
    raise ForbiddenError(SUGGESTIONS_DISABLED.text, details=SUGGESTIONS_DISABLED.details)
