"""Sends a request to a chat endpoint, and turns a failure into an error for the client.

The errors for clients name the served model. The log names the endpoint instead. Errors and log
lines never contain the text of a request or a translation.
"""

import logging
from typing import Any
from urllib.parse import urlsplit

import httpx2

from service.errors import InternalError, OverloadedError, ServiceError, UnavailableError
from service.models.remote import RemoteFiles
from service.remote.prompt import chat_request, translation_of
from service.settings import Settings

logger = logging.getLogger("regard.remote")

CONNECT_SECONDS = 10.0

PAUSE_SECONDS = 1
"""Time after which a failed request may be repeated.

If the endpoint sends a number of seconds in Retry-After, this number replaces PAUSE_SECONDS.
`service.remote.endpoint` makes the second attempt.
"""

MAX_PAUSE_SECONDS = 60
"""Upper limit on the Retry-After that an endpoint sends. The limit replaces larger values."""


class ChatClient:
    """Asks chat endpoints for translations, over connections that stay open.

    The caller limits the requests at once. A limit of all connections together would let a slow
    endpoint delay the others.

    Args:
        settings: Settings with the key of the endpoints, the time limit of a request, and the
            largest number of requests at once to each endpoint.
    """

    def __init__(self, settings: Settings) -> None:
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # httpx2 logs each request
        key = settings.remote_key.get_secret_value()
        self.client = httpx2.AsyncClient(
            headers={"User-Agent": "regard"} | ({"Authorization": f"Bearer {key}"} if key else {}),
            timeout=httpx2.Timeout(settings.request_timeout_seconds, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_keepalive_connections=settings.remote_requests),
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self.client.aclose()

    async def translate(self, text: str, model: RemoteFiles) -> str:
        """Returns the translation of a sentence."""
        try:
            response = await self.client.post(
                f"{model.url}/chat/completions", json=chat_request(text, model)
            )
        except httpx2.RequestError as error:
            logger.warning(
                "the endpoint %s does not answer: %s", host_of(model), type(error).__name__
            )
            message = f"the endpoint of {model.name} does not answer; try again"
            raise UnavailableError(message, PAUSE_SECONDS) from None
        if response.status_code != 200:
            logger.warning("the endpoint %s answers %s", host_of(model), response.status_code)
            raise refusal(response.status_code, response.headers.get("retry-after", ""), model.name)
        return translation_of(parsed(response), model.name)


def parsed(response: httpx2.Response) -> Any:
    """Returns the parsed body of a reply; None if it is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


def refusal(status: int, retry_after: str, name: str) -> ServiceError:
    """Returns the error for a status other than 200.

    Args:
        status: The status.
        retry_after: Value of the header Retry-After; "" if the reply has no such header.
        name: Served name of the model.
    """
    seconds = int(retry_after[:9]) if retry_after.isdecimal() else PAUSE_SECONDS
    wait = min(seconds, MAX_PAUSE_SECONDS)
    if status == 429:
        message = f"the endpoint of {name} has too many requests; try again"
        return OverloadedError(message, wait, "requests")
    if status >= 500:
        return UnavailableError(f"the endpoint of {name} answers {status}; try again", wait)
    return InternalError(
        f"the endpoint of {name} answers {status}; check its address, its model and "
        "REGARD_REMOTE_KEY"
    )


def host_of(model: RemoteFiles) -> str:
    """Returns host and port of a model's endpoint."""
    return urlsplit(model.url).netloc
