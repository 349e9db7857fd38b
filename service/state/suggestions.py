"""Stores better translations that users suggest."""

import asyncio
import time
from dataclasses import dataclass

from service.state.database import Database


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A better translation of a text.

    Attributes:
        q: The text.
        s: The suggested translation.
        source: Code of the text's language, or `auto`.
        target: Code of the translation's language.
    """

    q: str
    s: str
    source: str
    target: str


class SuggestionStore:
    """Stores the suggestions of all processes of the server.

    Args:
        database: Holds the suggestions.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(self, suggestion: Suggestion) -> None:
        """Stores a suggestion.

        Raises:
            InternalError: The database cannot be written.
        """
        await asyncio.to_thread(self._add, suggestion)

    def _add(self, suggestion: Suggestion) -> None:
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT INTO suggestions (created, q, s, source, target) VALUES (?, ?, ?, ?, ?)",
                (
                    int(time.time()),
                    suggestion.q,
                    suggestion.s,
                    suggestion.source,
                    suggestion.target,
                ),
            )
