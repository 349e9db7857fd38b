"""A pass over texts that shows the attention of an embedding model's encoder, in slices.

Texts lie side by side and go through the layers as they do to be embedded: hidden states come from
the fused kernel. Weights are computed beside it, as of translations.
"""

from collections.abc import Sequence

import torch

from model.architectures.encoder import EncoderLayer
from model.architectures.text_encoder import TextEncoder
from model.embedding_config import TextEncoderConfig
from model.encoding.embedding import EncodedBatch, Heads, project
from model.encoding.teacher_forced import SLICE_TOKENS, Recorded, RecordedPass, batches
from model.errors import (
    AttentionQueryError,
)
from model.inspection.capture import Place, Projected, Slices
from model.inspection.query import AttentionJob, AttentionKind, listed
from model.tokenization.token_ids import check_ids


class TextAttentionPass(RecordedPass):
    """Answers what is asked about some texts.

    Args:
        encoder: On its device, in float32 or bfloat16.
        jobs: Texts and queries, resolved; without targets.
        slice_tokens: About how many tokens a slice works on.

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
        """Batch after batch, short texts first: those of one length attend in one call."""
        by_length = sorted(self.recorded, key=lambda each: len(each.job.source))
        for batch in batches(by_length, self.slice_tokens):
            yield from RecordedBatch(self.encoder, batch, self.slice_tokens).record()


class RecordedBatch(EncodedBatch):
    """Some texts side by side, from the first layer up to the last that is asked about.

    Args:
        encoder: Of the model.
        recorded: Jobs, and what keeps the answers.
        slice_tokens: About how many tokens a slice works on.
    """

    def __init__(
        self, encoder: TextEncoder, recorded: Sequence[Recorded], slice_tokens: int
    ) -> None:
        super().__init__(encoder, [each.job.source for each in recorded], slice_tokens)
        self.recorded = recorded

    def record(self) -> Slices[None]:
        """Has the recorders see every layer that they want to see."""
        asked = {number for each in self.recorded for number in each.layers(AttentionKind.ENCODER)}
        last = max(asked, default=-1)
        x = self._embed()
        bias = self._bias()
        for number, layer in enumerate(self.encoder.encoder_layers[: last + 1]):
            projected = project(layer, x)
            place = Place(AttentionKind.ENCODER, number)
            yield from self._show(place, layer, projected, bias)
            if number < last:
                heads = yield from self._attend(projected, bias)
                x = yield from self._finish(layer, x, heads)

    def _show(
        self, place: Place, layer: EncoderLayer, projected: Heads, bias: torch.Tensor | None
    ) -> Slices[None]:
        lengths = [len(each) for each in self.sequences]
        parts = zip(*(torch.split(heads[0], lengths, dim=1) for heads in projected), strict=True)
        # Behind those that are recorded there may be a text of nobody.
        for recorded, (query, key, value) in zip(self.recorded, parts, strict=False):
            size = query.shape[1]
            corner = None if bias is None else bias[0, :, :size, :size]
            seen = Projected(query, key, value, corner, layer.self_attention)
            for recorder in recorded.recorders:
                if place.layer in recorder.layers(place.kind):
                    yield from recorder.record(place, seen)
        yield


def check_job(config: TextEncoderConfig, job: AttentionJob) -> None:
    """Refuses what cannot be computed; the query is taken to be resolved.

    Raises:
        EmptySourceError: No tokens.
        SourceTooLongError: More tokens than there are positions.
        UnknownTokenError: An id outside the vocabulary.
        AttentionQueryError: More than the encoder is asked about.
    """
    check_ids("text", job.source, config.vocab_size, config.max_tokens)
    if job.needs_target:
        raise AttentionQueryError(
            f"{listed(job.kinds)} attention is asked for; this model has an encoder alone: "
            "ask for encoder"
        )
