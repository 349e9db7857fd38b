"""What a request can end in other than a result, and the one table that gives it a status.

ServiceError
├─ InvalidRequestError        400 invalid_request        wrong or missing parameters, broken JSON
├─ UnsupportedLanguageError   400 unsupported_language   no such language, or no model for a pair
├─ UnauthorizedError          401 unauthorized           no admin key, or another
├─ ForbiddenError             403 forbidden              the server has no admin key
├─ NotFoundError              404 not_found              no such route or model
├─ MethodNotAllowedError      405 method_not_allowed     the route takes another method
├─ ConflictError              409 conflict               the model is loaded, or about to be
├─ RequestTooLargeError       413 too_large              body, list or text over a limit
├─ OverloadedError            429 overloaded             the queue is full; Retry-After says when
├─ UnavailableError           503 unavailable            loading, stopping, or a worker died
├─ DeadlineExceededError      504 deadline_exceeded      not done in time
└─ InternalError              500 internal               a fault of ours; the log has its id

An error of the model package reaches a client only as InternalError: what a model cannot take
is refused or cut up before it is sent to one.
"""

import traceback
from dataclasses import dataclass

SHOWN_CHARS = 40
"""An error message quotes at most this number of characters of a value from a client."""


class ServiceError(Exception):
    """The root of what a request can end in other than a result.

    Args:
        message: What happened, with the value, the limit and the way out.
        retry_after_seconds: When it is worth asking again; None where it is not.
        param: The parameter at fault, where it is one.
    """

    def __init__(
        self, message: str, retry_after_seconds: int | None = None, param: str | None = None
    ) -> None:
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.param = param
        super().__init__(message)


class InvalidRequestError(ServiceError):
    """The request cannot be understood."""


class UnsupportedLanguageError(ServiceError):
    """No model reads or writes that language, or none goes from the one to the other."""


class UnauthorizedError(ServiceError):
    """Who asks has not said the admin key."""


class ForbiddenError(ServiceError):
    """Nobody may do this on this server."""


class NotFoundError(ServiceError):
    """There is nothing here."""


class MethodNotAllowedError(ServiceError):
    """The route takes another method."""


class ConflictError(ServiceError):
    """It does not go together with what is there, or is under way."""


class RequestTooLargeError(ServiceError):
    """The request is over a limit, which was seen before anything was computed."""


class OverloadedError(ServiceError):
    """Too much is waiting already.

    Args:
        message: What is full.
        retry_after_seconds: When there should be room.
        limit: `requests` or `tokens`, whichever was reached.
    """

    def __init__(self, message: str, retry_after_seconds: int, limit: str) -> None:
        super().__init__(message, retry_after_seconds)
        self.limit = limit
        self.args = (message, retry_after_seconds, limit)  # so that it can be pickled


class UnavailableError(ServiceError):
    """No worker can take the request now."""


class DeadlineExceededError(ServiceError):
    """The result did not come in time."""


class InternalError(ServiceError):
    """A fault of the server."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a class of errors is told to clients and to metrics.

    Attributes:
        status: HTTP status.
        error_type: The `error_type` of the body.
        outcome: The label in regard_requests_total.
    """

    status: int
    error_type: str
    outcome: str


KINDS: dict[type[ServiceError], Kind] = {
    InvalidRequestError: Kind(400, "invalid_request", "invalid"),
    UnsupportedLanguageError: Kind(400, "unsupported_language", "invalid"),
    UnauthorizedError: Kind(401, "unauthorized", "invalid"),
    ForbiddenError: Kind(403, "forbidden", "invalid"),
    NotFoundError: Kind(404, "not_found", "invalid"),
    MethodNotAllowedError: Kind(405, "method_not_allowed", "invalid"),
    ConflictError: Kind(409, "conflict", "invalid"),
    RequestTooLargeError: Kind(413, "too_large", "too_large"),
    OverloadedError: Kind(429, "overloaded", "rejected_queue"),
    UnavailableError: Kind(503, "unavailable", "unavailable"),
    DeadlineExceededError: Kind(504, "deadline_exceeded", "deadline"),
    InternalError: Kind(500, "internal", "error"),
}


def outcome(error: ServiceError) -> str:
    """The label of regard_requests_total for this error."""
    if isinstance(error, OverloadedError) and error.limit == "tokens":
        return "rejected_tokens"
    return KINDS[type(error)].outcome


def too_late(done: int, total: int) -> DeadlineExceededError:
    """The error for a request whose deadline has passed."""
    return DeadlineExceededError(
        f"{done} of {total} sentences or texts were done before the deadline; "
        "send less at once, or raise REGARD_REQUEST_TIMEOUT_SECONDS"
    )


def fault(error: Exception) -> str:
    """Of what type and where, for the log; without its message, which might quote a client."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"{type(error).__name__}\n{frames}"
