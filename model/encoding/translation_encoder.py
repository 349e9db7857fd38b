"""Embeds texts with a translation model's encoder, in slices.

A slice is a small part of the computation; between two slices a worker can do other work. A text's
vector is the mean of the encoder's output over the text's tokens.
"""

from collections.abc import Sequence

import torch

from model.architectures.seq2seq import EncoderDecoder
from model.encoding.embedding import TOKEN_MULTIPLE, EmbeddingJob, SlicedEncode
from model.encoding.teacher_forced import CapturedJob, TeacherForcedBatch
from model.inspection.capture import Slices
from model.inspection.query import AttentionJob
from model.tokenization.token_ids import check_ids


class TranslationEncode(SlicedEncode):
    """Embeds some texts with a translation model; each call of `advance` computes one slice.

    The texts are packed: they are concatenated, and the tokens of a text attend only to each other.

    Args:
        model: Model on its device, in any precision.
        jobs: Texts, EOS included, computed together. Their `is_raw` has no effect,
            because a translation model never scales its vectors to length 1.
        slice_tokens: Approximate number of tokens in a slice.

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
        """Computes all texts as one packed batch."""
        lengths = [len(job.ids) for job in self.jobs]
        sequences = [job.ids for job in self.jobs]
        missing = -sum(lengths) % TOKEN_MULTIPLE
        if missing:  # a padding text; see TOKEN_MULTIPLE in `model.encoding.embedding`
            sequences.append([self.model.config.eos_id] * missing)
        captured = [CapturedJob(AttentionJob(ids, [], ()), []) for ids in sequences]
        memory = yield from TeacherForcedBatch(self.model, captured, self.slice_tokens).encode()
        parts = torch.split(memory[0, : sum(lengths)], lengths)
        for number, (job, hidden) in enumerate(zip(self.jobs, parts, strict=True)):
            vectors = hidden.float()
            self.finished[number] = vectors if job.is_per_token else vectors.mean(dim=0)
