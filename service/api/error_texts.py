"""Errors in parameters, bodies and paths, which several dialects share.

If LibreTranslate has the same error, the text is exactly LibreTranslate's, because clients may
compare texts. Details add the value, the limit or the remedy to a text. All other texts are written
where their errors are raised. Each dialect puts the texts into its own error format.
"""

from service.errors import (
    SHOWN_CHARS,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    ServiceError,
)


def files_disabled(kind: type[ServiceError] = ForbiddenError) -> ServiceError:
    details = "the setting REGARD_FILES enables it"
    return kind("Files translation are disabled on this server.", details=details)


def missing(name: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid request: missing {name} parameter", param=name)


def out_of_range(name: str, sign: str, limit: object, value: object) -> InvalidRequestError:
    """Returns the error for a number outside its limit. `sign` is `>=` or `<=`."""
    message = f"Invalid request: {name} parameter must be {sign} {limit}"
    return InvalidRequestError(message, param=name, details=f"it is {str(value)[:SHOWN_CHARS]}")


def too_many_texts(
    number: int, limit: int, kind: type[ServiceError] = InvalidRequestError, name: str | None = None
) -> ServiceError:
    message = f"Invalid request: request ({number}) exceeds text limit ({limit})"
    return kind(message, param=name, details="send fewer texts, or raise REGARD_MAX_INPUTS")


def too_many_chars(number: int, limit: int, name: str) -> ServiceError:
    error = too_many_texts(number, limit, name=name)
    error.details = "send shorter texts, or raise REGARD_MAX_TEXT_CHARS"
    return error


def unknown_path() -> NotFoundError:
    return NotFoundError("there is no such address; GET /docs lists all routes")


def invalid_json(reason: object) -> InvalidRequestError:
    return InvalidRequestError("Invalid JSON format", details=str(reason))
