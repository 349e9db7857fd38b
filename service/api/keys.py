"""Checks the API key of a request.

A request carries its key in the header `Authorization`, or in a field of a body, form or query. All
routes with such fields check the key. Routes without fields, such as `GET /languages`, need no API
key.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from service.api import error_texts
from service.errors import InvalidKeyError, MissingKeyError
from service.settings import Settings

SCHEMES = ("bearer", "deepl-auth-key")
"""Schemes of the header `Authorization`. Only DeepL's clients use the second one."""

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
    given = [fields[name] for name in FIELDS if fields.get(name) is not None]
    return str(given[0]).strip() if given else ""


def check_key(request: Request, given: str) -> None:
    """Refuses a key that is neither an API key of the server nor its admin key.

    The hash of the key is stored in the context of the request, where the quota finds it. A server
    without API keys accepts every request.

    Raises:
        MissingKeyError: The key is empty.
        InvalidKeyError: The key is wrong.
    """
    # Schemas import this module, so it cannot import the services.
    settings: Settings = request.app.state.services.settings
    if not settings.keys:
        return
    if not given:
        text = error_texts.MISSING_KEY
        raise MissingKeyError(text.text, details=text.details)
    accepted = [*settings.keys, settings.admin_key.get_secret_value()]
    # Every key is compared, so that the time does not depend on the position of a match.
    matches = [hmac.compare_digest(given.encode(), key.encode()) for key in accepted]
    if not any(matches):
        text = error_texts.WRONG_KEY
        raise InvalidKeyError(text.text, details=text.details)
    request.state.context.account = hashlib.sha256(given.encode()).hexdigest()
