"""Made-up attention of a sentence, and the item that is shown of it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import AttentionKind, AttentionQuery
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.tasks.alignment.alignment import align
from service.tasks.attention.replies import AttentionItemBody, TargetLabels
from service.tasks.attention.requests import AttentionRequest, Kind
from service.tasks.attention.results import InspectedText, attention_item

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
    **view: Any,
) -> AttentionItemBody:
    source, target = sides(tokenizer)
    rows, columns = len(target.ids), len(source.ids)
    sizes = {"encoder": (columns, columns), "decoder": (rows, rows), "cross": (rows, columns)}
    query = AttentionQuery(
        {AttentionKind(kind): tuple(range(layers)) for kind in kinds}, tuple(range(3))
    )
    maps = {AttentionKind(kind): random_rows(layers, 3, *sizes[kind]) for kind in kinds}
    request = AttentionRequest.model_validate({"text": SOURCE, "model": "en-pt", **view})
    item = attention_item(InspectedText(source, target), "", maps, query, request)
    item.alignment = align(random_rows(rows, columns), source, target)
    return item


def target_of(item: AttentionItemBody) -> TargetLabels:
    assert item.target is not None
    return item.target
