"""Tokenizers of every kind that embedding models have, trained on a few lines, and long texts."""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from model.tokenization.tokenizer import Span
from service.text.protection import UnknownSpans
from tests.tiny_text import tokenizer

SPECIAL = ["<s>", "</s>", "<unk>", "<mask>"]
MAX_PIECE = 8
RUNS = ["." * size for size in range(1, 13)] + [
    "---", "========", "    ", "000", "12345678", "abababab", "aaaaaaa", "haha", "xyxyx", "...-...",
    "漢字漢字漢字", "\U0001f600" * 3, "e\u0301e\u0301", "//", "http://", "don't", "it's", "//--//",
]  # fmt: skip
PROSE = [
    "the cat sat on the mat, and the dog lay down beside it",
    "believable stories are told by unbelievable people; hello world",
    "in 1984 it was 12.5 degrees (or 54.5) at half past 7",
]

UNITS = [
    *"ab.-=0 1'/\n\t", "ab", "aab", "...", "..", "12", "xyx", "don't", "'s", " a", "a ", "   ",
    "漢", "漢字", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301", "\u0301",
    "\u0323\u0301", "\u200b", "\ufdfa", "\ufb01", "\u00bd", "\u0645\u0631", "\u1100\u1161\u11a8",
    "\uff21", "\r\n", "  \n", "hello", "un", "believable", "haha", "x" * 99, "x" * 101,
    "[MASK]", "<mask>", "<s>",
]  # fmt: skip
"""Pieces of texts: repeated characters, digits, scripts, marks, emoji, and names of specials."""


def lines() -> list[str]:
    """Returns the training lines, the same in every run, as they decide which texts are hard."""
    chosen = random.Random(0)
    return [" ".join(chosen.choices(RUNS, k=8)) for _ in range(300)] + PROSE * 20


def byte_level_bpe(use_regex: bool = True, prefix_space: bool = False) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(prefix_space, use_regex=use_regex)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False
    )
    made.train_from_iterator(lines(), trainer)
    return made


def unigram(is_split: bool = True) -> Tokenizer:
    """Scores pieces by how often they occur, as the library's trainer differs in every run."""
    texts = ["▁" + line.replace(" ", "▁") for line in lines()]
    counts = Counter(
        part[start:end]
        for text in texts
        for part in (re.findall("▁[^▁]*", text) if is_split else [text])
        for start in range(len(part))
        for end in range(start + 1, min(start + MAX_PIECE, len(part)) + 1)
    )
    pieces = sorted(counts, key=lambda piece: (len(piece) > 1, -counts[piece], piece))[:600]
    scores = [(piece, math.log(counts[piece] / counts.total())) for piece in pieces]
    made = Tokenizer(
        models.Unigram([*((name, 0.0) for name in SPECIAL), *scores], SPECIAL.index("<unk>"))
    )
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace(split=is_split)
    made.add_special_tokens(SPECIAL)
    return made


def bpe(suffix: str = "") -> Tokenizer:
    """Trains a BPE tokenizer with an unknown token, and with CLIP's suffix for the end of words."""
    affix: Any = {"end_of_word_suffix": suffix} if suffix else {}
    made = Tokenizer(models.BPE(unk_token="<unk>", **affix))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=SPECIAL, show_progress=False, **affix
    )
    made.train_from_iterator(lines()[:300], trainer)
    return made


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "WordPiece": tokenizer,
    "byte-level BPE": byte_level_bpe,
    "byte-level BPE without words": lambda: byte_level_bpe(use_regex=False, prefix_space=True),
    "Unigram": unigram,
    "Unigram without words": lambda: unigram(is_split=False),
    "BPE": bpe,
    "BPE with a suffix": lambda: bpe("</w>"),
}


@cache
def trained(kind: str) -> str:
    content: str = KINDS[kind]().to_str()
    return content


def write_tokenizer(kind: str, folder: Path) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(trained(kind), encoding="utf-8")
    return path


def shuffled(units: list[str], num_chars: int) -> str:
    """Joins units in a random order, which is the same for equal units."""
    chosen = random.Random("".join(units))
    return "".join(chosen.choices(units, k=num_chars // min(map(len, units)) + 1))[:num_chars]


def unknown_characters(characters: str) -> UnknownSpans:
    """Returns a function that finds these characters, as if no vocabulary had them."""
    pattern = re.compile(f"[{re.escape(characters)}]") if characters else re.compile(r"(?!)")

    def unknown(text: str) -> Sequence[Span]:
        return [found.span() for found in pattern.finditer(text)]

    return unknown
