"""Vectors of texts by a translation model's encoder: means of its last layer, in slices."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.attention_pass import ForcedBatch, Recorded
from model.embedding_pass import TOKEN_MULTIPLE, EmbeddingJob
from model.errors import EmptySourceError, UnknownTokenError
from model.inspection import AttentionJob
from model.recording import Slices
from model.transformer import EncoderDecoder


class EncoderPass:
    """Embeds some texts, one slice a call; as `model.embedding_pass.EmbeddingPass` does it.

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
            check_job(model, job)
        self.model = model
        self.jobs = jobs
        self.slice_tokens = slice_tokens
        self.finished: dict[int, Tensor] = {}
        self.slices = self._run()

    def _run(self) -> Slices[None]:
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

    @torch.inference_mode()
    def advance(self) -> bool:
        """Computes the next slice; False once all are computed."""
        for _ in self.slices:
            return True
        return False

    @torch.inference_mode()
    def take_finished(self) -> dict[int, NDArray[np.float32]]:
        """What has been computed since the last call, by the job's place; waits for a GPU.

        Returns:
            Float32: (D) for a text, (T, D) for its tokens.
        """
        finished, self.finished = self.finished, {}
        return {number: vectors.cpu().numpy() for number, vectors in finished.items()}


def check_job(model: EncoderDecoder, job: EmbeddingJob) -> None:
    """Refuses what cannot be computed.

    Raises:
        EmptySourceError: No tokens.
        UnknownTokenError: An id outside the vocabulary.
    """
    if not job.ids:
        raise EmptySourceError("the text has no tokens")
    size = model.config.source_vocab_size
    if not 0 <= min(job.ids) <= max(job.ids) < size:
        raise UnknownTokenError(
            f"the text has ids from {min(job.ids)} to {max(job.ids)}; the vocabulary has {size}"
        )
