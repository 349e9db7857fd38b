"""Marian's .npz against its .bin: the same tensors have to become the same model."""

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.checkpoints.build import load_engine, load_model
from model.checkpoints.families.marian import load_weights, read_config
from model.checkpoints.formats.marian_bin import MarianFile, MarianNpz
from model.checkpoints.languages import LanguageTokens
from model.checkpoints.load import ModelFiles, find_models, load_vocabularies, read_folder
from model.errors import CheckpointError, CheckpointFormatError, UnsupportedModelError
from model.sequence import EngineLimits
from tests import checkpoint_folders as folders
from tests.hf_files import SENTENCE, write_marian
from tests.marian_writer import PRE_NORM, tiny_options, write_bin
from tests.tiny import greedy_ids

CPU = torch.device("cpu")
VOCABULARY = "opus.spm32k-spm32k.vocab.yml"


def write_npz(path: Path, options: dict[str, Any], **more: Any) -> Path:
    folders.write_npz(path, options, lambda tensors: tensors.update(more))
    return path


@pytest.mark.parametrize("changes", [{}, folders.TEACHER, {**folders.TEACHER, **PRE_NORM}], ids=str)
@pytest.mark.parametrize("is_quantized", [False, True])
def test_npz_is_the_model_that_a_bin_is(
    tmp_path: Path, changes: dict[str, Any], is_quantized: bool
) -> None:
    options = tiny_options(**changes)
    models = []
    for file in (
        MarianFile(write_bin(tmp_path / "model.bin", options)),
        MarianNpz(write_npz(tmp_path / "model.npz", options)),
    ):
        config = read_config(file, 3.0, eos_id=0, unk_id=1)
        models.append((config, load_weights(file, config, is_quantized)))
    (one, first), (other, second) = models
    assert one == other
    found, expected = second.state_dict(), first.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_folder_of_opus_mt_becomes_a_model(tmp_path: Path) -> None:
    (tmp_path / "en-fr").mkdir()
    folders.write_opus(tmp_path / "en-fr", tokens=(">>fra<<", ">>por<<"))
    (files,) = find_models(str(tmp_path))
    assert (files.name, files.weights.name) == ("en-fr", folders.OPUS)
    assert files.tokens == LanguageTokens({"en": ""}, {"fr": ">>fra<<"})
    vocabularies = load_vocabularies(files)
    source = vocabularies.source.tokenize(SENTENCE)
    assert (source.pieces[0], source.pieces[-1]) == (">>fra<<", "</s>")
    engine = load_engine(files, CPU, "float32", EngineLimits(max_rows=2), True)
    (target,) = greedy_ids(engine, [source.ids])
    assert vocabularies.target.decode(target)


def test_stray_arrays_beside_a_complete_model_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "en-fr"
    folder.mkdir()
    write_marian(folder)
    np.savez(folder / "eval.npz", scores=np.ones(2))
    (files,) = find_models(str(tmp_path))
    assert not files.is_marian
    assert files.weights.suffix != ".npz"


def test_pieces_that_look_like_other_things_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "en-de"
    folder.mkdir()
    folders.write_opus(folder)
    path = folder / VOCABULARY
    size = len(path.read_text(encoding="utf-8").splitlines())
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{key}: {size + i}\n" for i, key in enumerate(("no", "1", "2.5", "null")))
    tokenizer = load_vocabularies(read_folder(folder)).target
    assert tokenizer.pieces(list(range(size, size + 4))) == ["no", "1", "2.5", "null"]


def test_npz_beside_one_vocabulary_is_laid_out_as_students_are(
    tmp_path: Path, built_in: ModelFiles
) -> None:
    folder = tmp_path / "en-pt"
    folder.mkdir()
    write_npz(folder / "model.npz", tiny_options(dim_vocabs=[32000, 32000], **folders.TEACHER))
    (folder / "vocab.enpt.spm").write_bytes(built_in.source_vocab.read_bytes())
    (files,) = find_models(str(tmp_path))
    assert files.name == "en-pt"
    assert load_model(files, CPU, "float32").config.source_vocab_size == 32000


def test_arrays_of_others_are_no_models(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", a=np.ones(2))
    with pytest.raises(CheckpointError, match=r"no \*\.npz in a folder with \*\.spm"):
        find_models(str(tmp_path))


def broken_zip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def flipped_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def other_version(path: Path) -> None:
    """The archive asks for a version of the format that does not exist."""
    content = path.read_bytes()
    place = content.index(b"PK\x01\x02") + 6
    path.write_bytes(content[:place] + b"\x80" + content[place + 1 :])


def one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.ones(3))


def no_array(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "x")


def endless(path: Path) -> None:
    """The header of an array promises more memory than there is."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (10**15,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Wemb.npy", header.getvalue())


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def pickled(path: Path) -> None:
    np.savez(path, Wemb=np.array([Trap(path.parent / "left")], dtype=object))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (broken_zip, "cut short or damaged"),
        (flipped_byte, "cut short or damaged"),
        (other_version, "cut short or damaged"),
        (one_array, "one array, not an archive"),
        (no_array, r"notes\.txt, which is not an array"),
        (endless, "cut short or damaged"),
        (pickled, "cannot be read: Object arrays cannot be loaded"),
        (lambda path: path.write_bytes(b""), "cut short or damaged"),
        (lambda path: path.write_bytes(pickle.dumps([1])), "cut short or damaged"),
    ],
)
def test_damaged_file_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    path = write_npz(tmp_path / "model.npz", tiny_options())
    damage(path)
    with pytest.raises(CheckpointFormatError, match=rf"^model\.npz .*{message}"):
        MarianNpz(path)
    assert not (tmp_path / "left").exists()


def test_tensor_of_another_type_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "model.npz", tiny_options(), Wemb=np.ones((64, 16)))
    with pytest.raises(UnsupportedModelError, match=r"^model\.npz .* Wemb has type float64"):
        MarianNpz(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "source.spm").unlink(), r"0 files vocab\*\.spm"),
        (lambda f: (f / "target.spm").unlink(), r"0 files target\.spm"),
        (lambda f: (f / "b.vocab.yml").write_text("a: 0"), r"2 files \*vocab\.yml"),
        (lambda f: (f / VOCABULARY).write_text("- a"), "not a vocabulary"),
        (lambda f: (f / VOCABULARY).write_text("a: b"), "not a vocabulary"),
        (lambda f: (f / VOCABULARY).write_text("a: [0"), "not a vocabulary"),
        (lambda f: (f / VOCABULARY).write_text("a: 0"), "no </s>, <unk>"),
    ],
)
def test_folder_of_opus_mt_with_a_fault_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "en-de"
    folder.mkdir()
    folders.write_opus(folder)
    damage(folder)
    with pytest.raises(CheckpointFormatError, match=message):
        find_models(str(tmp_path))


@pytest.mark.parametrize("vocabulary", ["vocab.ende.spm", "vocab.spm"])
def test_folder_of_a_training_is_read(tmp_path: Path, vocabulary: str) -> None:
    """Marian writes the state of its optimizer beside the model: two files were refused."""
    folder = tmp_path / "en-de"
    folder.mkdir()
    folders.write_teacher(folder)
    (folder / "vocab.ende.spm").rename(folder / vocabulary)
    np.savez(folder / "model.npz.optimizer.npz", adam_mt=np.zeros(3))
    (folder / "model.npz.progress.yml").write_text("epochs: 1", encoding="utf-8")
    (files,) = find_models(str(tmp_path))
    assert (files.name, files.weights.name) == ("en-de", "model.npz")
    load_model(files, torch.device("cpu"), "float32")


def test_archive_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez_compressed(path, values=np.zeros(1_000_000, np.float32))
    with pytest.raises(CheckpointFormatError, match=r"unpacks to 4\d{6} bytes, more than 20 times"):
        MarianNpz(path)
