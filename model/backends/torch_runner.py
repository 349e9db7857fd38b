"""Implements the runner that serves every model and device, in plain PyTorch."""

from collections.abc import Sequence as SequenceOf

import numpy as np
import torch
from torch import Tensor

from model.architectures.embedding import NO_TOKEN, start_token
from model.architectures.output import FullOutput, ShortlistOutput, force_first
from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import AnyShortlist, Ids, Shortlist
from model.backends.base import (
    Decoded,
    DecodeStep,
    ModelRunner,
    Scores,
    completed_step,
    first_token,
)
from model.backends.decoder_batch import StepBatch
from model.backends.encoder_batch import encode_padded, run_whole
from model.layers.cache import DecodingCache
from model.sequence import BatchStats, EngineLimits, Sequence

MIN_WIDTH = 32
"""Smallest padded length of a source or target, in tokens. For fewer keys, attention kernels sum
in another order. In float32, the bits of a sentence's result would then depend on the padding of
its batch."""

WIDTH_MULTIPLE = 8
"""Padded lengths are multiples of this number, for the reason given for `MIN_WIDTH`, and to keep
the number of different shapes small."""

MAX_SPREAD = 1.25
"""Largest ratio of two padded lengths among the sources that are encoded together."""

MIN_ROWS = 4
"""Smallest number of rows in a decode step. For fewer rows, CPU matrix products use kernels that
sum in another order. A sentence that is decoded alone would then get other bits than in a batch."""


class TorchRunner(ModelRunner):
    """Encodes padded batches, and decodes the first rows of a preallocated cache."""

    def __init__(
        self, model: EncoderDecoder, limits: EngineLimits, shortlist: AnyShortlist | None = None
    ) -> None:
        self.model = model
        self.config = model.config
        self.limits = limits
        self.shortlist = shortlist
        self.max_source_width = round_up(limits.max_source_tokens)
        self.max_target_width = round_up(self.config.max_target_tokens(limits.max_source_tokens))
        self.cache = DecodingCache(
            self.config,
            max(limits.max_rows, MIN_ROWS),
            self.max_source_width,
            self.max_target_width,
            model.device,
            model.dtype,
        )
        self.clear()

    def clear(self) -> None:
        # The cache stays, because a second one beside it might not fit into the memory. A sentence
        # that enters a row overwrites or masks the state that the row had before.
        rows = len(self.cache.positions)
        self.cache.positions.zero_()
        forbidden = self.config.forbidden_ids
        decoder, shortlist = self.model.decoder, self.shortlist
        if isinstance(shortlist, Shortlist):
            self.output: FullOutput = ShortlistOutput(decoder, forbidden, shortlist, rows)
        else:
            ids = None if shortlist is None else shortlist.ids([])
            self.output = FullOutput(decoder, forbidden, ids=ids)
        self.tokens = np.full(rows, NO_TOKEN, np.int64)
        self.first_ids = np.full(rows, NO_TOKEN, np.int64)
        self.widths = np.zeros(rows, np.int64)
        self.lengths = np.zeros(rows, np.int64)

    def groups(self, sequences: SequenceOf[Sequence]) -> list[list[Sequence]]:
        groups: list[list[Sequence]] = []
        for sequence in sequences:
            width = round_up(len(sequence.source))
            group = groups[-1] if groups else []
            fits = (len(group) + 1) * width <= self.limits.max_batch_tokens
            if group and fits and width <= MAX_SPREAD * round_up(len(group[0].source)):
                group.append(sequence)
            else:
                groups.append([sequence])
        return groups

    def encode(self, row: int, group: list[Sequence]) -> BatchStats:
        lengths = torch.tensor([len(sequence.source) for sequence in group])
        width = round_up(int(lengths.max()))
        source = torch.full((len(group), width), self.config.eos_id)
        for index, sequence in enumerate(group):
            source[index, : len(sequence.source)] = torch.tensor(sequence.source)
        device = self.model.device
        mask = (torch.arange(width) < lengths[:, None]).to(device)  # (B, S)
        memory = encode_padded(self.model.encoder, source.to(device), mask)
        projected = self.model.decoder.project_cross_kv(memory)
        copies = [i for i, sequence in enumerate(group) for _ in range(sequence.options.beam_size)]
        if len(copies) > len(group):
            projected = [(key[copies], value[copies]) for key, value in projected]
            mask = mask[copies]
        rows = list(range(row, row + len(copies)))
        for place, index in zip(rows, copies, strict=True):
            self.output.enter(place, group[index].source)
            self.first_ids[place] = first_token(group[index])
        self.tokens[rows], self.widths[rows], self.lengths[rows] = (
            start_token(self.config),
            width,
            0,
        )
        self.cache.fill_rows(torch.tensor(rows, device=device), projected, mask)
        tokens = int(lengths.sum())
        return BatchStats("encode", len(group), tokens, len(group) * width - tokens)

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        logits = self._logits(rows)
        best = self.output.token_ids(argmax(logits))
        self.tokens[:rows] = best
        ids = self.output.token_ids(np.arange(logits.shape[1])) if scored else best
        scores = [
            Scores.of_columns(torch.log_softmax(logits[group], dim=-1), ids) for group in scored
        ]
        return completed_step(Decoded(best[:, None], scores, computed_rows=max(rows, MIN_ROWS)))

    def _logits(self, live: int) -> Tensor:
        rows = max(live, MIN_ROWS)
        last = int(self.lengths[:live].max())
        target_width = min(round_up(last + 1), self.max_target_width)
        widths = target_width, int(self.widths[:live].max())
        tokens = torch.from_numpy(self.tokens[:rows, None]).to(self.model.device)  # (B, 1)
        hidden = run_whole(StepBatch(self.model.decoder, self.cache, tokens, widths))
        logits = self.output.logits(hidden)[:live]  # (B, U)
        if self.config.forces_first:
            first_ids = torch.from_numpy(self.first_ids[:live]).to(logits.device)
            force_first(logits, self.cache.positions[:live], first_ids)
        self.cache.advance(live)
        self.lengths[:live] += 1
        return logits

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        self.tokens[rows] = tokens

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        device = self.model.device
        from_rows, to_rows = (torch.tensor(rows, device=device) for rows in (source, target))
        self.cache.copy_rows(from_rows, to_rows, is_same_source)
        if not is_same_source:
            self.output.move(source, target)
        for values in (self.tokens, self.first_ids, self.widths, self.lengths):
            values[target] = values[source]

    def leave(self, first: int, end: int) -> None:
        # A free row may be decoded as padding, so its position must be in the position table.
        self.cache.positions[first:end] = 0
        for row in range(first, end):
            self.output.leave(row)


def round_up(tokens: int) -> int:
    return max(MIN_WIDTH, -(-tokens // WIDTH_MULTIPLE) * WIDTH_MULTIPLE)


def argmax(logits: Tensor) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Returns the best column of each row; on a CPU by numpy, whose argmax is vectorised."""
    if logits.device.type == "cpu":
        best: np.ndarray[tuple[int], np.dtype[np.int64]] = logits.numpy().argmax(axis=-1)
        return best
    return logits.argmax(dim=-1).cpu().numpy()
