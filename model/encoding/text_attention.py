"""Captures the attention of an embedding model's encoder."""

from collections.abc import Sequence

from model.architectures.text_encoder import TextEncoder
from model.embedding_config import TextEncoderConfig
from model.encoding.capture_pass import (
    SLICE_TOKENS,
    CapturePass,
    last_layer,
    run_encoder,
)
from model.encoding.sliced_pass import batches
from model.errors import AttentionQueryError
from model.inspection.captures.capture import Slices
from model.inspection.query import AttentionJob, AttentionKind, listed
from model.tokenization.token_ids import check_ids


class TextCapturePass(CapturePass):
    """Answers attention queries about some texts.

    Args:
        encoder: Encoder on its device, in any precision.
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
        """Computes batch after batch. Attention is faster if texts of equal length are adjacent."""
        by_length = sorted(self.captured, key=lambda each: len(each.job.source))
        for batch in batches(by_length, lambda each: each.lengths, self.slice_tokens):
            last = last_layer(batch, AttentionKind.ENCODER)
            yield from run_encoder(self.encoder, batch, self.slice_tokens, last)


def check_job(config: TextEncoderConfig, job: AttentionJob) -> None:
    """Checks the token ids of a job, and the kinds of attention in its queries.

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
