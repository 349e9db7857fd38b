"""Computes embeddings with the model itself, as the reference for a server's answers."""

from pathlib import Path

import torch

from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import (
    load_tokenizer,
    read_config,
    read_folder,
)
from model.encoding.embedding import EmbeddingJob, Vectors, embed


class Reference:
    """The embedding model in a folder."""

    def __init__(self, folder: str) -> None:
        files = read_folder(Path(folder))
        self.model = load_embedding_model(files, torch.device("cpu"), "float32")
        self.tokenizer = load_tokenizer(files, read_config(files))

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.tokenize(text).tokenized.ids

    def vectors(self, *texts: str, is_per_token: bool = False) -> list[Vectors]:
        jobs = [EmbeddingJob(self.ids(text), is_per_token) for text in texts]
        return embed(self.model, jobs)
