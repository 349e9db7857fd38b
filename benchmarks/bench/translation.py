"""Requests to `POST /translate`, and the translations in their replies."""

import asyncio
import itertools
from collections.abc import Callable, Sequence

import orjson

from benchmarks.bench.client import Address, BenchError, Reply, send_once

LIST_TIMEOUT_SECONDS = 600.0


def split_pair(pair: str) -> tuple[str, str]:
    """Splits `en-pt` or `en-zh-Hans` into source and target language."""
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
    """Translates lists of texts, one list per request; returns all translations in order."""
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
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def _translations(reply: Reply, num_texts: int) -> list[str]:
    try:
        translations = orjson.loads(reply.body)["translatedText"] if reply.status == 200 else None
    except (orjson.JSONDecodeError, LookupError, TypeError):  # the error below shows the body
        translations = None
    if not isinstance(translations, list) or len(translations) != num_texts:
        raise unusable(reply, num_texts)
    return translations
