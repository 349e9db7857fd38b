"""Counts the kinds of placeholders that come back whole from a translation.

`placeholders.txt` has a kind in each line, below the name of its family (`## printf`). The text
between `⟨` and `⟩` is translated. Each kind is put into each of FRAMES.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench.client import Address
from benchmarks.bench.texts import in_lists, translate

KINDS = Path(__file__).with_name("placeholders.txt")
PAIR = "en-pt"
FRAMES = (
    "Please read {} before you answer.",
    "The old text with {} was not found in the house.",
    "{} is the first word of this page.",
    "We sent the small box together with {}.",
)
LIST_SIZE = 100
MAX_SPANS = 4
_NOT_MIXED = re.compile(r"[⟨\s\u200b-\u200f\ufeff]")
_FREE = re.compile("⟨([^⟩]*)⟩")


@dataclass(frozen=True, slots=True)
class Family:
    """A family of kinds; `lost` has the kinds with a broken sentence, with its translation."""

    name: str
    kinds: int
    whole: int  # number of whole sentences
    lost: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class FidelityReport:
    """The families, and the mixed sentences: their number, and the broken ones."""

    families: list[Family]
    mixed: int
    broken: list[str]

    @property
    def sentences(self) -> int:
        return len(FRAMES) * sum(family.kinds for family in self.families)

    @property
    def whole(self) -> int:
        return sum(family.whole for family in self.families)


def read_kinds() -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for line in KINDS.read_text("utf-8").split("\n"):
        if line.startswith("## "):
            families[line.removeprefix("## ")] = kinds = []
        elif line:
            kinds.append(line)
    return families


def is_whole(kind: str, translation: str) -> bool:
    """Returns whether a translation has the placeholder once.

    The words inside a placeholder separate its parts. In the translation, a text must be between
    the parts, without white space beside them.
    """
    parts = _FREE.split(kind)[::2]
    if not all(translation.count(part) == kind.count(part) for part in parts if part):
        return False
    return re.search(r"\S(?:.*\S)?".join(map(re.escape, parts)), translation) is not None


def sentence_of(frame: str, kind: str) -> str:
    return frame.replace("{}", _FREE.sub(r"\1", kind))


def mixed_sentences(sentences: Sequence[str], number: int) -> list[tuple[str, list[str]]]:
    """Returns sentences with one to MAX_SPANS placeholders at random places between words."""
    rng = random.Random(7)
    kinds = [each for of in read_kinds().values() for each in of if not _NOT_MIXED.search(each)]
    mixed = []
    for _ in range(number):
        words = rng.choice(sentences).split(" ")
        spans = rng.sample(kinds, rng.randint(1, MAX_SPANS))
        for span in spans:
            words.insert(rng.randint(0, len(words)), span)
        mixed.append((" ".join(words), spans))
    return mixed


async def run_fidelity(
    url: str, pair: str, sentences: Sequence[str], number: int
) -> FidelityReport:
    address = Address.parse(url)
    families = []
    for name, kinds in read_kinds().items():
        texts = [sentence_of(frame, kind) for kind in kinds for frame in FRAMES]
        found = await translate(address, PAIR, in_lists(texts, LIST_SIZE), True)
        families.append(judged(name, kinds, found))
    mixed = mixed_sentences(sentences, number)
    texts = [text for text, _ in mixed]
    found = await translate(address, pair, in_lists(texts, LIST_SIZE), True)
    broken = [
        f"{text}\n    {translation}"
        for (text, spans), translation in zip(mixed, found, strict=True)
        if any(translation.count(span) != text.count(span) for span in spans)
    ]
    return FidelityReport(families, len(mixed), broken)


def judged(name: str, kinds: Sequence[str], translations: Sequence[str]) -> Family:
    lost: dict[str, list[str]] = {}
    for kind, found in zip(kinds, in_lists(translations, len(FRAMES)), strict=True):
        if broken := [each for each in found if not is_whole(kind, each)]:
            lost[kind] = broken
    whole = len(translations) - sum(map(len, lost.values()))
    return Family(name, len(kinds), whole, lost)
