"""Requests to `POST /translate`, and the translations in their replies."""

import asyncio
import itertools
from collections.abc import Callable, Sequence

import orjson

from benchmarks.bench.client import Address, BenchError, Reply, send_once

LIST_TIMEOUT_SECONDS = 600.0


def split_pair(pair: str) -> tuple[str, str]:
    """Splits `en-pt` or `en-zh-Hans` into source and target language.

    Raises:
        BenchError: A language is missing.
    """
    source, _, target = pair.partition("-")
    if not source or not target:
        raise BenchError(f"pair {pair!r} is not SOURCE-TARGET; give it as en-pt")
    return source, target


def translate_request(
    address: Address,
    pair: str,
    q: str | Sequence[str],
    split_sentences: bool,
    timeout_ms: int | None = None,
) -> bytes:
    """Encodes one request for translations; `timeout_ms` is the time limit of the request."""
    source, target = split_pair(pair)
    body = {"q": q, "source": source, "target": target, "split_sentences": split_sentences}
    return address.request("POST", "/translate", orjson.dumps(body), timeout_ms)


def unusable(reply: Reply, num_texts: int, path: str = "/translate") -> BenchError:
    """Returns the error for a reply that does not have one result for each of `num_texts` texts."""
    return BenchError(
        f"{path} answered {reply.status} to a request with {num_texts} text(s), and the reply does "
        f"not have {num_texts} result(s): {reply.excerpt}"
    )


async def translate(
    address: Address,
    pair: str,
    lists: Sequence[Sequence[str]],
    split_sentences: bool,
    num_clients: int = 1,
    pause: Callable[[], float] = lambda: 0.0,
) -> list[str]:
    """Translates lists of texts, one list per request; returns all translations in order.

    Args:
        address: Address of the server.
        pair: Source and target language, such as `en-pt`.
        lists: Texts of each request. A single text is also sent as a list: a server refuses an
            empty `q`, but accepts an empty text in a list.
        split_sentences: Whether the server splits texts; if not, each text is one sentence.
        num_clients: Number of requests at a time.
        pause: Returns the seconds that a client waits before each request.

    Raises:
        BenchError: A request failed, or its reply does not have one translation for each text.
    """
    results: list[Sequence[str]] = [()] * len(lists)
    waiting = iter(enumerate(lists))

    async def client() -> None:
        for place, texts in waiting:
            await asyncio.sleep(pause())
            request = translate_request(address, pair, texts, split_sentences)
            reply = await send_once(address, request, LIST_TIMEOUT_SECONDS)
            results[place] = _translations(reply, len(texts))

    await asyncio.gather(*(client() for _ in range(num_clients)))
    return list(itertools.chain.from_iterable(results))


def in_lists(sentences: Sequence[str], size: int) -> list[Sequence[str]]:
    """Divides sentences into lists of `size` sentences; the last list may be shorter."""
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def _translations(reply: Reply, num_texts: int) -> list[str]:
    try:
        translations = orjson.loads(reply.body)["translatedText"] if reply.status == 200 else None
    except (orjson.JSONDecodeError, LookupError, TypeError):  # the error below shows the body
        translations = None
    if not isinstance(translations, list) or len(translations) != num_texts:
        raise unusable(reply, num_texts)
    return translations
