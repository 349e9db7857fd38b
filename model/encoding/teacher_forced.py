"""Runs teacher-forced passes over given translations in slices, and captures attention."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from model.architectures.embedding import start_token
from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import AnyShortlist, Ids
from model.backends.base import ForcedDecoder
from model.backends.decoder_batch import TargetBatch
from model.encoding.capture_pass import (
    SLICE_TOKENS,
    CapturedJob,
    CapturePass,
    batches,
    last_layer,
    run_captured,
    run_encoder,
)
from model.inspection.captures.capture import DecoderOutput, Slices
from model.inspection.query import AttentionJob, AttentionKind, check_job


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
        self.model = model
        self.shortlist = shortlist
        self.forced_decoder = forced_decoder
        for job in jobs:
            check_job(model.config, job)
        super().__init__(jobs, model.device, slice_tokens)

    def compute(self) -> Slices[None]:
        """Jobs that need only the encoder are never in a batch with jobs that need the decoder."""
        for needs_target in (True, False):
            chosen = [each for each in self.captured if each.job.needs_target is needs_target]
            for batch in batches(chosen, lambda each: each.lengths, self.slice_tokens):
                yield from self._run(batch)

    def _run(self, batch: list[CapturedJob]) -> Slices[None]:
        scored = [each for each in batch if each.job.needs_output]
        apart = [each for each in scored if self._is_apart(each)]
        hidden = yield from self._decode(batch, needs_output=len(scored) > len(apart))
        for each, states in zip(batch, hidden, strict=False):  # `hidden` may be empty
            if each.job.needs_output and not self._is_apart(each):
                yield from self._show_output(each, states)
        if self.forced_decoder is None or not apart:
            return
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
        lengths = batch.lengths if needs_output else []
        return list(torch.split(batch.read()[: sum(lengths)], lengths)) if needs_output else []

    def _is_apart(self, captured: CapturedJob) -> bool:
        return self.forced_decoder is not None and captured.job.knockout is None

    def _show_output(self, captured: CapturedJob, hidden: Tensor) -> Slices[None]:
        job = captured.job
        logits = self.model.decoder.logits_of
        output = DecoderOutput(hidden, job.target, self._candidates(job.source), logits)
        for capture in captured.captures:
            if capture.needs_output:
                yield from capture.observe_output(output)

    def _candidates(self, source: list[int]) -> Ids:
        config = self.model.config
        if self.shortlist is None:
            ids = np.arange(config.target_vocab_size)
        else:
            ids = self.shortlist.ids(source)
        return ids[~np.isin(ids, config.forbidden_ids)]
