"""Errors that a request can end with, and the table of their HTTP statuses.

While a request is computed, an error of the model package reaches the client as InternalError.
Input that a model cannot take is refused, chunked or truncated before it is sent to the model. A
request to load a model whose files cannot be used ends with InvalidRequestError.
"""

import errno
import traceback
from dataclasses import dataclass

SHOWN_CHARS = 40
"""Largest number of characters that an error message quotes from a client's value."""

FULL_DISK = frozenset((errno.ENOSPC, errno.EDQUOT))
"""Numbers of the OSErrors that a full disk raises."""


def counted(number: int, noun: str) -> str:
    """Returns "1 text" or "2 texts" for `text`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class ServiceError(Exception):
    """Root of the errors that a request can end with.

    Args:
        message: Cause of the error. If `details` is empty, the message also gives the remedy.
        retry_after_seconds: Time after which a new attempt may succeed, or None.
        param: Name of the wrong parameter, or None.
        details: The value, the limit and the remedy, for errors whose message has a fixed text.
    """

    def __init__(
        self,
        message: str,
        retry_after_seconds: int | None = None,
        param: str | None = None,
        details: str = "",
    ) -> None:
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.param = param
        self.details = details
        super().__init__(message)

    @property
    def joined(self) -> str:
        return f"{self.message}; {self.details}" if self.details else self.message


class InvalidRequestError(ServiceError):
    """The request has a wrong or missing parameter or broken JSON."""


class UnsupportedLanguageError(ServiceError):
    """No loaded model has the language, or no model translates the source into the language."""


class MissingKeyError(ServiceError):
    """The server has API keys, and the request has none."""


class UnauthorizedError(ServiceError):
    """The request has no admin key, or a wrong one."""


class InvalidKeyError(ServiceError):
    """The key of the request is not one of the server's API keys."""


class ForbiddenError(ServiceError):
    """The scope of the key, the origin of the page or a setting forbids the operation."""


class QuotaExceededError(ServiceError):
    """The key of the request has too few characters left this month."""


class NotFoundError(ServiceError):
    """The route, the model, the glossary or the document does not exist."""


class MethodNotAllowedError(ServiceError):
    """The route does not support the method."""


class ConflictError(ServiceError):
    """The state of a model does not allow the operation, or no memory is left for the model."""


class RequestTooLargeError(ServiceError):
    """The request is over a limit; a smaller request may succeed."""


class MisdirectedError(ServiceError):
    """The header Host names a host for which the server does not answer."""


class OverloadedError(ServiceError):
    """The server has too much work or too many buffered bytes, or a remote model is overloaded."""

    def __init__(self, message: str, retry_after_seconds: int, limit: str) -> None:
        super().__init__(message, retry_after_seconds)
        self.limit = limit  # the limit that was reached: `requests`, `tokens`, `deadline`, `bytes`
        self.args = (message, retry_after_seconds, limit)  # for pickling the error


class RateLimitedError(ServiceError):
    """The key of the request has reached its limit of requests or characters per minute."""

    def __init__(
        self, message: str, retry_after_seconds: int, unit: str, details: str = ""
    ) -> None:
        super().__init__(message, retry_after_seconds, details=details)
        self.unit = unit
        self.args = (message, retry_after_seconds, unit, details)  # for pickling the error


class UnavailableError(ServiceError):
    """The request cannot be computed now, or its document is not translated yet."""


class DeadlineExceededError(ServiceError):
    """The result was not ready before the deadline."""


class InternalError(ServiceError):
    """The server has a fault."""


@dataclass(frozen=True, slots=True)
class ErrorKind:
    status: int
    error_type: str
    outcome: str


KINDS: dict[type[ServiceError], ErrorKind] = {
    InvalidRequestError: ErrorKind(400, "invalid_request", "invalid"),
    UnsupportedLanguageError: ErrorKind(400, "unsupported_language", "invalid"),
    MissingKeyError: ErrorKind(400, "missing_api_key", "invalid"),
    UnauthorizedError: ErrorKind(401, "unauthorized", "invalid"),
    InvalidKeyError: ErrorKind(403, "invalid_api_key", "invalid"),
    ForbiddenError: ErrorKind(403, "forbidden", "invalid"),
    QuotaExceededError: ErrorKind(403, "quota_exceeded", "invalid"),
    NotFoundError: ErrorKind(404, "not_found", "invalid"),
    MethodNotAllowedError: ErrorKind(405, "method_not_allowed", "invalid"),
    ConflictError: ErrorKind(409, "conflict", "invalid"),
    RequestTooLargeError: ErrorKind(413, "too_large", "too_large"),
    MisdirectedError: ErrorKind(421, "misdirected", "invalid"),
    OverloadedError: ErrorKind(429, "overloaded", "rejected_queue"),
    RateLimitedError: ErrorKind(429, "rate_limited", "rate_limited"),
    UnavailableError: ErrorKind(503, "unavailable", "unavailable"),
    DeadlineExceededError: ErrorKind(504, "deadline_exceeded", "deadline"),
    InternalError: ErrorKind(500, "internal", "error"),
}


OVERLOAD_OUTCOMES = frozenset({"rejected_queue", "rejected_tokens", "rejected_deadline"})
"""The outcomes of OverloadedError, except `rejected_bytes`, for which no body is read."""


def outcome(error: ServiceError) -> str:
    """Returns the value of the label `outcome` in regard_requests_total for an error."""
    if isinstance(error, OverloadedError) and error.limit in ("tokens", "deadline", "bytes"):
        return f"rejected_{error.limit}"
    return KINDS[type(error)].outcome


def too_late(done: int, total: int) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"{done} of {total} sentences or texts were done before the deadline; "
        "send less at once, or raise REGARD_REQUEST_TIMEOUT_SECONDS"
    )


def stopping() -> UnavailableError:
    return UnavailableError("the server is stopping; try again", 1)


def loading() -> UnavailableError:
    return UnavailableError("the models are loading; try again soon", 1)


class Fault(str):
    """The type and the traceback of an error for the log, without the error's message."""

    @property
    def kind(self) -> str:
        return self.partition("\n")[0]

    @property
    def frames(self) -> list[str]:
        return self.rstrip("\n").split("\n")[1:]


def fault(error: Exception) -> Fault:
    # The message might quote a client's text.
    frames = "".join(traceback.format_tb(error.__traceback__))
    return Fault(f"{type(error).__name__}\n{frames}")
