"""From a folder to vectors, and what is said of folders that are damaged or something else."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from model.checkpoints.families.sentence_transformers import (
    EmbeddingFiles,
    find_embedding_models,
    load_tokenizer,
    read_config,
)
from model.config import EmbeddingConfig, NormalizeConfig, Pooling
from model.encoding.embedding import EmbeddingJob, Vectors, embed
from model.errors import CheckpointError, UnsupportedModelError
from tests.embedding_reference import load_folder
from tests.tiny_text import (
    OPTIONS,
    change_json,
    save_pickled_shards,
    save_shards,
    tensors,
    write_encoder,
    write_json,
    write_model,
)

IDS = [1, 7, 8, 2]
WHOLE = ["Transformer", "Pooling", "Dense", "Normalize"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny")


def found(folder: Path) -> EmbeddingFiles:
    return find_embedding_models(str(folder))[0]


def config_of(folder: Path) -> EmbeddingConfig:
    return read_config(found(folder))


def vector(folder: Path, is_per_token: bool = False) -> Vectors:
    return embed(load_folder(folder)[1], [EmbeddingJob(IDS, is_per_token)])[0]


def test_files_say_what_the_model_is(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    write_json(folder / "config_sentence_transformers.json", prompts)
    files, config = found(tmp_path), config_of(tmp_path)
    assert files.name == "tiny"
    assert len(files.revision) == 12
    assert (config.max_tokens, config.output_size, config.is_normalized) == (12, 16, True)
    assert config.pooling == (Pooling.MEAN,)
    assert config.modules == (NormalizeConfig(),)
    assert (config.prompts, config.default_prompt) == ({"query": "query: "}, "query")
    assert load_tokenizer(files, config).max_tokens == 12


def test_folder_of_hugging_face_alone_gives_means(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "tiny")
    write_json(folder / "tokenizer_config.json", {"model_max_length": 1e30})
    config = config_of(folder)
    assert (config.max_tokens, config.modules) == (24, ())
    expected = vector(folder, is_per_token=True).mean(axis=0)
    np.testing.assert_allclose(vector(folder), expected, atol=1e-6)


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
        assert config_of(folder).pooling == (way,)


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
    assert config_of(folder).pooling == ways
    hidden = vector(folder, is_per_token=True)
    pooled = {Pooling.CLS: hidden[0], Pooling.MAX: hidden.max(0), Pooling.MEAN: hidden.mean(0)}
    expected = np.concatenate([pooled[way] for way in ways])
    np.testing.assert_allclose(vector(folder), expected, atol=1e-6)


def test_texts_are_made_lower_case(folder: Path) -> None:
    for is_lower, number in ((False, 3), (True, 7)):
        change_json(folder / "sentence_bert_config.json", do_lower_case=is_lower)
        tokenizer = load_tokenizer(found(folder), config_of(folder))
        assert tokenizer.tokenize("Hello").tokenized.ids == [1, number, 2]


@pytest.mark.parametrize(
    ("file", "option", "value", "expected"),
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
    folder: Path, file: str, option: str, value: int | None, expected: int
) -> None:
    (folder / "sentence_bert_config.json").unlink()
    write_json(folder / file, {option: value})
    assert config_of(folder).max_tokens == expected


def save_pickle(folder: Path, state: dict[str, torch.Tensor]) -> None:
    torch.save(state, folder / "pytorch_model.bin")


def save_with_heads(folder: Path, state: dict[str, torch.Tensor]) -> None:
    """As a file is that was trained to fill masks, with the old names of layer norms."""
    heads = {"cls.predictions.bias": torch.zeros(3), "bert.pooler.dense.bias": torch.zeros(3)}
    old = {"bert.embeddings.position_ids": torch.arange(24)[None], **heads}
    for name, tensor in state.items():
        older = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old["bert." + older.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
    save_pickle(folder, old)


@pytest.mark.parametrize("save", [save_shards, save_pickle, save_pickled_shards, save_with_heads])
def test_weights_are_the_same_in_every_kind_of_file(
    folder: Path, save: Callable[[Path, dict[str, torch.Tensor]], None]
) -> None:
    expected = vector(folder)
    (folder / "model.safetensors").unlink()
    save(folder, tensors(OPTIONS))
    np.testing.assert_array_equal(vector(folder), expected)
    assert len(found(folder).revision) == 12


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"is not a complete model: it has no {name}"):
        load_folder(folder)


def test_head_of_a_classifier_that_the_config_does_not_name_is_refused(folder: Path) -> None:
    state = {**tensors(OPTIONS), "classifier.weight": torch.zeros(2, 16)}
    save_file(state, folder / "model.safetensors")
    message = r"model\.safetensors does not fit .*: unexpected: classifier\.weight"
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder)


CONFIG, POOLING, DENSE = "config.json", "1_Pooling/config.json", "2_Dense/config.json"
LENGTH, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"
TASK = {"transformer_task": "fill-mask", "query_length": 32}
MANY = {"hidden_act": "x", "is_decoder": True, "hidden_size": "16", "layer_norm_eps": 2}
BUCKETS = {"model_type": "mpnet", "relative_attention_num_buckets": 16}
OF_TOKENS = {"module_input_name": "token_embeddings"}


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (CONFIG, {"model_type": ["bert"]}, "model_type is"),
        (CONFIG, {"vocab_size": 99}, r"shapes differ: embeddings\.word_embeddings\.weight"),
        (CONFIG, MANY, "is_decoder is True.*act is 'x'.*norm_eps is 2.*hidden_size is '16'"),
        (CONFIG, {"num_attention_heads": 3}, "16 is not a mult"),
        (CONFIG, BUCKETS, "relative_attention_num_buckets is 16, supported: 32"),
        (CONFIG, {"num_hidden_layers": 10**6}, "is 1000000, it must be an integer from 1 to 1000"),
        (
            POOLING,
            {"pooling_mode_magic": True, "include_prompt": "no"},
            "1_Pooling.* is not supported: 'magic' is not a way.*include_prompt is 'no'",
        ),
        (POOLING, {"pooling_mode_mean_tokens": False}, "no way of"),
        (POOLING, {"pooling_mode": 7}, "7 is not a way of"),
        (
            DENSE,
            {"use_residual": True, "activation_function": "torch.nn.ReLU"},
            "2_Dense.* is not supported: use_residual is True.*nn.ReLU, supported",
        ),
        (DENSE, OF_TOKENS, "module_input_name is 'token_embeddings', supported: 'sentence_embed"),
        ("3_Normalize/config.json", OF_TOKENS, "3_Normalize.* is not supported: module_input_name"),
        (LENGTH, TASK, "bert_config.* not supported: transformer_task is 'fill-m.*length is 32"),
        (LENGTH, {"max_seq_length": "12"}, "max_seq_length is '12'"),
        (LENGTH, {"max_seq_length": float("nan")}, "max_seq_length is nan"),
        (LENGTH, {"max_seq_length": 2}, "2 special tokens"),
        ("tokenizer_config.json", {"truncation_side": "left"}, "truncation_side is 'left'"),
        (PROMPTS, {"prompts": {"query": 1}}, "prompts must map names to texts"),
        (PROMPTS, {"default_prompt_name": "query"}, "default prompt 'query' is not among the pr"),
    ],
)
def test_option_of_no_use_is_told_by_file_and_reason(
    tmp_path: Path, file: str, changes: dict[str, Any], message: str
) -> None:
    folder = write_model(tmp_path / "tiny", WHOLE)
    load_folder(folder)
    if not (folder / file).is_file():
        write_json(folder / file, {})
    change_json(folder / file, **changes)
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder)


TRANSFORMER = {"type": "sentence_transformers.models.Transformer", "path": ""}


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (
            [TRANSFORMER, {"type": "custom.Pooling", "path": ""}],
            r"modules\.json is not supported: module 1 is custom\.Pooling",
        ),
        ([TRANSFORMER], "it lists 1 modules"),
        ([{**TRANSFORMER, "path": "../x"}], "'../x' is not in the folder"),
        ([{"path": "x"}], r"modules\.json is not a list of modules"),
        (None, r"modules\.json is not JSON"),
    ],
)
def test_modules_of_no_use_are_refused(folder: Path, modules: Any, message: str) -> None:
    write_json(folder / "modules.json", modules)
    if modules is None:
        (folder / "modules.json").write_text("[", encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder)


@pytest.mark.parametrize("architecture", ["BertModel", "BertForMaskedLM", "BertForPreTraining"])
def test_encoder_that_was_trained_to_fill_in_words_embeds(
    tmp_path: Path, architecture: str
) -> None:
    folder = write_model(tmp_path / "tiny", architectures=[architecture])
    assert config_of(folder).output_size == 16
    load_folder(folder)


@pytest.mark.parametrize(
    "architectures",
    [
        "BertModel",
        ["BertForQuestionAnswering"],
        ["MPNetForSequenceClassification"],
        ["XLMRobertaForTokenClassification"],
    ],
    ids=str,
)
def test_classifier_is_not_served_as_an_embedder(tmp_path: Path, architectures: object) -> None:
    """Its vectors were served: its encoder's tensors are those of an embedder."""
    folder = write_model(tmp_path / "tiny", architectures=architectures)
    named = re.escape(repr(architectures))
    reason = rf"config\.json is not supported: architectures is {named}; .*fine-tuned from"
    with pytest.raises(UnsupportedModelError, match=reason):
        config_of(folder)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("some_model/model", "some_model"),
        ("models--owner--tiny-texts/snapshots/0a1b2c", "tiny-texts"),
    ],
)
def test_folder_of_a_package_or_a_hubs_cache_has_its_name(
    tmp_path: Path, path: str, name: str
) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    assert found(write_model(tmp_path / path)).name == name


def test_config_and_tokenizer_need_no_torch(tmp_path: Path) -> None:
    """Whoever only tokenises pays neither its memory nor its seconds."""
    write_model(tmp_path / "tiny")
    code = (
        "import sys\n"
        "from model.checkpoints.families import sentence_transformers as st\n"
        "(files,) = st.find_embedding_models(sys.argv[1])\n"
        "tokens = st.load_tokenizer(files, st.read_config(files)).tokenize('hello')\n"
        "print(files.revision, tokens.tokenized.ids, 'torch' in sys.modules)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.endswith("[1, 7, 2] False\n")
