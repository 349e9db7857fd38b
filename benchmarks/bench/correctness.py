"""Measures of the translations themselves: quality, consistency, alignment and detachment.

In consistency, the model translates each line as one sentence, which takes one row of a batch.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bench.client import Address, BenchError
from benchmarks.bench.texts import in_lists, post_texts, split_pair, translate


@dataclass(frozen=True)
class Scores:
    """Corpus scores of the translations against the reference, from 0 to 100."""

    bleu: float
    chrf: float


@dataclass(frozen=True)
class QualityReport:
    pair: str
    sentences: int
    seconds: float
    sentences_per_second: float
    scores: Scores
    signatures: tuple[str, str]  # of BLEU and chrF; only scores with equal ones can be compared
    compared: Scores | None  # scores of another system's translations
    equal: int | None  # lines to which both systems give exactly the same translation


class Scorer:
    """Compares line n of the translations with line n of the reference."""

    def __init__(self, references: Sequence[str]) -> None:
        try:
            from sacrebleu import BLEU, CHRF
        except ImportError as error:
            raise BenchError("scoring needs sacrebleu: pip install 'regard[bench]'") from error
        self._references = [references]
        self._bleu, self._chrf = BLEU(tokenize="13a"), CHRF()

    def report(
        self, pair: str, translations: Sequence[str], seconds: float, others: Sequence[str] | None
    ) -> QualityReport:
        return QualityReport(
            pair=pair,
            sentences=len(translations),
            seconds=seconds,
            sentences_per_second=len(translations) / seconds,
            scores=self.score(translations),
            signatures=(str(self._bleu.get_signature()), str(self._chrf.get_signature())),
            compared=self.score(others) if others else None,
            equal=sum(map(str.__eq__, translations, others)) if others else None,
        )

    def score(self, translations: Sequence[str]) -> Scores:
        bleu = self._bleu.corpus_score(translations, self._references)
        chrf = self._chrf.corpus_score(translations, self._references)
        return Scores(bleu=bleu.score, chrf=chrf.score)


LIST_SIZE = 1000
"""Number of sentences in a list; by default a server accepts lists of at most 2048 texts."""

MAX_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class ConsistencyReport:
    """Numbers, from 1, of lines that get another translation than alone."""

    pair: str
    sentences: int
    clients: int
    seed: int  # of the order of the lines and of the clients' pauses
    lists_differ: list[int]  # when they are sent in a list
    clients_differ: list[int]  # when many clients send them at random times


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


NUMERAL = re.compile(r"\d+(?:[.,:]\d+)*")
FALSE_FRIENDS = {
    frozenset(("en", "pt")): frozenset(("a", "as", "do", "no")),
}
"""Words with the same spelling but different meanings in two languages, by language pair.

A correct alignment does not pair such a word with itself. Only words in lower case are compared
with this list. The four Portuguese words mean "the", "the", "of the" and "in the".
"""


@dataclass(frozen=True, slots=True)
class Share:
    """Number of word pairs, and the number of aligned pairs among them."""

    aligned: int
    total: int

    @property
    def percent(self) -> float:
        return 100 * self.aligned / self.total if self.total else 100.0


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """Counts of word pairs in sentences and their translations by the model.

    A pair consists of a word of the sentence and the same word of the translation. It is counted if
    the word occurs exactly once in the sentence and exactly once in the translation.
    """

    sentences: int  # number of translated sentences
    numerals: Share  # pairs of equal numerals
    words: Share  # pairs of equal words that are not in FALSE_FRIENDS
    false_friends: Share  # pairs of equal words in FALSE_FRIENDS; none of them should be aligned

    @property
    def all_words(self) -> Share:
        parts = self.words, self.false_friends
        return Share(sum(part.aligned for part in parts), sum(part.total for part in parts))


async def run_alignment(
    url: str, pair: str, sentences: Sequence[str], batch: int
) -> AlignmentReport:
    source, target = split_pair(pair)
    friends = FALSE_FRIENDS.get(frozenset((source, target)), frozenset())
    body = {"source": source, "target": target, "split_sentences": False, "return_alignment": True}
    counts: Counter[tuple[str, bool]] = Counter()
    for texts in in_lists(sentences, batch):
        fields = await post_texts(
            Address.parse(url), "/translate", {**body, "q": [*texts]}, len(texts)
        )
        found = zip(texts, fields["translatedText"], fields["alignment"], strict=True)
        for text, translation, alignment in found:
            counts.update(judged(text, translation, alignment, friends))
    shares = (
        Share(counts[kind, True], counts[kind, True] + counts[kind, False])
        for kind in ("numeral", "word", "false friend")
    )
    return AlignmentReport(len(sentences), *shares)


def judged(
    text: str, translation: str, alignments: Iterable[dict[str, Any]], false_friends: Set[str]
) -> list[tuple[str, bool]]:
    """Returns the kind of word of each pair that counts, and whether the pair is aligned."""
    found = []
    for alignment in alignments:
        source = [text[slice(*span)] for span in alignment["source_words"]]
        target = [translation[slice(*span)] for span in alignment["target_words"]]
        pairs = {(s, t) for s, t, _ in alignment["pairs"]}
        for word in dict.fromkeys(source):
            kind = kind_of(word, false_friends)
            if kind and source.count(word) == target.count(word) == 1:
                found.append((kind, (source.index(word), target.index(word)) in pairs))
    return found


def kind_of(word: str, false_friends: Set[str]) -> str:
    """Returns `numeral`, `word`, `false friend`, or an empty text for any other word."""
    if NUMERAL.fullmatch(word):
        return "numeral"
    if not word.isalpha():
        return ""
    return "false friend" if word in false_friends else "word"


@dataclass(frozen=True, slots=True)
class DetachmentReport:
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
    """Scores lines with their own translations, and with the translations of other lines."""
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


def shifted(lines: Sequence[str]) -> list[str]:
    """Returns the lines in a random order in which no line keeps its place."""
    order = [*range(len(lines))]
    random.Random(0).shuffle(order)
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
    body = {"source": source, "target": target, "top_k": 1, "detachment": True}
    found: list[float] = []
    for texts, targets in zip(
        in_lists(sentences, batch), in_lists(translations, batch), strict=True
    ):
        body |= {"text": [*texts], "target_text": [*targets]}
        fields = await post_texts(address, "/attention", body, len(texts))
        found += [item["detachment"] for item in fields["items"]]
    return found
