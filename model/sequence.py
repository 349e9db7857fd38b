"""Defines the inputs and outputs of an engine. Does not import torch."""

import math
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from model.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """The search options of one request."""

    beam_size: int = 1  # hypotheses kept at each decode step; 1 means greedy search
    num_hypotheses: int = 1  # returned; at most `beam_size`
    length_penalty: float = 1.0  # p: a score is (sum of log-probabilities) / length ** p
    return_scores: bool = False  # also of a greedy search; a beam search always has scores
    # Whether a hypothesis has its cross-attention, from which words are aligned: only in a greedy
    # search without scores, and only if the runner records it.
    return_attention: bool = False
    prefix: tuple[int, ...] = ()  # target ids that every hypothesis begins with

    @property
    def needs_log_probs(self) -> bool:
        """Whether a search decodes the sequence. Only a search can be given tokens."""
        return self.return_scores or self.beam_size > 1 or self.prefix != ()


@dataclass(slots=True)
class Hypothesis:
    """One translation."""

    tokens: list[int]  # ends in EOS, unless the length limit ended the translation
    log_probs: list[float] = field(default_factory=list)  # natural; empty without scores
    score: float | None = None  # sum of log_probs / length ** length_penalty
    attention: "NDArray[np.float32] | None" = None  # (tokens, source tokens), see ModelRunner


@dataclass(slots=True)
class Sequence:
    """One source sentence to translate."""

    id: int  # the caller's number, unique in the batch
    source: list[int]  # ids, EOS included
    options: DecodingOptions = DecodingOptions()
    first_id: int | None = None  # of the target (`forces_first`); None if the logits choose it


@dataclass(slots=True)
class Finished:
    id: int
    hypotheses: list[Hypothesis]


class BatchStats(NamedTuple):
    """The amount of work of one model call: `phase` is `encode`, `decode`, `embed` and so on.

    A named tuple is made and hashed several times as fast as a frozen dataclass.
    """

    phase: str
    rows: int
    tokens: int
    padding_tokens: int


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The limits of the batch, which sequences enter and leave between decode steps."""

    # Rows decoded together; a beam search takes `beam_size` rows. If it is 0,
    # `model.checkpoints.build.load_engine` chooses the number.
    max_rows: int = 64
    max_source_tokens: int = 128  # of one source, EOS included
    max_batch_tokens: int = 4096  # tokens encoded together, padding included


def check_ids(
    name: str, ids: SequenceOf[int], vocab_size: int, max_tokens: int | None = None
) -> None:
    """Refuses ids (special tokens included) that a model cannot read; `name` is for the message."""
    if not ids:
        raise InputError(f"the {name} has no tokens")
    if max_tokens is not None and len(ids) > max_tokens:
        raise InputError(
            f"the {name} has {len(ids)} tokens; the limit is {max_tokens}. Split or cut it"
        )
    if not 0 <= min(ids) <= max(ids) < vocab_size:
        raise InputError(
            f"the {name} has ids from {min(ids)} to {max(ids)}; the vocabulary has {vocab_size}"
        )


Item = TypeVar("Item")


def batches(
    items: Iterable[Item],
    lengths: Iterable[int],
    max_tokens: int,
    pads: bool = False,
    max_ratio: float = math.inf,
) -> Iterator[list[Item]]:
    """Yields batches of items in the given order; only one item alone may exceed `max_tokens`.

    With `pads`, each item of a batch counts as the longest, and the items are sorted from short to
    long. `max_ratio` is the largest ratio of two lengths in a batch.
    """
    batch: list[Item] = []
    tokens = shortest = 0
    for item, length in zip(items, lengths, strict=True):
        tokens = length * (len(batch) + 1) if pads else tokens + length
        if batch and (tokens > max_tokens or length > max_ratio * shortest):
            yield batch
            batch, tokens = [], length
        if not batch:
            shortest = length
        batch.append(item)
    if batch:
        yield batch
