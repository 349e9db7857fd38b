"""Checks that a translation depends neither on other texts of a batch nor on the time of sending.

The model translates each line as one sentence, which takes one row of a batch.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bench.client import Address
from benchmarks.bench.translation import in_lists, translate

LIST_SIZE = 1000
"""Number of sentences in a list; by default a server accepts lists of at most 2048 texts."""

MAX_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class ConsistencyReport:
    """The lines whose translation depends on other requests or texts.

    Lines are counted from 1. Each translation is compared with the translation that the same line
    gets when it is sent alone.
    """

    pair: str  # source and target language, such as `en-pt`
    sentences: int
    clients: int  # number of clients that send at random times
    seed: int  # seed of the random order of the lines and of the clients' pauses
    lists_differ: list[int]  # lines that are translated differently when they are sent in a list
    # lines that are translated differently when many clients send the lines at random times
    clients_differ: list[int]


async def run_consistency(
    url: str, pair: str, sentences: Sequence[str], num_clients: int, seed: int
) -> ConsistencyReport:
    """Translates all sentences three times, and compares the translations.

    The sentences are sent alone, in lists, and by many clients at random times.
    """
    address, generator = Address.parse(url), random.Random(seed)
    order = generator.sample(range(len(sentences)), len(sentences))
    mixed = [[sentences[place]] for place in order]

    def pause() -> float:
        return generator.uniform(0.0, MAX_PAUSE_SECONDS)

    alone = await translate(address, pair, in_lists(sentences, 1), False)
    listed = await translate(address, pair, in_lists(sentences, LIST_SIZE), False)
    sent = await translate(address, pair, mixed, False, num_clients, pause)
    return ConsistencyReport(
        pair=pair,
        sentences=len(sentences),
        clients=num_clients,
        seed=seed,
        lists_differ=differing_lines(alone, listed),
        clients_differ=differing_lines(alone, restore(order, sent)),
    )


def restore(order: Sequence[int], items: Sequence[str]) -> list[str]:
    return [item for _, item in sorted(zip(order, items, strict=True))]


def differing_lines(alone: Sequence[str], others: Sequence[str]) -> list[int]:
    pairs = enumerate(zip(alone, others, strict=True), 1)
    return [line for line, (one, other) in pairs if one != other]
