"""SPLADE models against transformers' models of masked words, as save_pretrained writes them.

Source of the expected weights: sentence-transformers, sparse_encoder/models/SpladePooling.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.encoding.embedding import EmbeddingJob, Vectors, embed
from model.errors import CheckpointError
from tests.embedding_reference import embed_alone_and_together, load_folder
from tests.hf_files import new_model, randomize
from tests.tiny_text import WORDS, change_json, tokenizer, write_json, write_modules

POOLING = "1_SpladePooling"
TEXTS = ["hello world", "hello", "unbelievable hello query : a b c .", "a b c " * 12]
SIZES: dict[str, Any] = {"vocab_size": len(WORDS), "max_position_embeddings": 64, "pad_token_id": 0}
BERT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
DISTIL: dict[str, Any] = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", BERT),
    "bert, relu": ("BertForMaskedLM", {**BERT, "hidden_act": "relu"}),
    "distilbert": ("DistilBertForMaskedLM", DISTIL),
    "roberta": ("RobertaForMaskedLM", BERT),
}


def write(folder: Path, case: str = "bert", **pooling: Any) -> Any:
    kind, config = CASES[case]
    model = new_model(kind, **SIZES, **config)
    randomize(model, seed=7)
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    package = "sentence_transformers.sparse_encoder.models"
    write_modules(folder, ("", f"{package}.MLMTransformer"), (POOLING, f"{package}.SpladePooling"))
    write_json(folder / "sentence_bert_config.json", {"transformer_task": "fill-mask"})
    write_json(folder / POOLING / "config.json", {"pooling_strategy": "max", **pooling})
    return model


def read(folder: Path) -> tuple[Any, list[list[int]]]:
    served, model = load_folder(folder, "auto")
    assert served.reader.is_sparse
    return model, [served.reader.read(text, "", "right").ids for text in TEXTS]


def dense(found: Vectors) -> Vectors:
    ids = found[:, 0].astype(int)
    assert (np.diff(ids) > 0).all()
    weights = np.zeros(len(WORDS), np.float32)
    weights[ids] = found[:, 1]
    return weights


@torch.no_grad()
@pytest.mark.parametrize("strategy", ["max", "sum"])
@pytest.mark.parametrize("case", CASES)
def test_weights_of_words_are_the_same(tmp_path: Path, case: str, strategy: str) -> None:
    theirs = write(tmp_path, case, pooling_strategy=strategy)
    model, texts = read(tmp_path)
    together = embed_alone_and_together(model, list(map(EmbeddingJob, texts)))
    for ids, found in zip(texts, together, strict=True):
        scores = theirs(torch.tensor([ids])).logits[0].relu().log1p()
        expected = scores.amax(dim=0) if strategy == "max" else scores.sum(dim=0)
        assert 2 <= len(found) < len(WORDS)
        np.testing.assert_allclose(dense(found), expected.numpy(), atol=1e-5)


@torch.no_grad()
def test_log_is_taken_twice_if_the_pooling_says_so(tmp_path: Path) -> None:
    theirs = write(tmp_path, activation_function="log1p_relu")
    model, (ids, *_) = read(tmp_path)
    expected = theirs(torch.tensor([ids])).logits[0].relu().log1p().log1p().amax(dim=0)
    (found,) = embed(model, [EmbeddingJob(ids)])
    np.testing.assert_allclose(dense(found), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (
            "config.json",
            {"tie_word_embeddings": False},
            "matrix of its output layer is not the token table",
        ),
        (
            f"{POOLING}/config.json",
            {"pooling_strategy": "mean"},
            "pooling_strategy is 'mean', supported: 'max'",
        ),
    ],
)
def test_other_model_is_refused(
    tmp_path: Path, file: str, changes: dict[str, Any], message: str
) -> None:
    write(tmp_path)
    change_json(tmp_path / file, **changes)
    with pytest.raises(CheckpointError, match=message):
        read(tmp_path)
