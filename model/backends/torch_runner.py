"""Implements the runner that serves every model and device, in plain PyTorch."""

from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf

import numpy as np
import torch
from torch import Tensor

from model.architectures.embedding import NO_TOKEN, start_token
from model.architectures.output import (
    AnyShortlist,
    FullOutput,
    Ids,
    Shortlist,
    ShortlistOutput,
    force_first,
)
from model.architectures.stack import EncoderDecoder
from model.backends.base import (
    Decoded,
    DecodeStep,
    ModelRunner,
    Scores,
    completed_step,
    first_token,
)
from model.backends.decoder_batch import DecodingCache, StepBatch
from model.backends.encoder_batch import padded_batch, round_up, run_whole
from model.sequence import BatchStats, EngineLimits, Sequence, batches

MIN_WIDTH = 32
"""Smallest padded length of a source or target, in tokens. For fewer keys, attention kernels sum
in another order (docs/decisions.md, "Same text, same answer")."""

MAX_SPREAD = 1.25  # largest ratio of two padded lengths of sources that are encoded together

MIN_ROWS = 4
"""Smallest number of rows in a decode step. Products of fewer rows also have another order."""


class TorchRunner(ModelRunner):
    """Encodes padded batches, and decodes the first rows of a preallocated cache."""

    def __init__(
        self, model: EncoderDecoder, limits: EngineLimits, shortlist: AnyShortlist | None = None
    ) -> None:
        self.model, self.limits, self.shortlist = model, limits, shortlist
        self.config = config = model.config
        rows, source = max(limits.max_rows, MIN_ROWS), limits.max_source_tokens
        self.max_target_width = padded(config.max_target_tokens(source))
        widths = padded(source), self.max_target_width
        self.cache = DecodingCache(config, rows, *widths, model.device, model.dtype)
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

    def groups(self, sequences: SequenceOf[Sequence]) -> Iterator[list[Sequence]]:
        widths = [padded(len(sequence.source)) for sequence in sequences]
        limit = self.limits.max_batch_tokens
        return batches(sequences, widths, limit, pads=True, max_ratio=MAX_SPREAD)

    def encode(self, row: int, group: list[Sequence]) -> BatchStats:
        sources = [sequence.source for sequence in group]
        batch = padded_batch(self.model.encoder, sources, min_width=MIN_WIDTH)
        memory = run_whole(batch).view(len(group), -1, self.config.d_model)  # (B, S, D)
        projected = self.model.decoder.project_cross_kv(memory)
        tokens = sum(map(len, sources))
        copies = [i for i, sequence in enumerate(group) for _ in range(sequence.options.beam_size)]
        if len(copies) > len(group):
            projected = [(key[copies], value[copies]) for key, value in projected]
        end, device = row + len(copies), self.model.device
        for place, index in zip(range(row, end), copies, strict=True):
            self.output.enter(place, sources[index])
            self.first_ids[place] = first_token(group[index])
        self.tokens[row:end], self.lengths[row:end] = start_token(self.config), 0
        self.widths[row:end] = memory.shape[1]
        lengths = torch.tensor([len(sources[index]) for index in copies], device=device)
        self.cache.fill_rows(torch.arange(row, end, device=device), projected, lengths)
        return BatchStats("encode", len(group), tokens, batch.num_tokens - tokens)

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        computed = max(rows, MIN_ROWS)
        last = int(self.lengths[:rows].max())
        target_width = min(padded(last + 1), self.max_target_width)
        widths = target_width, int(self.widths[:rows].max())
        tokens = torch.from_numpy(self.tokens[:computed, None]).to(self.model.device)  # (B, 1)
        hidden = run_whole(StepBatch(self.model.decoder, self.cache, tokens, widths))
        logits = self.output.logits(hidden)[:rows]  # (B, U)
        if self.config.forces_first:
            first_ids = torch.from_numpy(self.first_ids[:rows]).to(logits.device)
            force_first(logits, self.cache.positions[:rows], first_ids)
        self.cache.positions[:rows].add_(1)
        self.lengths[:rows] += 1
        best = self.output.token_ids(argmax(logits))
        self.tokens[:rows] = best
        ids = self.output.token_ids(np.arange(logits.shape[1])) if scored else best
        scores = [Scores(torch.log_softmax(logits[group], dim=-1), ids) for group in scored]
        return completed_step(Decoded(best[:, None], scores, computed))

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


def padded(tokens: int) -> int:
    return max(MIN_WIDTH, round_up(tokens))


def argmax(logits: Tensor) -> Ids:
    """Returns the best column of each row; on a CPU by numpy, whose argmax is vectorised."""
    if logits.device.type == "cpu":
        return np.asarray(logits.numpy().argmax(axis=-1))
    return logits.argmax(dim=-1).cpu().numpy()
