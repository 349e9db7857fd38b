"""Makes the requests that the clients of `regard bench mixed` send.

A request contains a given sentence, or a text of joined sentences with a chosen number of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from benchmarks.bench.client import Address, BenchError, send_once
from benchmarks.bench.load import TRANSLATED, failure_of
from benchmarks.bench.translation import split_pair, translate_request

SHORT_TOKENS = (8, 30)
"""Smallest and largest number of tokens of a short text, special tokens included."""

LONG_PARTS = 4
"""Number of different lengths of long texts: 1/4, 2/4, 3/4 and 4/4 of the longest."""

NUM_LONG = 32
"""Number of different long texts."""

MAX_SENTENCES = 200
"""Largest number of sentences that are used.

The number is limited, because the server counts the tokens of each sentence before the run.
"""

SHORT, LONG = "short embeddings", "long embeddings"
TRANSLATIONS, ATTENTION = "translations", "attention"


@dataclass(frozen=True)
class Traffic:
    """Requests of one kind of clients."""

    kind: str  # name of the kind
    # encoded requests. The clients together send them in this order, again and again.
    requests: Sequence[bytes]
    sign: bytes  # text that every good reply contains
    # numbers of tokens of the shortest and the longest text; None if the tokens are not counted
    tokens: tuple[int, int] | None = None


async def all_traffic(
    address: Address,
    pair: str,
    sentences: Sequence[str],
    max_tokens: int,
    long_model: str | None = None,
) -> list[Traffic]:
    """Returns the requests of each kind of clients.

    The first request of each kind is sent once, to check that the server answers it.
    """
    lines = [sentence for sentence in sentences if sentence.strip()][:MAX_SENTENCES]
    sizes = {line: await count_tokens(address, line) for line in lines}
    num_special = await count_tokens(address, "a") - 1
    traffic = [
        Traffic(
            TRANSLATIONS, [translate_request(address, pair, s, True) for s in lines], TRANSLATED
        ),
        short_embeddings(address, sizes),
        long_embeddings(address, sizes, num_special, max_tokens, long_model),
        Traffic(ATTENTION, [attention_request(address, pair, s) for s in lines], b'"attentions"'),
    ]
    for each in traffic:
        reply = await send_once(address, each.requests[0])
        if failure_of(reply, each.sign) is not None:
            raise BenchError(f"{each.kind}: the first request got {reply.status}: {reply.excerpt}")
    return traffic


async def count_tokens(address: Address, text: str) -> int:
    """Returns the number of tokens of a text, special tokens included, up to the model's limit."""
    body = orjson.dumps({"input": text, "truncate": True, "encoding_format": "base64"})
    reply = await send_once(address, address.request("POST", "/v1/embeddings", body))
    if failure_of(reply, b'"usage"') is not None:
        raise BenchError(f"/v1/embeddings answered {reply.status}: {reply.excerpt}")
    tokens: int = orjson.loads(reply.body)["usage"]["prompt_tokens"]
    return tokens


def short_embeddings(address: Address, sizes: dict[str, int]) -> Traffic:
    """Returns embedding requests for the short sentences."""
    fewest, most = SHORT_TOKENS
    short = {text: size for text, size in sizes.items() if fewest <= size <= most}
    if not short:
        raise BenchError(f"no sentence has {fewest} to {most} tokens; give others with --source")
    tokens = min(short.values()), max(short.values())
    return Traffic(SHORT, [embed_request(address, text) for text in short], b"[[", tokens)


def long_embeddings(
    address: Address,
    sizes: dict[str, int],
    num_special: int,
    max_tokens: int,
    model: str | None = None,
) -> Traffic:
    """Returns requests to embed long texts, which are joined sentences.

    Successive texts have different maximum lengths, which repeat after LONG_PARTS texts.
    """
    bare = {text: size - num_special for text, size in sizes.items()}
    if sum(bare.values()) < max_tokens:
        raise BenchError(
            f"the sentences have fewer than {max_tokens} tokens in all; give more with --source"
        )
    texts: list[str] = []
    lengths = []
    for number in range(NUM_LONG):
        wanted = max_tokens * (number % LONG_PARTS + 1) // LONG_PARTS - num_special
        joined, length = joined_to(wanted, bare, first=number)
        texts.append(joined)
        lengths.append(length + num_special)
    requests = [embed_request(address, text, model) for text in texts]
    return Traffic(LONG, requests, b"[[", (min(lengths), max(lengths)))


def joined_to(wanted: int, bare: dict[str, int], first: int) -> tuple[str, int]:
    """Joins sentences up to a number of tokens; returns the text and its number of tokens."""
    lines = list(bare)
    taken: list[str] = []
    length = 0
    for place in range(len(lines)):
        line = lines[(first + place) % len(lines)]
        if length + bare[line] <= wanted:
            taken.append(line)
            length += bare[line]
    return " ".join(taken), length


def embed_request(address: Address, text: str, model: str | None = None) -> bytes:
    body = {"inputs": text, "truncate": True, "model": model}
    return address.request("POST", "/embed", orjson.dumps(body))


def attention_request(address: Address, pair: str, text: str) -> bytes:
    """Encodes the request of the web page: the attention of every head of the last layer."""
    source, target = split_pair(pair)
    body: dict[str, Any] = {"text": text, "source": source, "target": target, "layers": [-1]}
    body |= {"kinds": ["encoder", "cross"], "reduce": "none"}
    return address.request("POST", "/attention", orjson.dumps(body))
