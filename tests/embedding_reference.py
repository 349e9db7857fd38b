"""Loads embedding models from folders, and computes the vectors that tests expect."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import (
    find_embedding_models,
    load_tokenizer,
    read_config,
    read_folder,
)
from model.encoding.embedding import SLICE_TOKENS, EmbeddingJob, EmbeddingModel, Vectors, embed
from service.models.served import ServedEmbedder

CPU = torch.device("cpu")


class Reference:
    """The embedding model in a folder, as the reference for a server's answers."""

    def __init__(self, folder: str) -> None:
        files = read_folder(Path(folder))
        self.model = load_embedding_model(files, CPU, "float32")
        self.tokenizer = load_tokenizer(files, read_config(files))

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.tokenize(text).tokenized.ids

    def vectors(self, *texts: str, is_per_token: bool = False) -> list[Vectors]:
        jobs = [EmbeddingJob(self.ids(text), is_per_token) for text in texts]
        return embed(self.model, jobs)


def load_folder(folder: Path, dtype: str = "float32") -> tuple[ServedEmbedder, EmbeddingModel]:
    """Returns the one model in a folder, as the server and as a worker loads it."""
    (files,) = find_embedding_models(str(folder))
    return ServedEmbedder.load(files), load_embedding_model(files, CPU, dtype)


def embed_alone_and_together(
    model: EmbeddingModel, jobs: Sequence[EmbeddingJob], slice_tokens: int = SLICE_TOKENS
) -> list[Vectors]:
    """Returns the vectors of a batch, which must have the same bits as those of each job alone."""
    together = embed(model, jobs, slice_tokens)
    for job, vector in zip(jobs, together, strict=True):
        np.testing.assert_array_equal(embed(model, [job])[0], vector)
    return together
