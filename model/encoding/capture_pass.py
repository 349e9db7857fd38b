"""Runs forward passes in slices, and captures attention from them.

A slice is a part of a pass, such as half a layer of a batch. Between two slices a worker can do
other work. A fused kernel computes the hidden states, and does not return the attention weights.
The weights of the requested layers and heads are therefore computed separately, from the same
queries and keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import TypeVar

import torch
from torch import Tensor

from model.architectures.embedding import TokenParts
from model.architectures.stack import Stack, TextEncoder
from model.backends.encoder_batch import HiddenTexts, PackedBatch, run_layers
from model.config import TextEncoderConfig
from model.errors import AttentionQueryError
from model.inspection.captures.capture import AttentionSite, Capture, ProjectedHeads, Result, Slices
from model.inspection.captures.factory import ScoreCapture, new_captures
from model.inspection.query import AttentionJob, AttentionKind, listed
from model.sequence import check_ids

Job = TypeVar("Job")


class SlicedPass(ABC):
    def __init__(self) -> None:
        self.slices = self.compute()
        self.is_done = False

    @abstractmethod
    def compute(self) -> Slices[None]:
        """Runs the whole pass, and yields between its slices."""

    @torch.inference_mode()
    def advance(self) -> bool:
        """Returns False if the pass has ended."""
        for _ in self.slices:
            return True
        self.is_done = True
        return False


def batches(
    jobs: Iterable[Job],
    lengths: Callable[[Job], tuple[int, ...]],
    max_tokens: int,
    pads: bool = False,
) -> Iterator[list[Job]]:
    """Yields batches of jobs in the given order.

    `lengths` returns one or more lengths of a job in tokens, such as those of source and target.
    The lengths of each kind add up to at most `max_tokens` in a batch of more than one job. With
    `pads`, all jobs of a batch count as its longest job. They must be sorted from short to long.
    """
    batch: list[Job] = []
    totals: tuple[int, ...] = ()
    for job in jobs:
        sizes = grown = lengths(job)
        if batch and pads:
            grown = tuple(size * (len(batch) + 1) for size in sizes)
        elif batch:
            grown = tuple(map(add, totals, sizes))
        if batch and max(grown) > max_tokens:
            yield batch
            batch, grown = [], sizes
        batch.append(job)
        totals = grown
    if batch:
        yield batch


SLICE_TOKENS = 128
"""Default for the approximate number of tokens in a slice."""


@dataclass(frozen=True, slots=True)
class CapturedJob:
    job: AttentionJob
    captures: list[Capture]

    @property
    def lengths(self) -> tuple[int, int]:
        return len(self.job.source), len(self.job.target)

    def layers(self, kind: AttentionKind) -> set[int]:
        return {layer for capture in self.captures for layer in capture.layers(kind)}

    @property
    def needs_embedding(self) -> bool:
        return any(capture.needs_embedding for capture in self.captures)

    def show_embedding(self, kind: AttentionKind, parts: TokenParts) -> None:
        for capture in self.captures:
            if capture.needs_embedding:
                capture.observe_embedding(kind, parts)


class CapturePass(SlicedPass):
    """Answers the attention queries of some jobs; each call of `advance` computes one slice."""

    def __init__(
        self, jobs: Iterable[AttentionJob], device: torch.device, slice_tokens: int
    ) -> None:
        self.slice_tokens = slice_tokens
        self.captured = [CapturedJob(job, new_captures(job, device, slice_tokens)) for job in jobs]
        super().__init__()

    @torch.inference_mode()
    def results(self) -> list[list[Result]]:
        assert self.is_done
        return [[capture.result() for capture in each.captures] for each in self.captured]


def last_layer(captured: Iterable[CapturedJob], kind: AttentionKind) -> int:
    """Returns -1 if no capture needs this kind."""
    return max(max(each.layers(kind), default=-1) for each in captured)


def run_encoder(
    encoder: Stack, captured: Sequence[CapturedJob], slice_tokens: int, last: int | None = None
) -> Slices[PackedBatch]:
    """Runs the sources of some jobs through an encoder up to layer `last`; returns the batch."""
    sources = [each.job.source for each in captured]
    batch = PackedBatch(encoder, sources, [each.job.knockout for each in captured])
    yield from run_captured(batch, captured, slice_tokens, last)
    return batch


def run_captured(
    batch: PackedBatch, captured: Sequence[CapturedJob], slice_tokens: int, last: int | None
) -> Slices[None]:
    if any(each.needs_embedding for each in captured):
        for each, parts in zip(captured, batch.embedded(), strict=False):
            each.show_embedding(batch.kinds[0], parts)

    def observe(sublayer: int) -> Slices[None]:
        return show(captured, batch.site(sublayer), batch.projected(sublayer))

    yield from run_layers(batch, slice_tokens, last, observe)


def show(
    captured: Sequence[CapturedJob], site: AttentionSite, projected: Iterable[ProjectedHeads]
) -> Slices[None]:
    if not any(site.layer in each.layers(site.kind) for each in captured):
        return
    for each, heads in zip(captured, projected, strict=False):
        for capture in each.captures:
            if site.layer in capture.layers(site.kind):
                yield from capture.observe(site, heads)
    yield


class TextCapturePass(CapturePass):
    """Answers attention queries about some texts.

    `score` is the pooling and the head of a cross-encoder; it returns the scores (B, 1) of texts.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        jobs: Sequence[AttentionJob],
        slice_tokens: int = SLICE_TOKENS,
        score: Callable[[HiddenTexts], Tensor] | None = None,
    ) -> None:
        self.encoder, self.score = encoder, score
        for job in jobs:
            check_text_job(encoder.config, job)
        super().__init__(jobs, encoder.device, slice_tokens)

    def compute(self) -> Slices[None]:
        """Sorts the texts, because attention is faster if texts of equal length are adjacent."""
        by_length = sorted(self.captured, key=lambda each: len(each.job.source))
        for batch in batches(by_length, lambda each: each.lengths, self.slice_tokens):
            needs_score = any(each.job.needs_score for each in batch)
            last = None if needs_score else last_layer(batch, AttentionKind.ENCODER)
            encoded = yield from run_encoder(self.encoder, batch, self.slice_tokens, last)
            if needs_score:
                self._show_scores(batch, encoded)

    def _show_scores(self, captured: list[CapturedJob], encoded: PackedBatch) -> None:
        assert self.score is not None  # only cross-encoders get such queries
        scores = torch.cat([self.score(texts) for texts in encoded.read_texts()])[:, 0].tolist()
        for each, score in zip(captured, scores, strict=True):
            for capture in each.captures:
                if isinstance(capture, ScoreCapture):
                    capture.score = score


def check_text_job(config: TextEncoderConfig, job: AttentionJob) -> None:
    check_ids("text", job.source, config.vocab_size, config.max_tokens)
    if job.needs_target:
        raise AttentionQueryError(
            f"this model has only an encoder: ask for encoder attention, not {listed(job.kinds)}"
        )
