"""Captures the attention of an embedding model's encoder.

A pass is cut into slices of about half a layer; between two slices a worker can do other work.
Texts are packed, as in `model.encoding.embedding`: concatenated without padding between them. The
fused kernel computes the hidden states. It does not return the attention weights, so they are
computed separately, as in `model.encoding.teacher_forced`.

A capture (`model.inspection.capture`) collects the result of one query.
"""

from collections.abc import Sequence

import torch

from model.architectures.encoder import EncoderLayer
from model.architectures.text_encoder import TextEncoder
from model.embedding_config import TextEncoderConfig
from model.encoding.embedding import Heads, PackedBatch, project
from model.encoding.teacher_forced import SLICE_TOKENS, CapturedJob, CapturePass, batches
from model.errors import (
    AttentionQueryError,
)
from model.inspection.capture import AttentionSite, ProjectedHeads, Slices
from model.inspection.query import AttentionJob, AttentionKind, listed
from model.tokenization.token_ids import check_ids


class TextCapturePass(CapturePass):
    """Answers attention queries about some texts.

    Args:
        encoder: Encoder on its device, in float32 or bfloat16.
        jobs: Texts without targets. Their queries name existing layers and heads.
        slice_tokens: Approximate number of tokens in a slice.

    Raises:
        InputError: A job cannot be computed.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        jobs: Sequence[AttentionJob],
        slice_tokens: int = SLICE_TOKENS,
    ) -> None:
        self.encoder = encoder
        for job in jobs:
            check_job(encoder.config, job)
        super().__init__(jobs, encoder.device, slice_tokens)

    def compute(self) -> Slices[None]:
        """Computes batch after batch; texts are sorted, so that equal lengths are adjacent."""
        by_length = sorted(self.captured, key=lambda each: len(each.job.source))
        for batch in batches(by_length, self.slice_tokens):
            yield from CapturedBatch(self.encoder, batch, self.slice_tokens).capture()


class CapturedBatch(PackedBatch):
    """Runs packed texts from the first layer to the last queried one.

    Args:
        encoder: Text encoder.
        captured: Jobs and their captures.
        slice_tokens: Approximate number of tokens in a slice.
    """

    def __init__(
        self, encoder: TextEncoder, captured: Sequence[CapturedJob], slice_tokens: int
    ) -> None:
        super().__init__(encoder, [each.job.source for each in captured], slice_tokens)
        self.captured = captured

    def capture(self) -> Slices[None]:
        """Passes the heads of every queried layer to the captures that need this layer."""
        queried = {
            number for each in self.captured for number in each.layers(AttentionKind.ENCODER)
        }
        last = max(queried, default=-1)
        x = self._embed()
        bias = self._bias()
        for number, layer in enumerate(self.encoder.encoder_layers[: last + 1]):
            projected = project(layer, x)
            site = AttentionSite(AttentionKind.ENCODER, number)
            yield from self._show(site, layer, projected, bias)
            if number < last:
                heads = yield from self._attend(projected, bias)
                x = yield from self._finish(layer, x, heads)

    def _show(
        self, site: AttentionSite, layer: EncoderLayer, projected: Heads, bias: torch.Tensor | None
    ) -> Slices[None]:
        lengths = [len(each) for each in self.sequences]
        parts = zip(*(torch.split(heads[0], lengths, dim=1) for heads in projected), strict=True)
        # `sequences` may end in a padding text, which has no captures.
        for captured, (query, key, value) in zip(self.captured, parts, strict=False):
            size = query.shape[1]
            corner = None if bias is None else bias[0, :, :size, :size]
            seen = ProjectedHeads(query, key, value, corner, layer.self_attention)
            for capture in captured.captures:
                if site.layer in capture.layers(site.kind):
                    yield from capture.observe(site, seen)
        yield


def check_job(config: TextEncoderConfig, job: AttentionJob) -> None:
    """Checks the token ids of a job and the kinds of attention that it asks for.

    The indices of layers and heads are not checked here.

    Raises:
        EmptySourceError: The text has no tokens.
        SourceTooLongError: The text has more tokens than the model has positions.
        UnknownTokenError: An id is outside the vocabulary.
        AttentionQueryError: A query is not about the encoder.
    """
    check_ids("text", job.source, config.vocab_size, config.max_tokens)
    if job.needs_target:
        raise AttentionQueryError(
            f"this model has only an encoder: ask for encoder attention, not {listed(job.kinds)}"
        )
