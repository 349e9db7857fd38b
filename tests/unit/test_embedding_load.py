"""From a folder to vectors, and what is said of folders that are damaged or something else."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import (
    find_embedding_models,
    load_tokenizer,
    read_config,
)
from model.embedding_config import NormalizeConfig, Pooling
from model.encoding.embedding import EmbeddingJob, Vectors, embed
from model.errors import CheckpointError, CheckpointNotFoundError
from tests.tiny_text import OPTIONS, change_json, tensors, write_encoder, write_json, write_model

CPU = torch.device("cpu")
IDS = [1, 7, 8, 2]


def vector(folder: Path, is_per_token: bool = False) -> Vectors:
    files = find_embedding_models(str(folder))[0]
    model = load_embedding_model(files, CPU, "float32")
    return embed(model, [EmbeddingJob(IDS, is_per_token)])[0]


def load_all(folder: Path) -> None:
    files = find_embedding_models(str(folder))[0]
    load_tokenizer(files, read_config(files))
    load_embedding_model(files, CPU, "float32")


def test_folder_gives_normalized_means(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    hidden = torch.from_numpy(vector(folder, is_per_token=True))
    expected = functional.normalize(hidden.mean(dim=0), dim=0)
    np.testing.assert_allclose(vector(folder), expected.numpy(), atol=1e-6)


def test_files_say_what_the_model_is(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    write_json(folder / "config_sentence_transformers.json", prompts)
    files = find_embedding_models(str(tmp_path))[0]
    config = read_config(files)
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
    config = read_config(find_embedding_models(str(folder))[0])
    assert (config.max_tokens, config.modules) == (24, ())
    expected = vector(folder, is_per_token=True).mean(axis=0)
    np.testing.assert_allclose(vector(folder), expected, atol=1e-6)


def test_encoder_inside_the_folder_of_another_is_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    write_encoder(tmp_path / "models" / "tiny")
    write_encoder(tmp_path / "models" / "tiny" / "1_older")
    assert [files.name for files in find_embedding_models(str(tmp_path / "models"))] == ["tiny"]


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta", "camembert", "mpnet"])
def test_every_family_loads(tmp_path: Path, model_type: str) -> None:
    folder = write_model(tmp_path / "tiny", model_type=model_type)
    assert vector(folder).shape == (16,)
    assert read_config(find_embedding_models(str(folder))[0]).encoder.max_tokens == 22


def save_shards(
    folder: Path,
    state: dict[str, torch.Tensor],
    whole: str = "model.safetensors",
    save: Callable[[Any, Path], None] = save_file,
) -> None:
    names, suffix = sorted(state), Path(whole).suffix
    shards = {f"one{suffix}": names[::2], f"two{suffix}": names[1::2]}
    for shard, inside in shards.items():
        save({name: state[name] for name in inside}, folder / shard)
    weight_map = {name: shard for shard, inside in shards.items() for name in inside}
    write_json(folder / f"{whole}.index.json", {"weight_map": weight_map})


def save_pickled_shards(folder: Path, state: dict[str, torch.Tensor]) -> None:
    save_shards(folder, state, "pytorch_model.bin", torch.save)


def save_pickle(folder: Path, state: dict[str, torch.Tensor]) -> None:
    torch.save(state, folder / "pytorch_model.bin")


def save_with_heads(folder: Path, state: dict[str, torch.Tensor]) -> None:
    """As a file is that was trained to fill masks, with the old names of layer norms."""
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in state.items()
    }
    heads = {"cls.predictions.bias": torch.zeros(3), "bert.pooler.dense.bias": torch.zeros(3)}
    ids = {"bert.embeddings.position_ids": torch.arange(24)[None]}
    save_pickle(folder, {f"bert.{name}": tensor for name, tensor in old.items()} | heads | ids)


@pytest.mark.parametrize("save", [save_shards, save_pickle, save_pickled_shards, save_with_heads])
def test_weights_are_the_same_in_every_kind_of_file(
    tmp_path: Path, save: Callable[[Path, dict[str, torch.Tensor]], None]
) -> None:
    folder = write_model(tmp_path / "tiny")
    expected = vector(folder)
    (folder / "model.safetensors").unlink()
    save(folder, tensors(OPTIONS))
    np.testing.assert_array_equal(vector(folder), expected)
    assert len(find_embedding_models(str(folder))[0].revision) == 12


def test_bfloat16_is_near(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    files = find_embedding_models(str(folder))[0]
    model = load_embedding_model(files, CPU, "bfloat16")
    found = embed(model, [EmbeddingJob(IDS)])[0]
    assert found.dtype == np.float32
    assert found @ vector(folder) > 0.999


class Code:
    """What a pickle must not do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def pickle_with_code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"x": Code()}, folder / "pytorch_model.bin")


def plain_pickle_with_code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Code(), protocol=2))


def pickle_cut_short(folder: Path) -> None:
    save_pickle(folder, tensors(OPTIONS))
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:-500])


def pickle_of_a_list(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save([torch.zeros(3)], folder / "pytorch_model.bin")


def cut(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) * 2 // 3])

    return damage


def options(name: str, **changes: Any) -> Callable[[Path], None]:
    return lambda folder: change_json(folder / name, **changes)


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def tensor(name: str, value: torch.Tensor | None) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        state = tensors(OPTIONS)
        state.pop(name, None)
        save_file(state if value is None else {**state, name: value}, folder / "model.safetensors")

    return damage


def modules(*changed: dict[str, Any]) -> Callable[[Path], None]:
    return lambda folder: write_json(folder / "modules.json", list(changed))


def shard_missing(folder: Path) -> None:
    save_shards(folder, tensors(OPTIONS))
    (folder / "model.safetensors").unlink()
    (folder / "two.safetensors").unlink()


def shard_elsewhere(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"x": "../x.safetensors"}})


TRANSFORMER = {"type": "sentence_transformers.models.Transformer", "path": ""}
NORM = "embeddings.LayerNorm.weight"
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "weights cut short": (cut("model.safetensors"), r"model\.safetensors is cut short"),
    "weights missing": (
        without("model.safetensors"),
        r"is not a complete model: it has no model\.safetensors or",
    ),
    "config cut short": (cut("config.json"), r"config\.json is not JSON"),
    "config missing": (without("config.json"), r"complete model: it has no config\.json"),
    "tokenizer cut short": (cut("tokenizer.json"), r"tokenizer\.json is not a tokenizer"),
    "tokenizer missing": (without("tokenizer.json"), r"complete model: it has no tokenizer\.json"),
    "modules cut short": (cut("modules.json"), r"modules\.json is not JSON"),
    "tensor missing": (
        tensor(NORM, None),
        rf"model\.safetensors does not fit .*: missing: {NORM}",
    ),
    "tensor left over": (
        tensor("x", torch.zeros(1)),
        r"model\.safetensors does not fit .*: unexpected: x",
    ),
    "wrong shape": (
        tensor(NORM, torch.zeros(17)),
        rf"model\.safetensors does not fit .*: shapes differ: {NORM} \(17,\) for .* \(16,\)",
    ),
    "vocabulary too large for the tensors": (
        options("config.json", vocab_size=99),
        r"model\.safetensors does not fit .*: shapes differ: embeddings\.word_embeddings\.weight",
    ),
    "vocabulary too small for the tokenizer": (
        options("config.json", vocab_size=9),
        r"tokenizer\.json has ids up to 14; the weights are for 9",
    ),
    "another architecture": (
        options("config.json", model_type="llama"),
        r"config\.json is not supported: model_type is 'llama', supported: bert",
    ),
    "no model type": (options("config.json", model_type=["bert"]), "model_type is"),
    "head of a classifier that the config does not name": (
        tensor("classifier.weight", torch.zeros(2, 16)),
        r"model\.safetensors does not fit .*: unexpected: classifier\.weight",
    ),
    "several options": (
        options("config.json", hidden_act="x", is_decoder=True, hidden_size="16", layer_norm_eps=2),
        r"is_decoder is True.*hidden_act is 'x'.*layer_norm_eps is 2.*hidden_size is '16'",
    ),
    "heads that do not divide": (
        options("config.json", num_attention_heads=3),
        "16 is not a mult",
    ),
    "unknown pooling": (
        options("1_Pooling/config.json", pooling_mode_magic=True, include_prompt=False),
        r"1_Pooling/config\.json is not supported: 'magic' is not a way.*include_prompt is False",
    ),
    "more than linear": (
        options("2_Dense/config.json", use_residual=True, activation_function="torch.nn.ReLU"),
        r"2_Dense/config\.json is not supported: use_residual is True.*torch\.nn\.ReLU, supported",
    ),
    "dense of tokens": (
        options("2_Dense/config.json", module_input_name="token_embeddings"),
        "module_input_name is 'token_embeddings', supported: 'sentence_embedding'",
    ),
    "norm of tokens": (
        lambda folder: write_json(
            folder / "3_Normalize" / "config.json", {"module_input_name": "token_embeddings"}
        ),
        r"3_Normalize/config\.json is not supported: module_input_name",
    ),
    "another task": (
        options("sentence_bert_config.json", transformer_task="fill-mask", query_length=32),
        r"bert_config\.json is not supported: transformer_task is 'fill-mask'.*query_length is 32",
    ),
    "cut in front": (
        lambda folder: write_json(folder / "tokenizer_config.json", {"truncation_side": "left"}),
        r"tokenizer_config\.json is not supported: truncation_side is 'left'",
    ),
    "prompts that are no texts": (
        lambda folder: write_json(
            folder / "config_sentence_transformers.json", {"prompts": {"query": 1}}
        ),
        "prompts must map names to texts",
    ),
    "default prompt of no name": (
        lambda folder: write_json(
            folder / "config_sentence_transformers.json", {"default_prompt_name": "query"}
        ),
        "the default prompt 'query' is not among the prompts",
    ),
    "no pooling": (
        options("1_Pooling/config.json", pooling_mode_mean_tokens=False),
        "no way of",
    ),
    "unknown module": (
        modules(TRANSFORMER, {"type": "custom.Pooling", "path": ""}),
        r"modules\.json is not supported: module 1 is custom\.Pooling",
    ),
    "only an encoder": (modules(TRANSFORMER), "it lists 1 modules"),
    "module elsewhere": (modules({**TRANSFORMER, "path": "../x"}), "'../x' is not in the folder"),
    "modules of no name": (modules({"path": "x"}), r"modules\.json is not a list of modules"),
    "wrong length": (
        options("sentence_bert_config.json", max_seq_length="12"),
        "max_seq_length is '12'",
    ),
    "no length": (
        options("sentence_bert_config.json", max_seq_length=float("nan")),
        "max_seq_length is nan",
    ),
    "buckets of nobody's code": (
        options("config.json", model_type="mpnet", relative_attention_num_buckets=16),
        "relative_attention_num_buckets is 16, supported: 32",
    ),
    "layers without end": (
        options("config.json", num_hidden_layers=10**6),
        "num_hidden_layers is 1000000, it must be an integer from 1 to 1000",
    ),
    "pooling of no name": (
        options("1_Pooling/config.json", pooling_mode=7),
        "7 is not a way of",
    ),
    "no room": (options("sentence_bert_config.json", max_seq_length=2), "2 special tokens"),
    "pickle with code": (pickle_with_code, r"pytorch_model\.bin holds more than tensors"),
    "plain pickle with code": (
        plain_pickle_with_code,
        r"pytorch_model\.bin holds more than tensors",
    ),
    "pickle cut short": (pickle_cut_short, r"pytorch_model\.bin is cut short"),
    "pickle of a list": (pickle_of_a_list, "something other than named tensors"),
    "shard missing": (shard_missing, r"index\.json names missing files: two\.safe"),
    "shard elsewhere": (shard_elsewhere, "which is not a file name in its folder"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_told_by_file_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    damage, message = DAMAGE[name]
    folder = write_model(tmp_path / "tiny", ["Transformer", "Pooling", "Dense", "Normalize"])
    load_all(folder)
    damage(folder)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        load_all(folder)
    assert not (tmp_path / "ran").exists()


def test_folder_called_model_has_the_name_of_its_package(tmp_path: Path) -> None:
    (tmp_path / "some_model").mkdir()
    folder = write_model(tmp_path / "some_model" / "model")
    assert find_embedding_models(str(folder))[0].name == "some_model"


def test_folder_of_a_hubs_cache_has_the_name_of_its_repository(tmp_path: Path) -> None:
    cached = tmp_path / "models--owner--tiny-texts" / "snapshots" / "0a1b2c"
    cached.parent.mkdir(parents=True)
    assert find_embedding_models(str(write_model(cached)))[0].name == "tiny-texts"


def test_package_is_found_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_model(tmp_path / "tiny_texts")
    (folder / "__init__.py").write_text("raise AssertionError", encoding="utf-8")
    info = tmp_path / "tiny_texts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-texts\nVersion: 1.0\n")
    files = [path for path in folder.rglob("*") if path.is_file()]
    record = "".join(f"{path.relative_to(tmp_path)},,\n" for path in files)
    (info / "RECORD").write_text(record, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = find_embedding_models("package:tiny-texts")
    assert (found.name, found.folder) == ("tiny_texts", folder)


@pytest.mark.parametrize("reference", ["nowhere", "package:no-such-package", "package:numpy"])
def test_reference_to_nothing_is_refused(reference: str) -> None:
    with pytest.raises(CheckpointNotFoundError, match=reference.removeprefix("package:")):
        find_embedding_models(reference)


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
