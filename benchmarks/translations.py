"""Requests translations from a running server."""

from collections.abc import Sequence

import httpx

TEXTS_AT_ONCE = 50
TIMEOUT_SECONDS = 600.0


def translate(client: httpx.Client, texts: Sequence[str], **fields: str) -> list[str]:
    """Returns the translations of texts.

    Args:
        client: Client with the base URL of the server.
        texts: Texts to translate.
        fields: Other fields of `POST /translate`.
    """
    translations: list[str] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        batch = {"q": texts[start : start + TEXTS_AT_ONCE], **fields}
        response = client.post("/translate", json=batch, timeout=TIMEOUT_SECONDS)
        translations += response.raise_for_status().json()["translatedText"]
    return translations
