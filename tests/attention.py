"""Made-up attention of a sentence, and the item that is shown of it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.tasks.alignment.alignment import align
from service.tasks.attention.requests import Kind, View
from service.tasks.attention.results import Attention, PairAttention, pair_attention

SOURCE = "The (really) old cat."
TARGET = "O velho gato (really) dorme."


def random_rows(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Rows that sum to 1."""
    noise = np.random.default_rng(seed).random(shape, dtype=np.float32)
    rows: NDArray[np.float32] = noise / noise.sum(-1, keepdims=True)
    return rows


def sides(tokenizer: Tokenizer) -> tuple[TokenizedText, TokenizedText]:
    """A source and a target, some of whose words are several tokens."""
    target = tokenizer.detokenize([*tokenizer.encode(TARGET), tokenizer.eos_id])
    return tokenizer.tokenize(SOURCE), target


def made_up_item(
    tokenizer: Tokenizer,
    kinds: tuple[Kind, ...] = ("cross",),
    layers: int = 2,
    heads: int = 3,
    **view: Any,
) -> PairAttention:
    """One sentence with attention of some kinds, not reduced."""
    source, target = sides(tokenizer)
    rows, columns = len(target.ids), len(source.ids)
    sizes = {"encoder": (columns, columns), "decoder": (rows, rows), "cross": (rows, columns)}
    attentions = [
        Attention(
            kind,
            layers=list(range(layers)),
            heads=list(range(heads)),
            reduce="none",
            norm="weights",
            data=random_rows(layers, heads, *sizes[kind]),
        )
        for kind in kinds
    ]
    alignment = align(random_rows(rows, columns), source, target)
    return pair_attention(source, target, "", attentions, alignment, View(**view))
