"""Makes a SentencePiece model of a `tokenizer.json` that was converted from one.

Newer versions of transformers save no SentencePiece file. The model that is made has the pieces,
ids and table of characters of the JSON file. Texts then have the ids of the original model, and
no second kind of tokenizer is needed.

Source: sentencepiece, src/sentencepiece_model.proto, for the numbers of fields.
"""

import base64
import json
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from model.errors import CheckpointFormatError, UnsupportedModelError
from model.regular_files import check_file

MODELS = {"Unigram": 1, "BPE": 2}
UNK = "<unk>"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")

NORMALIZERS = ("Precompiled", "Replace", "Prepend", "Strip")
"""Normalisers that SentencePiece also has: a table of characters, and rules for spaces."""

MAX_ID = 2**20
"""Largest id that is accepted, as a damaged number must not fill the memory."""

ERRORS = (
    OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError
)  # fmt: skip
"""Errors of code that takes values from a file's content."""

Piece = tuple[str, float, int]
"""The text of a piece, its score, and its type. In BPE, pieces of higher scores are made first."""


def sentencepiece_model(path: Path) -> bytes:
    """Returns the content of a SentencePiece file. Ids without a piece are named `<unused 7>`."""
    try:
        check_file(path)
        content = json.loads(path.read_text(encoding="utf-8"))
        model, normalizer = content["model"], content["normalizer"] or {}
        steps = normalizer.get("normalizers", [normalizer])
        if reasons := _reasons(model, content["decoder"], steps):
            raise UnsupportedModelError(str(path), reasons)
        pieces = dict(_pieces(model))
        # Version 5 of transformers saves 2 as `unk_id`, also for MADLAD-400, whose EOS this is.
        named = [number for number, piece in pieces.items() if piece[0] == UNK]
        unknown = named[0] if named else model["unk_id"]
        added = {int(each["id"]): str(each["content"]) for each in content["added_tokens"]}
        pieces |= {number: (text, 0.0, CONTROL) for number, text in added.items()}
        pieces[unknown] = (pieces[unknown][0], 0.0, UNKNOWN)
        size = max(pieces) + 1
        if size > MAX_ID:
            raise ValueError(f"it has the id {size - 1}, and the limit is {MAX_ID - 1}")
        tables = [base64.b64decode(each.get("precompiled_charsmap") or "") for each in steps]
        trainer = _number(3, MODELS[model["type"]]) + _number(35, bool(model.get("byte_fallback")))
        table = next(filter(None, tables), b"")
        whole = [pieces.get(i, (f"<unused {i}>", 0.0, CONTROL)) for i in range(size)]
        parts = [_bytes(1, _encoded(*piece)) for piece in whole]
    except ERRORS as error:
        raise CheckpointFormatError(f"{path} is not a tokenizer: {error!r}") from error
    return b"".join([*parts, _bytes(2, trainer), _bytes(3, _bytes(2, table))])


def _reasons(model: Mapping[str, Any], decoder: Any, steps: list[Mapping[str, Any]]) -> list[str]:
    kind = model.get("type")
    if kind not in MODELS:
        return [f"its model is {kind!r}, supported: {', '.join(MODELS)}"]
    reasons = [] if "▁" in str(decoder) else ["its pieces have no ▁ in place of spaces"]
    names = [each["type"] for each in steps if each and each["type"] not in NORMALIZERS]
    return reasons + [f"its normalizer has a {name}, which SentencePiece has not" for name in names]


def _pieces(model: Mapping[str, Any]) -> Iterator[tuple[int, Piece]]:
    if model["type"] == "Unigram":
        scores = [(str(piece), i, float(score)) for i, (piece, score) in enumerate(model["vocab"])]
    else:
        ranks: dict[str, int] = {}
        for merge in model["merges"]:
            parts = merge.split(" ") if isinstance(merge, str) else merge
            ranks.setdefault("".join(parts), len(ranks))
        last = len(ranks)  # no merge makes a single character
        vocab = model["vocab"].items()
        scores = [(piece, int(i), -float(ranks.get(piece, last))) for piece, i in vocab]
    for piece, number, score in scores:
        is_byte = model.get("byte_fallback") and BYTE_PIECE.fullmatch(piece)
        yield number, (piece, score, BYTE if is_byte else NORMAL)


def _encoded(text: str, score: float, kind: int) -> bytes:
    return _bytes(1, text.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, kind)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Encodes a number in groups of 7 bits, the lowest first, as protocol buffers do."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
