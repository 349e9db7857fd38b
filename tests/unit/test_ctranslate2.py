"""Models of CTranslate2's converters: the words that CTranslate2 itself and the original have."""

import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from ctranslate2.specs.common_spec import Activation

from model.checkpoints.build import load_model, new_engine
from model.checkpoints.families.ctranslate2_folder import CTranslate2File
from model.checkpoints.load import ModelFiles, Vocabularies, find_models, load_vocabularies
from model.config import NormPosition, Sinusoids
from model.errors import CheckpointError
from model.precision import Precision
from model.quantization.int8 import Int8Linear, quantize_matrix
from model.sequence import EngineLimits, Sequence
from tests.ctranslate2_folders import (
    LANGUAGES,
    convert_marian,
    convert_npz,
    multilingual,
    write_opennmt,
    write_original,
)
from tests.hf_files import SOURCE_TEXT
from tests.tiny import translate

CPU = torch.device("cpu")
TEXTS = [*SOURCE_TEXT, "here is the house", "the tree stands", "small"]
KINDS: dict[str, Callable[..., None]] = {
    "marian": convert_marian,
    "opus": convert_npz,
    "nllb": multilingual("nllb", LANGUAGES, 3, encoder_layers=4),
    "m2m": multilingual("m2m", ["__de__", "__en__"], 8),
    "opennmt": write_opennmt,
    "opennmt without biases, tied": partial(write_opennmt, attention_bias=False, is_tied=True),
    "no position table": partial(write_opennmt, has_table=False),
    "post-norm, gelu": partial(write_opennmt, pre_norm=False, activation=Activation.GELU),
}
QUANTIZATIONS = {"opennmt": (None, "int8", "int16", "int8_float16"), "opus": (None, "int8")}
CASES = [(kind, each) for kind in KINDS for each in QUANTIZATIONS.get(kind, ("int8",))]


def find(folder: Path) -> tuple[ModelFiles, Vocabularies]:
    (files,) = find_models(str(folder))
    vocabularies = load_vocabularies(files)
    if files.tokens is not None and not files.source:
        vocabularies = vocabularies.between(files.tokens, "en", "de")
    return files, vocabularies


def sources(vocabularies: Vocabularies) -> list[list[int]]:
    tokenizer = vocabularies.source
    return [[*tokenizer.encode(text), *tokenizer.source_end] for text in TEXTS]


def words(folder: Path, dtype: str = "float32") -> list[str]:
    files, vocabularies = find(folder)
    given = [
        Sequence(i, source, first_id=vocabularies.first_id)
        for i, source in enumerate(sources(vocabularies))
    ]
    results = translate(new_engine(load_model(files, CPU, dtype), EngineLimits()), given)
    return [vocabularies.target.decode(results[i][0].tokens) for i in range(len(given))]


def their_words(folder: Path, compute_type: str = "float32") -> list[str]:
    """The words of CTranslate2, which adds EOS itself if the folder says so."""
    _, vocabularies = find(folder)
    tokenizer, target = vocabularies.source, vocabularies.target
    translator = ctranslate2.Translator(str(folder), compute_type=compute_type, intra_threads=1)
    options = json.loads((folder / "config.json").read_text())
    tokens = target.pieces([*range(target.vocab_size)])
    found = []
    for ids in sources(vocabularies):
        pieces = tokenizer.pieces(ids[:-1] if options["add_source_eos"] else ids)
        (result,) = translator.translate_batch(
            [pieces],
            target_prefix=[target.pieces(target.prefix)] if target.prefix else None,
            beam_size=1,
            max_decoding_length=max(32 if target.prefix else 1, 3 * len(ids)),
            suppress_sequences=[[each] for each in ("<unk>", "<pad>", "<blank>") if each in tokens],
        )
        found.append(target.decode([target.id_of(piece) for piece in result.hypotheses[0]]))
    return found


@pytest.mark.parametrize(("kind", "quantization"), CASES)
def test_words_are_those_of_ctranslate2(
    kind: str, quantization: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "ct2-en-de"
    KINDS[kind](folder, quantization)
    found = words(folder)
    assert found == their_words(folder)
    assert len(set(found)) >= 4


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_words_are_those_of_the_original(tmp_path: Path, dtype: str) -> None:
    write_original(tmp_path / "original-en-de")
    convert_marian(tmp_path / "ct2-en-de", "int8" if dtype == "int8" else None)
    assert words(tmp_path / "ct2-en-de", dtype) == words(tmp_path / "original-en-de", dtype)


@pytest.mark.parametrize("dtype", ["auto", "int8"])
def test_int8_is_loaded_as_it_is(tmp_path: Path, dtype: str) -> None:
    convert_marian(tmp_path / "ct2-en-de", "int8")
    convert_marian(tmp_path / "float-en-de")
    files, _ = find(tmp_path / "ct2-en-de")
    model = load_model(files, CPU, dtype)
    assert model.precision is Precision.INT8
    file, floats = (
        CTranslate2File(tmp_path / name / "model.bin") for name in ("ct2-en-de", "float-en-de")
    )
    name = "encoder/layer_1/self_attention/linear_0/weight"
    stored = model.encoder.get_submodule("layers.1.mixer.value")
    assert isinstance(stored, Int8Linear)
    np.testing.assert_array_equal(stored.integers, file._values(name)[-64:])
    own = quantize_matrix(floats[name][-64:])
    np.testing.assert_array_equal(stored.integers, own.values)
    np.testing.assert_allclose(stored.scales, own.scales, rtol=1e-6)


@pytest.mark.parametrize("quantization", ["int16", "float16", "bfloat16", "int8_bfloat16"])
def test_every_type_of_numbers_is_read(tmp_path: Path, quantization: str) -> None:
    write_opennmt(tmp_path / "a")
    write_opennmt(tmp_path / "b", quantization)
    floats, file = (CTranslate2File(tmp_path / name / "model.bin") for name in "ab")
    for name in ("decoder/layer_0/attention/linear_1/weight", "decoder/layer_norm/gamma"):
        expected = floats[name]
        error = np.abs(file[name] - expected).max() / np.abs(expected).max()
        assert error < {"int16": 6e-4, "float16": 5e-4}.get(quantization, 4e-3)


def test_facts_are_read_from_the_weights(tmp_path: Path) -> None:
    write_opennmt(tmp_path / "opennmt-en-de")
    convert_npz(tmp_path / "opus-en-de")
    opennmt, opus = (
        (load_model(files, CPU, "float32").config, vocabularies.source.source_end)
        for files, vocabularies in map(find, (tmp_path / "opennmt-en-de", tmp_path / "opus-en-de"))
    )
    assert (opennmt[0].norm, opennmt[0].sinusoids) == (NormPosition.PRE, Sinusoids.OPENNMT)
    assert (opennmt[0].start_id, opennmt[1], opennmt[0].alignment_layer) == (2, [], None)
    assert (opus[0].start_id, opus[1], opus[0].alignment_layer) == (None, [0], 1)


def older(path: Path) -> None:
    """Rewrites a file of version 6 in version 3: widths instead of types, and flags as tensors."""
    file = CTranslate2File(path)
    flags = {"with_source_eos": np.int8(0), "with_target_bos": np.int8(1)}
    own = {name: each.name for name, each in file.entries.items()}
    tensors = {name: file._values(name).copy() for name in own if own[name] == name} | flags
    aliases = {alias: name for alias, name in own.items() if alias != name}

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    with path.open("wb") as output:
        output.write(struct.pack("<I", 3) + text("TransformerSpec") + struct.pack("<I", 5))
        output.write(struct.pack("<I", len(tensors)))
        for name, values in tensors.items():
            array = np.asarray(values)
            output.write(text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape))
            output.write(struct.pack("<BI", array.itemsize, array.size) + array.tobytes())
        output.write(struct.pack("<I", len(aliases)))
        output.writelines(text(alias) + text(name) for alias, name in aliases.items())
    (path.parent / "config.json").unlink()
    tokens = json.loads((path.parent / "shared_vocabulary.json").read_text())
    (path.parent / "shared_vocabulary.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    (path.parent / "shared_vocabulary.json").unlink()


def test_older_folders_have_the_same_words(tmp_path: Path) -> None:
    folder = tmp_path / "ct2-en-de"
    write_opennmt(folder)
    found = words(folder)
    older(folder / "model.bin")
    assert words(folder) == found


def change_options(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def cut(folder: Path) -> None:
    content = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(content[:-200])


def newer(folder: Path) -> None:
    content = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(struct.pack("<I", 7) + content[4:])


def renamed(old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes().replace(old, new)
        (folder / "model.bin").write_bytes(content)

    return change


def wrong_vocabulary(folder: Path) -> None:
    (folder / "shared_vocabulary.json").write_text("[1]")


def bpe(folder: Path) -> None:
    (folder / "sentencepiece.model").rename(folder / "bpe.model")


REFUSED: list[tuple[Callable[[Path], None], str]] = [
    (cut, "model.bin is cut short or damaged"),
    (newer, "binary version 7; CTranslate2's versions 2 to 6 are read"),
    (renamed(b"TransformerSpec", b"TransformDecode"), "specification is 'TransformDecode'"),
    (renamed(b"TransformerSpec", b"WhisperSpeccccc"), "'WhisperSpec.*', supported: 'Transformer"),
    (renamed(b"ffn/linear_1/weight", b"relative_positions_"), "it has relative positions"),
    (
        renamed(b"linear_2/weight", b"linear_3/weight"),
        "missing: .*attention/linear_2/weight",
    ),
    (change_options(add_source_bos=True), "add_source_bos is True, supported: False"),
    (change_options(decoder_start_token=None), "decoder_start_token is None, not a token"),
    (bpe, "its text is split by bpe.model, and only SentencePiece is supported"),
    (lambda folder: (folder / "sentencepiece.model").unlink(), "0 SentencePiece files"),
    (wrong_vocabulary, "is not a vocabulary"),
]


@pytest.mark.parametrize(("change", "reason"), REFUSED)
def test_refusal_says_why(tmp_path: Path, change: Callable[[Path], None], reason: str) -> None:
    folder = tmp_path / "ct2-en-de"
    write_opennmt(folder)
    change(folder)
    with pytest.raises(CheckpointError, match=reason):
        load_model(find(folder)[0], CPU, "float32")
