"""Made-up attention of a sentence, and the item that is shown of it."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import AttentionKind, AttentionQuery
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.tasks.alignment.alignment import align
from service.tasks.attention.requests import AttentionRequest, Kind
from service.tasks.attention.results import (
    Attention,
    InspectedText,
    SequenceAttention,
    TargetLabels,
    sequence_attention,
)

SOURCE = "The (really) old cat."
TARGET = "O velho gato (really) dorme."


def random_rows(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    noise = np.random.default_rng(seed).random(shape, dtype=np.float32)
    rows: NDArray[np.float32] = noise / noise.sum(-1, keepdims=True)
    return rows


def sides(tokenizer: Tokenizer) -> tuple[TokenizedText, TokenizedText]:
    target = tokenizer.detokenize([*tokenizer.encode(TARGET), tokenizer.eos_id])
    return tokenizer.tokenize(SOURCE), target


def made_up_item(
    tokenizer: Tokenizer,
    kinds: tuple[Kind, ...] = ("cross",),
    layers: int = 2,
    heads: int = 3,
    **view: Any,
) -> SequenceAttention:
    source, target = sides(tokenizer)
    rows, columns = len(target.ids), len(source.ids)
    sizes = {"encoder": (columns, columns), "decoder": (rows, rows), "cross": (rows, columns)}
    query = AttentionQuery(
        {AttentionKind(kind): tuple(range(layers)) for kind in kinds}, tuple(range(heads))
    )
    attentions = [
        Attention(AttentionKind(kind), query, random_rows(layers, heads, *sizes[kind]))
        for kind in kinds
    ]
    alignment = align(random_rows(rows, columns), source, target)
    request = AttentionRequest.model_validate({"text": SOURCE, "model": "en-pt", **view})
    item = sequence_attention(InspectedText(source, target), "", attentions, request)
    return replace(item, alignment=alignment)


def target_of(item: SequenceAttention) -> TargetLabels:
    assert item.target is not None
    return item.target
