"""How sane alignments are: numerals, and words spelt alike on both sides, should go together."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.bench.client import Address, send_once
from service.bench.translation import LIST_TIMEOUT_SECONDS, split_pair, unusable

NUMERAL = re.compile(r"\d+(?:[.,:]\d+)*")
MIN_LETTERS = 3
"""Shorter words are often spelt alike by chance: "a", "as", "do" and "no" are English, and other
words in Portuguese."""


@dataclass(frozen=True, slots=True)
class Share:
    """How many of so many are aligned to each other."""

    aligned: int
    total: int

    @property
    def percent(self) -> float:
        """0 to 100; 100 where there are none."""
        return 100 * self.aligned / self.total if self.total else 100.0


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """What was found in the model's own translations.

    Attributes:
        sentences: How many were translated.
        numerals: Those that occur once on each side.
        words: Words of at least MIN_LETTERS letters that occur once on each side.
        short_words: Shorter ones, which need not mean the same.
    """

    sentences: int
    numerals: Share
    words: Share
    short_words: Share


async def run_alignment(
    url: str, pair: str, sentences: Sequence[str], batch: int
) -> AlignmentReport:
    """Translates sentences with alignments, and counts.

    Raises:
        BenchError: The server does not answer as it should.
    """
    address = Address.parse(url)
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
            counts.update(judged(text, translation, alignment))
    shares = (
        Share(counts[kind, True], counts[kind, True] + counts[kind, False])
        for kind in ("numeral", "word", "short word")
    )
    return AlignmentReport(len(sentences), *shares)


def alignment_request(address: Address, pair: str, texts: Sequence[str]) -> bytes:
    """A request for translations with alignments, each text taken as one sentence."""
    source, target = split_pair(pair)
    fields = {"q": list(texts), "source": source, "target": target}
    body = orjson.dumps({**fields, "split_sentences": False, "return_alignment": True})
    return address.request("POST", "/translate", body)


def judged(
    text: str, translation: str, alignments: Iterable[dict[str, Any]]
) -> list[tuple[str, bool]]:
    """The kind of each word that occurs once on each side, and whether the two are aligned."""
    found = []
    for alignment in alignments:
        source = [text[slice(*span)] for span in alignment["source_words"]]
        target = [translation[slice(*span)] for span in alignment["target_words"]]
        pairs = {(s, t) for s, t, _ in alignment["pairs"]}
        for word in dict.fromkeys(source):
            kind = kind_of(word)
            if kind and source.count(word) == target.count(word) == 1:
                found.append((kind, (source.index(word), target.index(word)) in pairs))
    return found


def kind_of(word: str) -> str:
    """`numeral`, `word` or `short word`; nothing for what is neither."""
    if NUMERAL.fullmatch(word):
        return "numeral"
    if not word.isalpha():
        return ""
    return "word" if len(word) >= MIN_LETTERS else "short word"
