"""Stores better translations that users suggest."""

import time
from dataclasses import astuple, dataclass

from service.errors import InvalidRequestError, UnavailableError
from service.state.database import Database, stored_bytes

MAX_CHARS = 10_000
"""Largest number of characters of a text and of its suggested translation."""

MAX_BYTES = 256 * 1024 * 1024
"""Size of the stored data from which on suggestions are refused: half of that of glossaries."""

RETRY_AFTER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested translation `s` of a text `q`. The language code `source` may be `auto`."""

    q: str
    s: str
    source: str
    target: str


class SuggestionStore:
    """Stores the suggestions of all processes of the server."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(self, suggestion: Suggestion) -> None:
        for name, text in (("q", suggestion.q), ("s", suggestion.s)):
            if len(text) > MAX_CHARS:
                raise InvalidRequestError(
                    f"{name} has {len(text)} characters; the limit is {MAX_CHARS}, so suggest a "
                    "translation of a part",
                    param=name,
                )
        await self.database.call(self._add, suggestion)

    def _add(self, suggestion: Suggestion) -> None:
        with self.database.transaction() as connection:
            if (size := stored_bytes(connection)) > MAX_BYTES:
                raise UnavailableError(
                    f"the stored data has {size} bytes, and suggestions are stored up to "
                    f"{MAX_BYTES}; the operator of the server must delete old suggestions",
                    RETRY_AFTER_SECONDS,
                )
            connection.execute(
                "INSERT INTO suggestions (created, q, s, source, target) VALUES (?, ?, ?, ?, ?)",
                (int(time.time()), *astuple(suggestion)),
            )
