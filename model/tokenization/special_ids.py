"""Reads the special ids around a text from the post-processor of a tokenizer."""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from model.errors import CheckpointFormatError

SpecialIds = tuple[list[int], list[int]]
"""The ids in front of a text, and the ids behind it."""


def read_special_ids(tokenizer: Tokenizer, name: str) -> SpecialIds:
    """Returns the special ids around a single text.

    Args:
        tokenizer: Tokenizer that was read from a `tokenizer.json`.
        name: Name of this file, for messages.

    Raises:
        CheckpointFormatError: The post-processor is of an unknown kind, or its template does not
            name the text exactly once. The function also raises this error if several processors of
            a sequence put ids around a text.
    """
    processor = tokenizer.post_processor
    if processor is None:
        return [], []
    try:
        return _around(json.loads(processor.__getstate__()))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointFormatError(f"{name}: unsupported post-processor: {error}") from error


def _around(options: Mapping[str, Any]) -> SpecialIds:
    """Returns the ids that a processor puts around a text.

    In a sequence of processors, at most one may put ids around a text.
    """
    kind = options["type"]
    if kind == "ByteLevel":  # this processor only changes offsets
        return [], []
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [options["cls"][1]], [options["sep"][1]]
    if kind == "TemplateProcessing":
        return _in_template(options["single"], options["special_tokens"])
    if kind != "Sequence":
        raise ValueError(f"its type is {kind!r}")
    found = [ids for ids in map(_around, options["processors"]) if ids != ([], [])]
    if len(found) > 1:
        raise ValueError(f"{len(found)} of its parts put ids around a text")
    return found[0] if found else ([], [])


def _in_template(pieces: list[Mapping[str, Any]], special: Mapping[str, Any]) -> SpecialIds:
    """Returns the ids around the text in a template, which must name the text exactly once."""
    places = [number for number, piece in enumerate(pieces) if "Sequence" in piece]
    if len(places) != 1:
        raise ValueError(f"its template names the text {len(places)} times")
    ids = [
        special[piece["SpecialToken"]["id"]]["ids"] if n not in places else []
        for n, piece in enumerate(pieces)
    ]
    before, behind = ids[: places[0]], ids[places[0] :]
    return sum(before, []), sum(behind, [])
