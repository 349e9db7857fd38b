"""Vectors of texts by a translation model's encoder: means of its last layer, in slices."""

from collections.abc import Sequence

import torch

from model.architectures.seq2seq import EncoderDecoder
from model.encoding.embedding import TOKEN_MULTIPLE, EmbeddingJob, VectorPass
from model.encoding.teacher_forced import ForcedBatch, Recorded
from model.inspection.capture import Slices
from model.inspection.query import AttentionJob
from model.tokenization.token_ids import check_ids


class EncoderPass(VectorPass):
    """Embeds some texts, one slice a call.

    Texts lie side by side and attend within themselves, as those of an AttentionPass.

    Args:
        model: On its device, in any precision.
        jobs: Texts, EOS included; they are computed together. Such a model has no closing
            Normalize, and so `is_raw` changes nothing.
        slice_tokens: About how many tokens a slice works on.

    Raises:
        InputError: A job cannot be computed.
    """

    def __init__(
        self, model: EncoderDecoder, jobs: Sequence[EmbeddingJob], slice_tokens: int
    ) -> None:
        for job in jobs:
            check_ids("text", job.ids, model.config.source_vocab_size)
        self.model = model
        self.jobs = jobs
        self.slice_tokens = slice_tokens
        super().__init__()

    def compute(self) -> Slices[None]:
        """All at once: the texts lie side by side in one batch."""
        lengths = [len(job.ids) for job in self.jobs]
        sequences = [job.ids for job in self.jobs]
        missing = -sum(lengths) % TOKEN_MULTIPLE
        if missing:  # a text of nobody, for the same bits in every batch
            sequences.append([self.model.config.eos_id] * missing)
        recorded = [Recorded(AttentionJob(ids, [], ()), []) for ids in sequences]
        memory = yield from ForcedBatch(self.model, recorded, self.slice_tokens).encode()
        parts = torch.split(memory[0, : sum(lengths)], lengths)
        for number, (job, hidden) in enumerate(zip(self.jobs, parts, strict=True)):
            vectors = hidden.float()
            self.finished[number] = vectors if job.is_per_token else vectors.mean(dim=0)
