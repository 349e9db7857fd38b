"""Answers attention queries by forward passes over given texts and translations, in slices.

A fused kernel computes the hidden states, and does not return the attention weights. The weights of
the requested layers and heads are therefore computed separately, from the same queries and keys.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from inspect import GEN_CLOSED, getgeneratorstate

import numpy as np
import torch
from torch import Tensor

from model.architectures.embedding import start_token
from model.architectures.output import AnyShortlist
from model.architectures.stack import EncoderDecoder, Stack, TextEncoder
from model.backends.base import ForcedDecoder
from model.backends.decoder_batch import TargetBatch
from model.backends.encoder_batch import HiddenTexts, PackedBatch, SlicedPass, run_layers
from model.errors import AttentionQueryError
from model.inspection.captures.capture import Capture, DecoderOutput, Result, Slices
from model.inspection.captures.factory import ScoreCapture, new_captures
from model.inspection.query import AttentionJob, AttentionKind, check_job, listed
from model.sequence import batches, check_ids

SLICE_TOKENS = 128  # default for the approximate number of tokens in a slice


@dataclass(eq=False, frozen=True, slots=True)
class CapturedJob:
    job: AttentionJob
    captures: list[Capture]


class CapturePass(SlicedPass):
    """Answers the attention queries of some jobs; each call of `advance` computes one slice."""

    def __init__(self, encoder: Stack, jobs: Iterable[AttentionJob], slice_tokens: int) -> None:
        self.encoder, self.slice_tokens = encoder, slice_tokens
        self.captured = [
            CapturedJob(job, new_captures(job, encoder.device, slice_tokens)) for job in jobs
        ]
        super().__init__()

    def compute(self) -> Slices[None]:
        """Computes jobs that need only the encoder apart from jobs that need the decoder.

        The jobs are sorted, because attention is faster if texts of equal length are adjacent.
        """
        for needs_target in (True, False):
            chosen = [each for each in self.captured if each.job.needs_target is needs_target]
            chosen.sort(key=lambda each: len(each.job.source))
            lengths = [max(len(each.job.source), len(each.job.target)) for each in chosen]
            for batch in batches(chosen, lengths, self.slice_tokens):
                yield from self.run(batch)

    @abstractmethod
    def run(self, batch: list[CapturedJob]) -> Slices[None]: ...

    @torch.inference_mode()
    def results(self) -> list[list[Result]]:
        """Returns the results of each job's queries, after the last slice."""
        assert getgeneratorstate(self.slices) == GEN_CLOSED
        return [[capture.result() for capture in each.captures] for each in self.captured]


def last_layer(captured: Iterable[CapturedJob], kind: AttentionKind) -> int:
    """Returns -1 if no capture needs this kind."""
    captures = (capture for each in captured for capture in each.captures)
    return max((layer for capture in captures for layer in capture.layers(kind)), default=-1)


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
    watching = [[one for one in each.captures if one.needs_embedding] for each in captured]
    if any(watching):
        for captures, parts in zip(watching, batch.embedded(), strict=False):
            for capture in captures:
                capture.observe_embedding(batch.kinds[0], parts)

    def observe(sublayer: int) -> Slices[None]:
        kind, layer = batch.site(sublayer)
        watching = [
            [one for one in each.captures if layer in one.layers(kind)] for each in captured
        ]
        if any(watching):
            for captures, heads in zip(watching, batch.projected(sublayer), strict=False):
                for capture in captures:
                    yield from capture.observe(heads)
            yield

    yield from run_layers(batch, slice_tokens, last, observe)


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
        self.score = score
        for job in jobs:
            check_ids("text", job.source, encoder.config.vocab_size, encoder.config.max_tokens)
            if job.needs_target:
                raise AttentionQueryError(
                    "this model has only an encoder: ask for encoder attention, "
                    f"not {listed(job.kinds)}"
                )
        super().__init__(encoder, jobs, slice_tokens)

    def run(self, batch: list[CapturedJob]) -> Slices[None]:
        needs_score = any(each.job.needs_score for each in batch)
        last = None if needs_score else last_layer(batch, AttentionKind.ENCODER)
        encoded = yield from run_encoder(self.encoder, batch, self.slice_tokens, last)
        if needs_score:
            assert self.score is not None  # only cross-encoders get such queries
            scores = torch.cat([self.score(texts) for texts in encoded.read_texts()])[:, 0]
            for each, score in zip(batch, scores.tolist(), strict=True):
                for capture in each.captures:
                    if isinstance(capture, ScoreCapture):
                        capture.score = score


class TeacherForcedPass(CapturePass):
    """Answers attention queries about some sentences and their translations.

    `forced_decoder` computes the hidden states for queries about probabilities, except in jobs with
    a knock-out. If native code translates, only native code repeats its hidden states exactly. This
    pass would round some values to other int8 values, and change log-probabilities by up to 0.4.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        jobs: Sequence[AttentionJob],
        slice_tokens: int = SLICE_TOKENS,
        shortlist: AnyShortlist | None = None,
        forced_decoder: ForcedDecoder | None = None,
    ) -> None:
        self.model, self.shortlist, self.forced_decoder = model, shortlist, forced_decoder
        for job in jobs:
            check_job(model.config, job)
        super().__init__(model.encoder, jobs, slice_tokens)

    def run(self, batch: list[CapturedJob]) -> Slices[None]:
        scored = [each for each in batch if each.job.needs_output]
        apart = [each for each in scored if self.forced_decoder and each.job.knockout is None]
        hidden = yield from self._decode(batch, needs_output=len(scored) > len(apart))
        for each, states in zip(batch, hidden, strict=False):  # `hidden` may be empty
            if each in scored and each not in apart:
                yield from self._show_output(each, states)
        if self.forced_decoder is not None and apart:
            hidden = yield from self.forced_decoder(
                [each.job.source for each in apart], [each.job.target for each in apart]
            )
            for each, states in zip(apart, hidden, strict=True):
                yield from self._show_output(each, states)

    def _decode(self, captured: list[CapturedJob], needs_output: bool) -> Slices[list[Tensor]]:
        """Runs encoder and decoder as far as the queries need them; a target is shifted by one.

        With `needs_output`, the result has the hidden states (T, D) from which the T tokens of each
        target are predicted. Otherwise it is empty.
        """
        model, tokens = self.model, self.slice_tokens
        last = {kind: last_layer(captured, kind) for kind in AttentionKind}
        end = max(2 * last[AttentionKind.DECODER], 2 * last[AttentionKind.CROSS] + 1)
        if end < 0 and not needs_output:
            if last[AttentionKind.ENCODER] >= 0:
                yield from run_encoder(model.encoder, captured, tokens, last[AttentionKind.ENCODER])
            return []
        sources = yield from run_encoder(model.encoder, captured, tokens)
        start = start_token(model.config)
        inputs = [[start, *each.job.target[:-1]] for each in captured]
        knockouts = [each.job.knockout for each in captured]
        batch = TargetBatch(model.decoder, inputs, sources, knockouts)
        yield from run_captured(batch, captured, tokens, None if needs_output else end)
        if not needs_output:
            return []
        return list(torch.split(batch.read()[: sum(batch.lengths)], batch.lengths))

    def _show_output(self, captured: CapturedJob, hidden: Tensor) -> Slices[None]:
        job, config, shortlist = captured.job, self.model.config, self.shortlist
        ids = np.arange(config.target_vocab_size)
        if shortlist is not None:
            ids = shortlist.ids(job.source)
        candidates = ids[~np.isin(ids, config.forbidden_ids)]
        output = DecoderOutput(hidden, job.target, candidates, self.model.decoder.logits_of)
        for capture in captured.captures:
            if capture.needs_output:
                yield from capture.observe_output(output)
