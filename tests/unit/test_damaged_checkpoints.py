"""A damaged or wrong file of every kind gives one error at start, which names it and the reason.

Nothing in a file is ever run. "At start" is what the server and its workers do then: find, read
vocabularies, load.
"""

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from model.checkpoints.build import load_engine
from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import (
    find_embedding_models,
    load_tokenizer,
    read_config,
)
from model.checkpoints.load import find_models, load_vocabularies
from model.errors import CheckpointError
from model.sequence import EngineLimits
from tests import checkpoint_folders as folders
from tests.hf_files import SOURCE_TEXT, TARGET_TEXT, pieces_model
from tests.marian_writer import Array
from tests.tiny_text import change_json

CPU = torch.device("cpu")
MARIAN_TENSOR = "encoder_l1_ffn_b1"
HUGGING_FACE_TENSOR = "model.encoder.layers.0.fc1.bias"
ENCODER_TENSOR = "encoder.layer.0.intermediate.dense.bias"


@dataclass(frozen=True)
class Kind:
    """A kind of checkpoint: `write` writes a whole folder, which the tests then damage.

    `exchange` replaces the file `vocabulary` by another vocabulary. `another` has the options of
    another architecture, and the error message for it.
    """

    write: Callable[..., None]
    weights: str
    tensor: str
    vocabulary: str
    exchange: Callable[[Path], None]
    another: tuple[dict[str, Any], str]
    is_encoder: bool = False


def other_pieces(name: str) -> Callable[[Path], None]:
    def exchange(folder: Path) -> None:
        text = (*SOURCE_TEXT, *TARGET_TEXT, "zwölf Boxkämpfer jagen Viktor quer")
        options = {"bos_id": -1, "eos_id": 0, "unk_id": 1, "pad_id": -1}
        is_marian = "vocab" in name
        (folder / name).write_bytes(pieces_model(text, 60, **(options if is_marian else {})))

    return exchange


def other_ids(name: str, change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def exchange(folder: Path) -> None:
        pieces = change([*yaml.safe_load((folder / name).read_text(encoding="utf-8"))])
        ids = {piece: number for number, piece in enumerate(pieces)}
        (folder / name).write_text(json.dumps(ids), encoding="utf-8")  # which is YAML too

    return exchange


def one_less(pieces: list[str]) -> list[str]:
    """One piece less than the weights are for."""
    return [*pieces[:10], *pieces[11:]]


def many_more(pieces: list[str]) -> list[str]:
    """More pieces than the weights are for: places left over are allowed."""
    return [*pieces, *(f"piece{i}" for i in range(9))]


def many_less(pieces: list[str]) -> list[str]:
    """More places left over than a real model has."""
    return pieces[:-9]


def fewer_rows(folder: Path) -> None:
    change_json(folder / "config.json", vocab_size=9)

    def change(tensors: dict[str, Array]) -> None:
        name = "embeddings.word_embeddings.weight"
        tensors[name] = tensors[name][:9].copy()

    folders.change_tensors(folder, change)


SERVED = (
    r"supported: marian, m2m_100, mbart, t5, mt5"
    r"|mbart or t5 or mt5, and no .*; its config\.json has the model_type '.*'"
)
S2S = ({"type": "s2s"}, r"type is 's2s', supported: 'transformer'")
LED = ({"model_type": "led"}, SERVED)
LLAMA = ({"model_type": "llama"}, r"model_type is 'llama', supported: bert")
LANGUAGES = ["__de__", "__en__"]


def marian(write: Callable[..., None], weights: str, vocabulary: str, exchange: Any) -> Kind:
    return Kind(write, weights, MARIAN_TENSOR, vocabulary, exchange, S2S)


def hugging_face(write: Callable[..., None], vocabulary: str, exchange: Any) -> Kind:
    return Kind(write, "model.safetensors", HUGGING_FACE_TENSOR, vocabulary, exchange, LED)


def text_encoder(model_type: str) -> Kind:
    return Kind(
        folders.encoder(model_type),
        "model.safetensors",
        ENCODER_TENSOR,
        "tokenizer.json",
        fewer_rows,
        LLAMA,
        is_encoder=True,
    )


SPM = "vocab.ende.spm"
PIECES = "sentencepiece.bpe.model"
IDS = "vocab.json"
KINDS = {
    "bergamot": marian(folders.write_student, "model.ende.bin", SPM, other_pieces(SPM)),
    "bergamot, two vocabularies": marian(
        folders.write_split,
        "model.enja.bin",
        "srcvocab.enja.spm",
        other_pieces("srcvocab.enja.spm"),
    ),
    "marian npz": marian(folders.write_teacher, "model.npz", SPM, other_pieces(SPM)),
    "opus-mt": marian(
        folders.write_opus,
        folders.OPUS,
        "opus.spm32k-spm32k.vocab.yml",
        other_ids("opus.spm32k-spm32k.vocab.yml", one_less),
    ),
    "marianmt": hugging_face(folders.write_hugging_face, IDS, other_ids(IDS, one_less)),
    "m2m100": hugging_face(folders.multilingual("m2m", LANGUAGES), IDS, other_ids(IDS, many_more)),
    "small100": hugging_face(
        folders.multilingual("small", LANGUAGES), IDS, other_ids(IDS, many_less)
    ),
    "nllb-200": hugging_face(
        folders.multilingual("nllb", ["deu_Latn", "eng_Latn"]), PIECES, other_pieces(PIECES)
    ),
    "bert": text_encoder("bert"),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty, named after a pair; what a file has run would show beside it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "models" / "en-de"
    path.mkdir(parents=True)
    return path


def start(kind: Kind, folder: Path) -> None:
    if kind.is_encoder:
        (found,) = find_embedding_models(str(folder))
        load_tokenizer(found, read_config(found))
        load_embedding_model(found, CPU, "float32")
        return
    (files,) = find_models(str(folder))
    load_vocabularies(files)
    load_engine(files, CPU, "auto", EngineLimits(max_rows=2), True)


def refused(kind: Kind, folder: Path, *told: str) -> None:
    """The start ends in one error of one line, in which all of this is told."""
    reason = "".join(f"(?=.*(?:{each}))" for each in told)
    with pytest.raises(CheckpointError, match=reason) as error:
        start(kind, folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_weights_cut_short(kind: Kind, folder: Path, kept: float) -> None:
    kind.write(folder)
    path = folder / kind.weights
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])
    refused(kind, folder, kind.weights, "cut short|damaged|not a Marian|its items end at")


def test_a_missing_tensor(kind: Kind, folder: Path) -> None:
    def lose(tensors: dict[str, Array]) -> None:
        del tensors[kind.tensor]

    kind.write(folder, lose)
    refused(kind, folder, kind.weights, f"missing: {kind.tensor}$")


def test_a_tensor_too_many(kind: Kind, folder: Path) -> None:
    def add(tensors: dict[str, Array]) -> None:
        tensors["another"] = tensors[kind.tensor].copy()

    kind.write(folder, add)
    refused(kind, folder, kind.weights, "unexpected: another$")


def test_a_shape_that_differs(kind: Kind, folder: Path) -> None:
    def widen(tensors: dict[str, Array]) -> None:
        tensors[kind.tensor] = np.concatenate([tensors[kind.tensor]] * 2, axis=-1)

    kind.write(folder, widen)
    refused(kind, folder, kind.weights, rf"shapes differ: {kind.tensor} \((1, )?64,?\) for .*32")


class Running:
    """What makes a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def test_a_pickle_with_code_in_it(kind: Kind, folder: Path, tmp_path: Path) -> None:
    """In whatever file a pickle may stand, and in place of one that is none."""
    kind.write(folder)
    path = folder / kind.weights
    whole = path.read_bytes()
    path.write_bytes(pickle.dumps({kind.tensor: Running()}))
    refused(kind, folder, path.name, "cut short|damaged|not a Marian|has no")
    path.write_bytes(whole)
    reason = "damaged|not a Marian"
    if path.suffix == ".npz":
        items: dict[str, Any] = {kind.tensor: np.array([Running()], dtype=object)}
        np.savez(path, **items)
    elif path.suffix == ".safetensors":
        path.unlink()
        path = folder / "pytorch_model.bin"
        torch.save({kind.tensor: Running()}, path)
        reason = "holds more than tensors, and nothing of it was run"
    else:
        path.write_bytes(pickle.dumps(Running()))
    refused(kind, folder, path.name.replace(".", r"\."), reason)
    assert [each.name for each in tmp_path.iterdir()] == ["models"]


def test_code_beside_a_model_is_not_run(kind: Kind, folder: Path, tmp_path: Path) -> None:
    kind.write(folder)
    code = "from pathlib import Path\nPath('ran').touch()\n"
    for name in ("modeling.py", "tokenization_small100.py", "__init__.py", "conftest.py"):
        (folder / name).write_text(code, encoding="utf-8")
    start(kind, folder)
    assert [each.name for each in tmp_path.iterdir()] == ["models"]


def test_a_vocabulary_of_another_size(kind: Kind, folder: Path) -> None:
    kind.write(folder)
    kind.exchange(folder)
    refused(kind, folder, kind.vocabulary.replace(".", r"\."), r"\d+.* the weights are for \d+")


def test_a_vocabulary_cut_short(kind: Kind, folder: Path) -> None:
    kind.write(folder)
    path = folder / kind.vocabulary
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    refused(kind, folder, path.name.replace(".", r"\."), "is not|does not|has no")


def test_another_architecture(kind: Kind, folder: Path) -> None:
    changes, told = kind.another
    if "model_type" not in changes:
        kind.write(folder, **changes)
        refused(kind, folder, kind.weights, told)
        return
    kind.write(folder)
    change_json(folder / "config.json", **changes)
    refused(kind, folder, r"config\.json", told)


with_config = pytest.mark.parametrize(
    "name", [name for name, kind in KINDS.items() if "model_type" in kind.another[0]]
)


@with_config
@pytest.mark.parametrize("content", ["", "{", "[]", '{"model_type": {}}', "\ud800"])
def test_a_config_of_no_use(name: str, folder: Path, content: str) -> None:
    KINDS[name].write(folder)
    (folder / "config.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    refused(KINDS[name], folder, r"config\.json")


@with_config
def test_a_config_of_a_larger_model(name: str, folder: Path) -> None:
    """Refused before anything of that size is allocated."""
    KINDS[name].write(folder)
    size = "hidden_size" if KINDS[name].is_encoder else "d_model"
    change_json(folder / "config.json", **{size: 2**20})
    refused(KINDS[name], folder, "the files have only|shapes differ|1048576|missing")
