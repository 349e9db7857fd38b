"""What the clients of `regard bench mixed` send: texts of known lengths, as whole requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.bench.client import Address, BenchError, send_once
from service.bench.load import TRANSLATED, failure_of
from service.bench.translation import split_pair, translate_request

SHORT_TOKENS = (8, 30)
"""Of a short text, special tokens included."""

LONG_PARTS = 4
"""Long texts have a quarter of the longest one's tokens, two, three, or all of them."""

NUM_LONG = 32

MAX_SENTENCES = 200
"""Of those given. The server tokenises each before the start."""

SHORT, LONG = "short embeddings", "long embeddings"
TRANSLATIONS, ATTENTION = "translations", "attention"


@dataclass(frozen=True)
class Traffic:
    """What the clients of one kind send.

    Attributes:
        kind: Of clients.
        requests: From which they take the next in turn.
        sign: What an answer has in it.
        tokens: Of the shortest and the longest text, where they were counted.
    """

    kind: str
    requests: Sequence[bytes]
    sign: bytes
    tokens: tuple[int, int] | None = None


async def all_traffic(
    address: Address, pair: str, sentences: Sequence[str], max_tokens: int
) -> list[Traffic]:
    """What clients of each kind send, all of it tried once.

    Args:
        address: The server.
        pair: What is translated, and asked about.
        sentences: To make texts of.
        max_tokens: About how long the longest text is; a model may cut it.

    Raises:
        BenchError: The server does not answer as it should, or the sentences do not do.
    """
    lines = [sentence for sentence in sentences if sentence.strip()][:MAX_SENTENCES]
    sizes = {line: await count_tokens(address, line) for line in lines}
    num_special = await count_tokens(address, "a") - 1
    traffic = [
        Traffic(
            TRANSLATIONS, [translate_request(address, pair, s, True) for s in lines], TRANSLATED
        ),
        short_embeddings(address, sizes),
        long_embeddings(address, sizes, num_special, max_tokens),
        Traffic(ATTENTION, [attention_request(address, pair, s) for s in lines], b'"attentions"'),
    ]
    for each in traffic:
        reply = await send_once(address, each.requests[0])
        if failure_of(reply, each.sign) is not None:
            raise BenchError(f"{each.kind}: answered {reply.status}: {reply.excerpt}")
    return traffic


async def count_tokens(address: Address, text: str) -> int:
    """How many tokens a text has, special ones included, or the model's limit if it has more.

    Raises:
        BenchError: The server embeds no texts.
    """
    body = orjson.dumps({"input": text, "truncate": True, "encoding_format": "base64"})
    reply = await send_once(address, address.request("POST", "/v1/embeddings", body))
    if failure_of(reply, b'"usage"') is not None:
        raise BenchError(f"/v1/embeddings answered {reply.status}: {reply.excerpt}")
    tokens: int = orjson.loads(reply.body)["usage"]["prompt_tokens"]
    return tokens


def short_embeddings(address: Address, sizes: dict[str, int]) -> Traffic:
    """Of sentences that are short by themselves.

    Raises:
        BenchError: There are none.
    """
    fewest, most = SHORT_TOKENS
    short = {text: size for text, size in sizes.items() if fewest <= size <= most}
    if not short:
        raise BenchError(f"no sentence has {fewest} to {most} tokens; give others with --source")
    tokens = min(short.values()), max(short.values())
    return Traffic(SHORT, [embed_request(address, text) for text in short], b"[[", tokens)


def long_embeddings(
    address: Address, sizes: dict[str, int], num_special: int, max_tokens: int
) -> Traffic:
    """Of sentences put behind one another, with four lengths in turn.

    Raises:
        BenchError: The sentences are too few for the longest.
    """
    bare = {text: size - num_special for text, size in sizes.items()}
    if sum(bare.values()) < max_tokens:
        raise BenchError(f"the sentences have fewer than {max_tokens} tokens in all; give more")
    texts: list[str] = []
    lengths = []
    for number in range(NUM_LONG):
        wanted = max_tokens * (number % LONG_PARTS + 1) // LONG_PARTS - num_special
        joined, length = joined_to(wanted, bare, first=number)
        texts.append(joined)
        lengths.append(length + num_special)
    requests = [embed_request(address, text) for text in texts]
    return Traffic(LONG, requests, b"[[", (min(lengths), max(lengths)))


def joined_to(wanted: int, bare: dict[str, int], first: int) -> tuple[str, int]:
    """Sentences behind one another with so many tokens at most, and how many they have.

    Args:
        wanted: Tokens.
        bare: Sentences and their tokens, without special ones.
        first: With which to begin; one that no longer fits is left out.
    """
    lines = list(bare)
    taken: list[str] = []
    length = 0
    for place in range(len(lines)):
        line = lines[(first + place) % len(lines)]
        if length + bare[line] <= wanted:
            taken.append(line)
            length += bare[line]
    return " ".join(taken), length


def embed_request(address: Address, text: str) -> bytes:
    """Encodes one request; a model cuts what is longer than it takes."""
    return address.request("POST", "/embed", orjson.dumps({"inputs": text, "truncate": True}))


def attention_request(address: Address, pair: str, text: str) -> bytes:
    """Encodes one request for what the page asks for: every head of the last layer."""
    source, target = split_pair(pair)
    body: dict[str, Any] = {"text": text, "source": source, "target": target, "layers": [-1]}
    body |= {"kinds": ["encoder", "cross"], "reduce": "none"}
    return address.request("POST", "/attention", orjson.dumps(body))
