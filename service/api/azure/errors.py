"""Errors in Azure's shape. Azure's clients read the status, `code` and `message`.

Source: https://learn.microsoft.com/azure/ai-services/translator/text-translation/reference/
status-response-codes.
"""

from typing import Any

from pydantic import BaseModel, Field

from service.api.errors import KEYS_401, responses_of, status_of
from service.errors import QuotaExceededError, RequestTooLargeError, ServiceError
from service.tasks.context import RequestContext
from service.tasks.parameters import example

TYPES: dict[type[ServiceError], int] = {QuotaExceededError: 403001, RequestTooLargeError: 400077}
"""Codes of errors that have one of their own, whatever parameter is at fault."""

PARAMETERS = {
    "scope": 400001,
    "language": 400003,
    "toScript": 400004,
    "body": 400005,
    "fromScript": 400018,
    "api-version": 400021,
    "from": 400035,
    "to": 400036,
    "textType": 400071,
}
"""Codes of errors with status 400 by the parameter at fault."""


class AzureError(BaseModel):
    code: int = Field(
        description="Azure's code of the fault. Without a code of its own, it is the status and "
        "three zeros."
    )
    message: str = Field(description="The fault, with the value, the limit and the remedy.")


class AzureErrorBody(BaseModel):
    """The body of errors of Azure's routes. The id of the request is in X-RequestId."""

    model_config = example(
        error={"code": 400036, "message": "zz is not supported; supported: en, pt"}
    )

    error: AzureError


AZURE_ERRORS = responses_of(AzureErrorBody, 400, 401, 403, 413, 429, 500, 503, 504)


def azure_shape(error: ServiceError, _context: RequestContext) -> tuple[int, dict[str, Any]]:
    status = status_of(error, KEYS_401)
    code = TYPES.get(type(error), status * 1000)
    if status == 400 and error.param in PARAMETERS:
        code = PARAMETERS[error.param]
    return status, {"error": {"code": code, "message": error.joined}}
