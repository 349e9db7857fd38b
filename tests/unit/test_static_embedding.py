"""Static embedding models, in the folders of sentence-transformers and model2vec.

Source of the expected vectors: sentence-transformers, models/StaticEmbedding.py: the mean of the
vectors of all tokens, without special tokens (torch.nn.EmbeddingBag).
"""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import find_embedding_models
from model.encoding.embedding import EmbeddingJob, embed
from model.errors import CheckpointError
from service.errors import InvalidRequestError
from service.models.served import ServedEmbedder
from service.tasks.attention.models import encoder_of
from tests.tiny_text import WORDS, tokenizer, write_json

CPU = torch.device("cpu")
TEXTS = ["hello world", "hello", "unbelievable hello query : a b c .", "a [UNK] c" * 300]
KINDS = {"": "embedding.weight", ".": "embeddings", "0_StaticEmbedding": "embedding.weight"}


def write(folder: Path, path: str = "", is_normalized: bool = True) -> torch.Tensor:
    table = torch.randn(len(WORDS), 8, generator=torch.Generator().manual_seed(4))
    own = folder / path
    own.mkdir(parents=True, exist_ok=True)
    save_file({KINDS[path]: table}, own / "model.safetensors")
    tokenizer().save(str(own / "tokenizer.json"))
    modules = [("StaticEmbedding", path), ("Normalize", "1_Normalize")]
    listed = [
        {"idx": i, "name": str(i), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, place) in enumerate(modules[: 2 if is_normalized else 1])
    ]
    write_json(folder / "modules.json", listed)
    return table


def served(folder: Path) -> ServedEmbedder:
    (files,) = find_embedding_models(str(folder))
    return ServedEmbedder.load(files)


@pytest.mark.parametrize("path", KINDS)
@pytest.mark.parametrize("is_normalized", [True, False])
def test_vectors_are_the_means_of_tokens(tmp_path: Path, path: str, is_normalized: bool) -> None:
    table = write(tmp_path, path, is_normalized)
    found = served(tmp_path)
    assert (found.reader.size, found.reader.is_normalized) == (8, is_normalized)
    model = load_embedding_model(found.files, CPU, "auto")
    read = [found.reader.read(text, "", "right").ids for text in TEXTS]
    vectors = np.stack(embed(model, [EmbeddingJob(ids) for ids in read]))
    for text, ids, vector in zip(TEXTS, read, vectors, strict=True):
        assert ids == tokenizer().encode(text, add_special_tokens=False).ids
        expected = F.embedding_bag(torch.tensor([ids]), table, mode="mean")
        expected = F.normalize(expected) if is_normalized else expected
        np.testing.assert_allclose(vector, expected[0].numpy(), atol=1e-5)


def test_vector_does_not_depend_on_the_batch(tmp_path: Path) -> None:
    write(tmp_path)
    found = served(tmp_path)
    model = load_embedding_model(found.files, CPU, "auto")
    jobs = [EmbeddingJob(found.reader.read(text, "", "right").ids) for text in TEXTS]
    for job, vector in zip(jobs, embed(model, jobs), strict=True):
        np.testing.assert_array_equal(embed(model, [job])[0], vector)


def test_attention_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(InvalidRequestError, match="without layers, so it has no attention"):
        encoder_of(served(tmp_path), None, None, 100)


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    table = write(tmp_path)
    save_file({"embeddings": table, "mapping": table.clone()}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="is not one table of tokens"):
        served(tmp_path)
