"""The API keys that one HTTP process accepts, and the key of a request.

A request has its key in the header `Authorization`, in one of HEADERS, or in a field of a body,
form or query.
"""

import asyncio
import hmac
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from service.settings import Settings
from service.settings.keys import ADMIN, SCOPES, ApiKey, digest_of, listed_keys, read_keys

logger = logging.getLogger("regard.keys")

WATCH_SECONDS = 1.0  # interval at which the file of keys is examined
NO_DIGEST = "0" * 64

SCHEMES = ("bearer", "deepl-auth-key")
"""Schemes of the header `Authorization`. Only DeepL's clients use the second one."""

HEADERS = (b"x-api-key", b"ocp-apim-subscription-key", b"x-goog-api-key")
"""Headers that contain only the key. The clients of many APIs send the first one."""

FIELDS = ("api_key", "auth_key", "key", "Subscription-Key")
"""Names of the field with the key: LibreTranslate's, DeepL's, Google's and Azure's."""

QUERY_FIELDS = (*FIELDS, "token")
"""Names of the field in a query. Clients of DeepLX and browser extensions use the last one."""

Stamp = tuple[int, int, int]  # inode, size and time of the last change of a file


class KeyRing:
    """Finds keys by their hash, and reads the file of keys again when it changes.

    If the file cannot be used, the error is logged once, until the file or the error changes. The
    keys from the last successful read stay valid.
    """

    def __init__(self, settings: Settings) -> None:
        self.file: Path | None = settings.keys_file
        self.is_required = settings.needs_keys
        self.stamp: Stamp | None = None
        self._failure: tuple[Stamp | None, str | None] | None = None
        admin = settings.admin_key.get_secret_value()
        self._admin = (ApiKey(digest_of(admin), ADMIN, frozenset(SCOPES)),) if admin else ()
        listed = listed_keys(settings.api_keys.get_secret_value()) if self.file is None else ()
        self.keys = self._by_digest(listed)  # by hash, the admin key included
        self.refresh()

    def find(self, given: str) -> ApiKey | None:
        """Returns the key with a given text, in a time that does not depend on similar keys."""
        digest = digest_of(given)
        found = self.keys.get(digest)
        is_equal = hmac.compare_digest(digest, NO_DIGEST if found is None else found.digest)
        return found if is_equal else None

    @property
    def has_admin(self) -> bool:
        return any(ADMIN in key.scopes for key in self.keys.values())

    def refresh(self) -> None:
        if self.file is None:
            return
        stamp: Stamp | None = None
        failure = None
        try:
            found = os.stat(self.file)
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp == self.stamp:
                return
            keys = read_keys(self.file.read_text("utf-8"))
            self.keys = self._by_digest(keys)
            logger.info("the file of keys has been read; it has %d keys", len(keys))
        except OSError as error:
            failure = stamp, error.strerror
            if failure != self._failure:
                logger.error("the file of keys cannot be read: %s", error.strerror)
            stamp = None  # the next call reads the file again
        except ValueError as error:
            # UnicodeDecodeError is a ValueError too; its message would show bytes of the file.
            reason = "it is not UTF-8" if isinstance(error, UnicodeError) else error
            logger.error(
                "the file of keys cannot be used; the keys read before stay valid: %s", reason
            )
        self.stamp, self._failure = stamp, failure

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()

    async def _watch(self) -> None:
        while self.file is not None:
            await asyncio.sleep(WATCH_SECONDS)
            await asyncio.to_thread(self.refresh)  # a slow disk must not block the event loop

    def _by_digest(self, keys: tuple[ApiKey, ...]) -> Mapping[str, ApiKey]:
        return {key.digest: key for key in (*keys, *self._admin)}


def given_key(
    headers: Mapping[bytes, bytes], fields: Mapping[str, Any], names: Sequence[str] = FIELDS
) -> str:
    """Returns the key of a request, "" without one. A header is preferred to a field."""
    scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() in SCHEMES and key.strip():
        return key.strip()
    for name in HEADERS:
        if header := headers.get(name, b"").decode("latin-1").strip():
            return header
    given = [fields[name] for name in names if fields.get(name) is not None]
    return str(given[0]).strip() if given else ""


def num_characters(value: Any) -> int:
    """Returns the number of characters, token ids and bytes of documents in a parameter."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum([1 if type(each) is int else num_characters(each) for each in value])
    if isinstance(value, Mapping):
        return sum(map(num_characters, value.values()))
    return len(getattr(value, "data", ""))  # an Upload
