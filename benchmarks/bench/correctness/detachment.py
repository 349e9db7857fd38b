"""Measures how well the detachment score distinguishes wrong translations from right ones.

The score, from 0 to 1, is high if a translation does not follow its source;
`service.tasks.alignment.detachment` computes it from cross-attention. Each line is scored with its
own translation, and with the translation of another line. If the score works well, it is nearly
always higher for the translation of another line.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from benchmarks.bench.client import Address, BenchError, send_once
from benchmarks.bench.translation import LIST_TIMEOUT_SECONDS, split_pair, unusable


@dataclass(frozen=True, slots=True)
class DetachmentReport:
    """Detachment scores of pairs of lines."""

    sentences: int  # number of lines
    true_median: float  # median score of the lines with their own translations
    shuffled_median: float  # median score of the lines with the translations of other lines
    # area under the ROC curve. It is the probability that a line with the translation of another
    # line has a higher score than a line with its own translation. Chance gives 0.5, and perfect
    # separation gives 1.
    area: float


async def run_detachment(
    url: str, pair: str, sentences: Sequence[str], translations: Sequence[str], batch: int
) -> DetachmentReport:
    """Scores true pairs and shuffled pairs.

    A true pair is a line and its own translation. A shuffled pair is a line and the translation of
    another line.
    """
    if len(sentences) < 2:
        raise BenchError("the detachment needs at least two sentences")
    address = Address.parse(url)
    true = await _scores(address, pair, sentences, translations, batch)
    shuffled = await _scores(address, pair, sentences, shifted(translations), batch)
    return DetachmentReport(
        len(sentences),
        float(np.median(true)),
        float(np.median(shuffled)),
        area_under_curve(true, shuffled),
    )


def shifted(lines: Sequence[str], seed: int = 0) -> list[str]:
    """Returns the lines in a random order in which no line keeps its place."""
    order = [*range(len(lines))]
    random.Random(seed).shuffle(order)
    next_of = dict(zip(order, [*order[1:], order[0]], strict=True))
    return [lines[next_of[index]] for index in range(len(lines))]


def area_under_curve(lower: Sequence[float], higher: Sequence[float]) -> float:
    """Returns the share of pairs whose score from `higher` is above the score from `lower`.

    Each score of `higher` is paired with each score of `lower`. A pair of equal scores counts half.
    """
    low, high = np.array(lower), np.array(higher)[:, None]
    return float((high > low).mean() + (high == low).mean() / 2)


async def _scores(
    address: Address, pair: str, sentences: Sequence[str], translations: Sequence[str], batch: int
) -> list[float]:
    source, target = split_pair(pair)
    found: list[float] = []
    for start in range(0, len(sentences), batch):
        texts = [*sentences[start : start + batch]]
        fields = {
            "text": texts,
            "target_text": [*translations[start : start + batch]],
            "source": source,
            "target": target,
            "top_k": 1,
            "detachment": True,
        }
        request = address.request("POST", "/attention", orjson.dumps(fields))
        reply = await send_once(address, request, LIST_TIMEOUT_SECONDS)
        if reply.status != 200:
            raise unusable(reply, len(texts), "/attention")
        found += [item["detachment"] for item in orjson.loads(reply.body)["items"]]
    return found
