"""Checks the API key of a request.

A request has its key in the header `Authorization` or `X-API-Key`, or in a field of a body, form
or query.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request

from service.api import error_texts
from service.api.access.key_ring import KeyRing
from service.errors import ForbiddenError, InvalidKeyError, MissingKeyError
from service.settings.keys import ApiKey

SCHEMES = ("bearer", "deepl-auth-key")
"""Schemes of the header `Authorization`. Only DeepL's clients use the second one."""

HEADER = "x-api-key"
"""Header that contains only the key. The clients of many other APIs send this header."""

FIELDS = ("api_key", "auth_key")
"""Names of the field with the key. Only old clients of DeepL use the second one."""


def given_key(request: Request, fields: Mapping[str, Any]) -> str:
    """Returns the key of a request; "" if it has none.

    Args:
        request: The request. A key in its header is preferred to a key in a field. A header without
            a key, such as `Authorization: Bearer`, counts as absent.
        fields: Fields of the request's body, form or query.
    """
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in SCHEMES and (key := credentials.strip()):
        return key
    if header := request.headers.get(HEADER, "").strip():
        return header
    given = [fields[name] for name in FIELDS if fields.get(name) is not None]
    return str(given[0]).strip() if given else ""


async def permitted(
    request: Request, read: Callable[[bool], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    """Returns the fields of a request whose key is valid, for this route, and within its limits.

    A key in a header is checked before the body is read. Without such a key, the body may have the
    key. A server without API keys accepts every request. The hash of the key is stored in the
    context of the request, where the quota finds it.

    Args:
        request: The request.
        read: Reads the fields of the body, form or query. Its argument is whether the body counts
            against the share of bodies without a key.

    Raises:
        MissingKeyError: The request has no key.
        InvalidKeyError: The key is wrong.
        ForbiddenError: The key does not have the scope of the route.
        RateLimitedError: The key has used up its limit for this minute.
        RequestTooLargeError: The request has more characters than its key may send in a minute.
    """
    # The type is `Any`. With the real type, the modules with schemas, which import this module,
    # would also load everything that `service.api.services` imports.
    services: Any = request.app.state.services
    if not services.keys.is_required:
        return await read(False)
    given = given_key(request, {})
    key = find_key(request, services.keys, given) if given else None
    fields = await read(key is None)
    if key is None:
        key = find_key(request, services.keys, given_key(request, fields))
    if key.limits:
        number = num_characters(fields) if key.limits.characters else 0
        await services.backend.take(key.digest, key.limits, number)
    return fields


def find_key(request: Request, keys: KeyRing, given: str) -> ApiKey:
    """Returns the key of a request, and stores its hash in the context of the request.

    Raises:
        MissingKeyError: The request has no key.
        InvalidKeyError: The key is wrong.
        ForbiddenError: The key does not have the scope of the route.
    """
    if not given:
        text = error_texts.MISSING_KEY
        raise MissingKeyError(text.text, details=text.details)
    key = keys.find(given)
    if key is None:
        text = error_texts.WRONG_KEY
        raise InvalidKeyError(text.text, details=text.details)
    request.state.context.account = key.digest
    scope = request.state.scope
    if scope not in key.scopes:
        text = error_texts.wrong_scope(key.name, scope)
        raise ForbiddenError(text.text, details=text.details)
    return key


def num_characters(value: Any) -> int:
    """Returns the number of characters of all texts in a value, plus the bytes of a document.

    A field with the API key does not count. Each token id in a list counts as one character.
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum([1 if type(each) is int else num_characters(each) for each in value])
    if isinstance(value, Mapping):
        return sum(num_characters(each) for name, each in value.items() if name not in FIELDS)
    return len(getattr(value, "data", ""))  # an Upload
