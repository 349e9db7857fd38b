"""GET and POST /v2/usage: the number of translated characters, and the limit."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from service.api.context import context_of, services_of
from service.api.deepl.errors import DEEPL_ERRORS
from service.api.request.parameters import Parameters
from service.api.request.reading import read_parameters

router = APIRouter(tags=["deepl"])

NO_LIMIT = 10**12
"""Value of `character_limit` that stands for no limit; DeepL returns it for unlimited plans."""


class UsageRequest(Parameters):
    """The parameters of `GET` or `POST /v2/usage`."""

    auth_key: Any = Field(
        None,
        description="The API key. It may be in the header `Authorization` instead. A server "
        "without keys ignores it.",
    )


class DeepLUsage(BaseModel):
    """The number of translated characters, and the limit of this number.

    With a limit, `character_count` is the number of characters that DeepL's and LibreTranslate's
    routes have translated for the key this month. On a server without keys, it is the number for
    all clients. Without a limit, it is the number of characters that `/v2/translate` and
    `/v2/document` have translated for all keys since the server started.
    """

    character_count: int = Field(description="Number of code points of the translated texts.")
    character_limit: int = Field(description=f"{NO_LIMIT:,} means that there is no limit.")


@router.get("/v2/usage", responses=DEEPL_ERRORS, operation_id="deepl_usage_get")
@router.post("/v2/usage", responses=DEEPL_ERRORS, operation_id="deepl_usage_post")
async def usage(request: Request) -> DeepLUsage:
    """Returns the number of translated characters, and the limit of this number."""
    services = services_of(request)
    await read_parameters(request, UsageRequest)
    quota = services.quota
    if quota.limit:
        used = await quota.used(context_of(request).account)
        return DeepLUsage(character_count=used, character_limit=quota.limit)
    status = await services.backend.status()
    return DeepLUsage(character_count=status.billed_characters, character_limit=NO_LIMIT)
