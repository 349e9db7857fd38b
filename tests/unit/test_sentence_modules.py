"""What the files of sentence-transformers' modules say, and vectors that go by it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import (
    load_tokenizer,
    read_config,
    read_folder,
)
from model.embedding_config import Pooling
from model.encoding.embedding import EmbeddingJob, Vectors, embed
from tests.tiny_text import change_json, write_json, write_model


def vector(folder: Path, is_per_token: bool = False) -> Vectors:
    model = load_embedding_model(read_folder(folder), torch.device("cpu"), "float32")
    return embed(model, [EmbeddingJob([1, 7, 8, 2], is_per_token)])[0]


MODES = {
    "cls_token": ("cls", Pooling.CLS),
    "max_tokens": ("max", Pooling.MAX),
    "mean_tokens": ("mean", Pooling.MEAN),
    "mean_sqrt_len_tokens": ("mean_sqrt_len_tokens", Pooling.MEAN_SQRT_LEN),
    "weightedmean_tokens": ("weightedmean", Pooling.WEIGHTED_MEAN),
    "lasttoken": ("lasttoken", Pooling.LAST_TOKEN),
}


@pytest.mark.parametrize("switch", MODES)
def test_every_way_of_pooling_is_known_by_both_its_names(tmp_path: Path, switch: str) -> None:
    name, way = MODES[switch]
    folder = write_model(tmp_path / "tiny")
    others = {f"pooling_mode_{other}": False for other in MODES}
    for content in (others | {f"pooling_mode_{switch}": True}, {"pooling_mode": name}):
        write_json(folder / "1_Pooling" / "config.json", content)
        assert read_config(read_folder(folder)).pooling == (way,)


@pytest.mark.parametrize(
    ("content", "ways"),
    [
        ({"pooling_mode": ["mean", "cls"]}, (Pooling.MEAN, Pooling.CLS)),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            (Pooling.CLS, Pooling.MEAN),
        ),
        ({"pooling_mode": "max", "pooling_mode_mean_tokens": True}, (Pooling.MAX,)),
    ],
    ids=str,
)
def test_vectors_are_joined_as_sentence_transformers_does(
    tmp_path: Path, content: dict[str, Any], ways: tuple[Pooling, ...]
) -> None:
    """A list says the order, switches have one of their own, and are nothing beside a name."""
    folder = write_model(tmp_path / "tiny", ["Transformer", "Pooling"])
    write_json(folder / "1_Pooling" / "config.json", content)
    assert read_config(read_folder(folder)).pooling == ways
    hidden = vector(folder, is_per_token=True)
    pooled = {Pooling.CLS: hidden[0], Pooling.MAX: hidden.max(0), Pooling.MEAN: hidden.mean(0)}
    expected = np.concatenate([pooled[way] for way in ways])
    np.testing.assert_allclose(vector(folder), expected, atol=1e-6)


def test_texts_are_made_lower_case(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    files = read_folder(folder)
    config = read_config(files)
    assert load_tokenizer(files, config).tokenize("Hello").tokenized.ids == [1, 3, 2]
    change_json(folder / "sentence_bert_config.json", do_lower_case=True)
    assert load_tokenizer(files, config).tokenize("Hello").tokenized.ids == [1, 7, 2]


@pytest.mark.parametrize(
    ("file", "option", "value", "found"),
    [
        ("sentence_bert_config.json", "max_seq_length", 9, 9),
        ("sentence_bert_config.json", "max_seq_length", 512, 24),
        ("sentence_roberta_config.json", "max_seq_length", 9, 9),
        ("sentence_xlm-roberta_config.json", "max_seq_length", 9, 9),
        ("sentence_bert_config.json", "max_seq_length", None, 24),
        ("tokenizer_config.json", "model_max_length", 9, 9),
        ("tokenizer_config.json", "model_max_length", 10**30, 24),
    ],
)
def test_longest_text_is_that_of_the_files(
    tmp_path: Path, file: str, option: str, value: int | None, found: int
) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / "sentence_bert_config.json").unlink()
    write_json(folder / file, {option: value})
    assert read_config(read_folder(folder)).max_tokens == found


@pytest.mark.parametrize("has_bias", [True, False])
def test_dense_may_have_neither_tanh_nor_bias(tmp_path: Path, has_bias: bool) -> None:
    folder = write_model(tmp_path / "tiny", ["Transformer", "Pooling", "Dense", "Normalize"])
    identity = "torch.nn.modules.linear.Identity"
    change_json(folder / "2_Dense/config.json", bias=has_bias, activation_function=identity)
    state = load_file(folder / "2_Dense" / "model.safetensors")
    if not has_bias:
        save_file({"linear.weight": state["linear.weight"]}, folder / "2_Dense/model.safetensors")
    pooled = torch.from_numpy(vector(folder, is_per_token=True).mean(axis=0))
    y = state["linear.weight"] @ pooled + (state["linear.bias"] if has_bias else 0)
    np.testing.assert_allclose(vector(folder), (y / y.norm()).numpy(), atol=1e-6)


def test_dense_follows_pooling(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", ["Transformer", "Pooling", "Dense"])
    state = load_file(folder / "2_Dense" / "model.safetensors")
    pooled = torch.from_numpy(vector(folder, is_per_token=True).mean(axis=0))
    expected = torch.tanh(state["linear.weight"] @ pooled + state["linear.bias"])
    np.testing.assert_allclose(vector(folder), expected.numpy(), atol=1e-6)
