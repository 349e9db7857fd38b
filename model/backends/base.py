"""Defines ModelRunner, the interface between an engine and a model on a device.

A row of the batch is one hypothesis of a sentence. A runner holds the decoding state of every row,
and decodes the next tokens of all rows. The engine numbers the rows. If n rows are in use, they are
rows 0 to n - 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.architectures.embedding import NO_TOKEN
from model.architectures.output import AnyShortlist, Ids
from model.architectures.stack import EncoderDecoder
from model.inspection.captures.capture import Slices
from model.sequence import BatchStats, Sequence


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probabilities of the next tokens, at least the 2k largest for each of k rows."""

    log_probs: Tensor  # (k, U)
    ids: Ids  # (k, U), or (U) if all rows have the same ids


@dataclass(frozen=True, slots=True)
class Continuations:
    """The best continuations of one search: at most 2k for k live hypotheses, best first.

    `totals` are sums of log-probabilities, -inf in an unused entry. `parents` are rows of the
    search.
    """

    totals: list[float]
    parents: list[int]
    ids: list[int]

    @classmethod
    def of_scores(cls, scores: Scores, totals: list[float]) -> "Continuations":
        rows, width = scores.log_probs.shape
        sums = scores.log_probs.double().cpu() + torch.tensor(totals, dtype=torch.float64)[:, None]
        best = sums.flatten().topk(min(2 * rows, sums.numel()))
        parents, columns = np.divmod(best.indices.numpy(), width)
        ids = np.broadcast_to(scores.ids, (rows, width))[parents, columns]
        return cls(best.values.tolist(), parents.tolist(), ids.tolist())


@dataclass(frozen=True, slots=True)
class Decoded:
    """The output of one call of `ModelRunner.decode`."""

    # Most probable ids (B, steps): -1 after the end of a row, and in a row that was left out.
    best: NDArray[np.integer]
    scores: list[Scores] = field(default_factory=list)  # of each group in `scored`
    computed_rows: int = 0  # at each step; 0 if only the rows that get a token were computed


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """One call of `ModelRunner.decode`; `wait` blocks until the device has computed its output."""

    num_tokens: int  # of each row
    wait: Callable[[], Decoded]


def completed_step(decoded: Decoded) -> DecodeStep:
    return DecodeStep(decoded.best.shape[1], lambda: decoded)


def first_token(sequence: Sequence) -> int:
    return NO_TOKEN if sequence.first_id is None else sequence.first_id


ForcedDecoder = Callable[[SequenceOf[list[int]], SequenceOf[list[int]]], Slices[list[Tensor]]]
"""Maps sources and targets to the hidden states (T, D) from which each target is predicted."""


class ModelRunner(ABC):
    """Runs a model on its device, and holds the decoding state of all rows."""

    model: EncoderDecoder
    forced_decoder: ForcedDecoder | None = None  # None if `teacher_forced` computes the states
    shortlist: AnyShortlist | None = None  # candidate ids; None for the whole vocabulary
    # Number of calls of `decode` that may still run on the device when the next call starts. Above
    # 0, the engine makes a call before it has read the tokens of the previous call. Each row then
    # continues with its most probable token.
    pipeline_depth = 0
    tokens_per_call = 1  # maximum number for each row and call of `decode`
    # Whether `search` decodes the rows of searches. If not, `decode` returns their scores, and
    # `pipeline_depth` is 0.
    searches_apart = False

    @abstractmethod
    def clear(self) -> None:
        """Frees every row."""

    def enter(self, row: int, sequences: SequenceOf[Sequence]) -> list[BatchStats]:
        """Encodes sequences and assigns `beam_size` rows to each, from the free row `row` on.

        The sources are in ascending order of their lengths.
        """
        stats = []
        for group in self.groups(sequences):
            stats.append(self.encode(row, group))
            row += sum(sequence.options.beam_size for sequence in group)
        return stats

    def groups(self, sequences: SequenceOf[Sequence]) -> Iterable[list[Sequence]]:
        """Returns the sequences in groups that are encoded together."""
        raise NotImplementedError

    def encode(self, row: int, group: list[Sequence]) -> BatchStats:
        raise NotImplementedError

    @abstractmethod
    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        """Decodes the next tokens of rows 0 to `rows` - 1, at least one token per decoded row.

        The engine passes a `remaining` of 0 for the rows of searches. With `searches_apart`, these
        rows are left out. Otherwise all rows are decoded, and if `scored` is not empty, only one
        token per row. Each row continues with the most probable token of its previous step, unless
        `set_tokens` has replaced this token.

        Args:
            rows: Number of rows in use.
            scored: Groups of rows that need log-probabilities; empty with `searches_apart`.
            remaining: Number of tokens that each row may still get (B,), after pending calls. A row
                ends after this number of tokens, or at EOS.
            max_tokens: Maximum number of tokens that this call decodes per row, at least 1.
        """

    def search(
        self, groups: SequenceOf[list[int]], totals: SequenceOf[list[float]], steps: int
    ) -> Iterable[list[Continuations]]:
        """Decodes `steps` tokens of the rows of searches. All other rows stay as they are.

        After each token, the k rows of a search continue with its k best continuations that do
        not end in EOS. If there are only j < k of these, the other k - j rows repeat the best one
        with a total of -inf. If all continuations end in EOS, each row gets the hypothesis of the
        first row, followed by EOS, with a total of -inf. No row may exceed its length limit. The
        result has the best continuations of each search after each token. An iterator over it may
        wait for the device.
        """
        raise NotImplementedError  # only runners with `searches_apart` have searches

    def attention(self, row: int, tokens: int) -> NDArray[np.float32] | None:
        """Returns the cross-attention weights of a row's decode steps, (tokens, source tokens).

        They are the weights of `aligning_head` in `aligning_layer` of the config, or the mean over
        all heads if `aligning_head` is None. The result is None if the runner records no weights,
        as fused attention has none.
        """
        return None

    @abstractmethod
    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        """Sets the tokens with which these rows continue, in place of the most probable tokens."""

    @abstractmethod
    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        """Copies rows: row target[i] gets the state that row source[i] had before the call.

        No row is in `target` twice. With `is_same_source`, both rows translate the same sentence,
        and have the same cross-attention state.
        """

    @abstractmethod
    def leave(self, first: int, end: int) -> None:
        """Frees rows `first` to `end` - 1, which are the last rows in use."""
