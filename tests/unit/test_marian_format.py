import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.checkpoints.build import load_engine, load_model
from model.checkpoints.families.marian import MarianFile, MarianNpz, read_checkpoint
from model.checkpoints.languages import LanguageTokens
from model.checkpoints.load import (
    Format,
    ModelFiles,
    find_models,
    load_vocabularies,
    read_folder,
)
from model.checkpoints.weights import HUGE_PAGE, LINE, copy_of, load_weights
from model.errors import CheckpointError, CheckpointFormatError, UnsupportedModelError
from model.sequence import EngineLimits
from tests import checkpoint_folders as folders
from tests.hf_files import SENTENCE, write_marian
from tests.marian_writer import (
    PRE_NORM,
    Item,
    container,
    float16_item,
    float32_item,
    int8_item,
    options_item,
    tiny_options,
    tiny_tensors,
    write_bin,
)
from tests.tiny import greedy_ids

MATRIX = np.ones((3, 5), np.float32)
OPTIONS = options_item({"type": "transformer", "dim-emb": 3})
HUGE = [2**63, 2**64 - 1, 2**62, 2**32, 2**31, 2**40]

Open = Callable[[bytes], MarianFile]


@pytest.fixture
def open_file(tmp_path: Path) -> Open:
    path = tmp_path / "model.bin"

    def open_file(data: bytes) -> MarianFile:
        path.write_bytes(data)
        return MarianFile(path)

    return open_file


def read_all(open_file: Open, data: bytes) -> None:
    load_weights(read_checkpoint(open_file(data), 3.0, 0, 1))


def tiny_file() -> bytes:
    """A whole checkpoint with all three kinds of tensors, 3 kB of header and 40 of tensors."""
    options = tiny_options()
    items = []
    for name, values in tiny_tensors(options).items():
        kind = float32_item
        if "_W" in name and "_ln_" not in name or name == "Wemb":
            kind = int8_item if "_ffn_" in name or name == "Wemb" else float16_item
        items.append(kind(name, values))
    return container([*items, options_item(options)])


def test_a_file_cut_anywhere_is_refused(open_file: Open) -> None:
    whole = tiny_file()
    for length in (*range(0, 4000, 50), *range(4000, len(whole), 5000)):  # the header is first
        with pytest.raises((CheckpointFormatError, UnsupportedModelError)):
            read_all(open_file, whole[:length])


@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("version 1", container([OPTIONS], version=2)),
        ("version 1", b"PK\3\4" + bytes(100)),
        ("cut short", b""),
        ("cut short: it announces 2 items", struct.pack("<QQ", 1, 2) + bytes(50)),
        ("damaged", struct.pack("<QQ", 1, 1) + struct.pack("<4Q", 2**63, 0x404, 2, 8) + bytes(50)),
        ("its items end at", container([OPTIONS]) + b"\0"),
        ("has no special:model.yml", container([float32_item("l_W1", MATRIX)])),
        ("special:model.yml: ", container([options_item("a: [1, 2")])),
        ("special:model.yml: month must", container([options_item("when: 2001-99-99")])),
        ("special:model.yml: 'maybe'", container([options_item("ulr: !!bool maybe")])),
        ("special:model.yml: .*groupdict", container([options_item("a: !!timestamp b")])),
        ("special:model.yml: .*recursion", container([options_item("[" * 5000)])),
        ("special:model.yml is not a mapping", container([options_item("- a\n- b")])),
        ("special:model.yml is not a mapping", container([options_item("")])),
        ("two items of the same name", container([float32_item("l_W1", MATRIX)] * 2 + [OPTIONS])),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_a_damaged_file_is_refused(open_file: Open, message: str, data: bytes) -> None:
    with pytest.raises(CheckpointFormatError, match=rf"model\.bin.*{message}"):
        read_all(open_file, data)


@pytest.mark.parametrize("kind", [0x404, 0x402, 0x4101])
@pytest.mark.parametrize("shape", [(100, 5), (-3, 5), (-3, -5), (2**31 - 1,) * 4, (2**16,) * 4])
def test_a_shape_that_its_bytes_do_not_fill_is_refused(
    open_file: Open, kind: int, shape: tuple[int, ...]
) -> None:
    with pytest.raises(CheckpointFormatError, match="l_W1 of shape"):
        open_file(container([Item("l_W1", kind, shape, bytes(60)), OPTIONS]))["l_W1"]


@pytest.mark.parametrize("multiplier", [0.0, -1.0, float("nan")])
def test_an_int8_multiplier_that_is_no_scale_is_refused(open_file: Open, multiplier: float) -> None:
    data = bytes(15) + struct.pack("<f", multiplier)
    with pytest.raises(CheckpointFormatError, match="l_W1 .*multiplier"):
        open_file(container([Item("l_W1", 0x4101, (3, 5), data), OPTIONS]))["l_W1"]


def test_every_unknown_type_is_reported_at_once(open_file: Open) -> None:
    items = [Item("a", 0x802, (1,), bytes(4)), Item("b", 0x1801, (1,), bytes(4)), OPTIONS]
    with pytest.raises(UnsupportedModelError) as caught:
        open_file(container(items))
    assert caught.value.reasons == ["a has type 0x802", "b has type 0x1801"]


@pytest.mark.parametrize("value", HUGE)
def test_absurd_numbers_in_the_header_are_refused(open_file: Open, value: int) -> None:
    """Each of the first 40 numbers in turn: counts, lengths of names, ranks, sizes."""
    whole = bytearray(tiny_file())
    for place in range(40):
        if place >= 2 and (place - 2) % 4 == 1:
            continue  # a type: refused by its own test
        damaged = whole.copy()
        struct.pack_into("<Q", damaged, 8 * place, value)
        with pytest.raises(CheckpointFormatError):
            read_all(open_file, bytes(damaged))


MAPS = Path("/proc/self/maps")


@pytest.mark.parametrize(("rows", "alignment"), [(0, 1), (3, LINE), (HUGE_PAGE // 500, HUGE_PAGE)])
def test_copies_are_aligned_and_the_same(rows: int, alignment: int) -> None:
    array = np.random.default_rng(rows).integers(-99, 99, (500, rows), np.int16).T
    copy = copy_of(array)
    assert np.array_equal(copy, array)
    assert copy.flags.c_contiguous
    assert copy.ctypes.data % alignment == 0
    assert not np.shares_memory(copy, array)


@pytest.mark.skipif(not MAPS.exists(), reason="needs /proc of Linux")
def test_large_copies_lie_in_memory_that_may_have_huge_pages() -> None:
    """Python's anonymous mappings are shared by default, which asks another setting for them."""
    copy = copy_of(np.ones(HUGE_PAGE, np.int8))
    for line in MAPS.read_text("utf-8").splitlines():
        place, kind, *_ = line.split()
        first, end = (int(number, 16) for number in place.split("-"))
        if first <= copy.ctypes.data < end:
            assert kind == "rw-p"
            return
    raise AssertionError("it is nowhere")


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
        read = read_checkpoint(file, 3.0, eos_id=0, unk_id=1)
        models.append((read.config, load_weights(read, is_quantized)))
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
    assert files.format is Format.MARIAN_MT
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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flipped_byte, "cut short or damaged"),
        (other_version, "cut short or damaged"),
        (one_array, "one array, not an archive"),
        (no_array, r"notes\.txt, which is not an array"),
        (endless, "cut short or damaged"),
    ],
)
def test_damaged_file_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    path = write_npz(tmp_path / "model.npz", tiny_options())
    damage(path)
    with pytest.raises(CheckpointFormatError, match=rf"^model\.npz .*{message}"):
        MarianNpz(path)


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
