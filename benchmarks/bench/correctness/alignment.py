"""Counts equal words of a sentence and its translation, and how many of them are aligned."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import orjson

from benchmarks.bench.client import Address, send_once
from benchmarks.bench.translation import LIST_TIMEOUT_SECONDS, split_pair, unusable

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
    """Translates sentences with alignments and counts aligned words."""
    address = Address.parse(url)
    friends = FALSE_FRIENDS.get(frozenset(split_pair(pair)), frozenset())
    counts: Counter[tuple[str, bool]] = Counter()
    for start in range(0, len(sentences), batch):
        texts = sentences[start : start + batch]
        reply = await send_once(
            address, alignment_request(address, pair, texts), LIST_TIMEOUT_SECONDS
        )
        if reply.status != 200:
            raise unusable(reply, len(texts))
        fields = orjson.loads(reply.body)
        found = zip(texts, fields["translatedText"], fields["alignment"], strict=True)
        for text, translation, alignment in found:
            counts.update(judged(text, translation, alignment, friends))
    shares = (
        Share(counts[kind, True], counts[kind, True] + counts[kind, False])
        for kind in ("numeral", "word", "false friend")
    )
    return AlignmentReport(len(sentences), *shares)


def alignment_request(address: Address, pair: str, texts: Sequence[str]) -> bytes:
    """Encodes a request for translations with alignments; each text is one sentence."""
    source, target = split_pair(pair)
    fields = {"q": list(texts), "source": source, "target": target}
    body = orjson.dumps({**fields, "split_sentences": False, "return_alignment": True})
    return address.request("POST", "/translate", body)


def judged(
    text: str, translation: str, alignments: Iterable[dict[str, Any]], false_friends: Set[str]
) -> list[tuple[str, bool]]:
    """Returns the kind of word of each counted pair, and whether the pair is aligned.

    AlignmentReport defines the counted pairs.
    """
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
