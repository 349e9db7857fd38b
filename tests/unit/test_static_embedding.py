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

from model.encoding.embedding import EmbeddingJob
from model.errors import CheckpointError
from service.errors import InvalidRequestError
from service.tasks.attention.models import encoder_of
from tests.embedding_reference import embed_alone_and_together, load_folder
from tests.tiny_text import WORDS, tokenizer, write_modules

TEXTS = ["hello world", "hello", "unbelievable hello query : a b c .", "a [UNK] c" * 300]
KINDS = {"": "embedding.weight", ".": "embeddings", "0_StaticEmbedding": "embedding.weight"}


def write(folder: Path, path: str = "", is_normalized: bool = True) -> torch.Tensor:
    table = torch.randn(len(WORDS), 8, generator=torch.Generator().manual_seed(4))
    own = folder / path
    own.mkdir(parents=True, exist_ok=True)
    save_file({KINDS[path]: table}, own / "model.safetensors")
    tokenizer().save(str(own / "tokenizer.json"))
    package = "sentence_transformers.models"
    modules = [(path, f"{package}.StaticEmbedding"), ("1_Normalize", f"{package}.Normalize")]
    write_modules(folder, *modules[: 2 if is_normalized else 1])
    return table


@pytest.mark.parametrize("path", KINDS)
@pytest.mark.parametrize("is_normalized", [True, False])
def test_vectors_are_the_means_of_tokens(tmp_path: Path, path: str, is_normalized: bool) -> None:
    table = write(tmp_path, path, is_normalized)
    served, model = load_folder(tmp_path, "auto")
    assert (served.reader.size, served.reader.is_normalized) == (8, is_normalized)
    read = [served.reader.read(text, "", "right").ids for text in TEXTS]
    vectors = embed_alone_and_together(model, [EmbeddingJob(ids) for ids in read])
    for text, ids, vector in zip(TEXTS, read, vectors, strict=True):
        assert ids == tokenizer().encode(text, add_special_tokens=False).ids
        expected = F.embedding_bag(torch.tensor([ids]), table, mode="mean")
        expected = F.normalize(expected) if is_normalized else expected
        np.testing.assert_allclose(vector, expected[0].numpy(), atol=1e-5)


def test_attention_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(InvalidRequestError, match="without layers, so it has no attention"):
        encoder_of(load_folder(tmp_path)[0], None, None, 100)


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    table = write(tmp_path)
    save_file({"embeddings": table, "mapping": table.clone()}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="is not one table of tokens"):
        load_folder(tmp_path)
