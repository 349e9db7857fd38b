"""Writes the smallest folder of every kind of checkpoint, and damages its tensors."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file, save_file

from model.tokenization.tokenizer import Tokenizer
from tests.hf_files import (
    SOURCE_TEXT,
    TARGET_TEXT,
    pieces_model,
    write_marian,
    write_multilingual,
    write_pieces,
)
from tests.marian_writer import (
    Array,
    Item,
    float32_item,
    int8_item,
    tiny_options,
    tiny_tensors,
    write_bin,
)
from tests.tiny_text import write_model

Change = Callable[[dict[str, Array]], None]

MATRIX = re.compile(r"_W.?$|Wemb")
TEACHER = {"transformer_decoder_autoreg": "self-attention"}
SPLIT = {"tied_embeddings": True, "tied_embeddings_all": False}
OPUS = "opus.spm32k-spm32k.transformer-align.model1.npz.best-perplexity.npz"


def unchanged(_tensors: dict[str, Array]) -> None:
    """Leaves the tensors undamaged."""


def marian_pieces(sentences: Sequence[str]) -> bytes:
    """Trains a vocabulary whose special tokens have Marian's ids."""
    return pieces_model(tuple(sentences), bos_id=-1, eos_id=0, unk_id=1, pad_id=-1)


def write_student(folder: Path, change: Change = unchanged, **changes: Any) -> None:
    path = folder / "vocab.ende.spm"
    path.write_bytes(marian_pieces(SOURCE_TEXT))
    options = tiny_options(dim_vocabs=[Tokenizer(path).vocab_size] * 2, **changes)
    write_int8(folder / "model.ende.bin", options, change)


def write_split(
    folder: Path,
    change: Change = unchanged,
    target_text: Sequence[str] = (*SOURCE_TEXT, *TARGET_TEXT),
    seed: int = 0,
    **changes: Any,
) -> None:
    """Writes a Bergamot model with two vocabularies of different sizes."""
    paths = folder / "srcvocab.enja.spm", folder / "trgvocab.enja.spm"
    for path, sentences in zip(paths, (SOURCE_TEXT, target_text), strict=True):
        path.write_bytes(marian_pieces(sentences))
    vocabs = [Tokenizer(path).vocab_size for path in paths]
    options = tiny_options(dim_vocabs=vocabs, **SPLIT, **changes)
    write_int8(folder / "model.enja.bin", options, change, seed)


def write_int8(path: Path, options: dict[str, Any], change: Change, seed: int = 0) -> None:
    tensors = tiny_tensors(options, seed)
    change(tensors)
    write_bin(path, options, tensors, mixed_item)


def mixed_item(name: str, values: Array) -> Item:
    return (int8_item if MATRIX.search(name) else float32_item)(name, values)


def write_teacher(folder: Path, change: Change = unchanged, **changes: Any) -> None:
    path = folder / "vocab.ende.spm"
    path.write_bytes(marian_pieces(SOURCE_TEXT))
    sizes = [Tokenizer(path).vocab_size] * 2
    write_npz(folder / "model.npz", tiny_options(dim_vocabs=sizes, **TEACHER, **changes), change)


def write_opus(
    folder: Path, change: Change = unchanged, tokens: Sequence[str] = (), **changes: Any
) -> None:
    """Writes a folder like that of an unpacked archive of OPUS-MT."""
    ids = write_pieces(folder, [*tokens])
    (folder / "vocab.json").unlink()
    del ids["<pad>"]
    text = yaml.safe_dump(ids, allow_unicode=True)
    (folder / "opus.spm32k-spm32k.vocab.yml").write_text(text, encoding="utf-8")
    write_npz(folder / OPUS, tiny_options(dim_vocabs=[len(ids)] * 2, **TEACHER, **changes), change)


def write_npz(path: Path, options: dict[str, Any], change: Change) -> None:
    tensors = tiny_tensors(options)
    change(tensors)
    text = np.frombuffer(yaml.safe_dump(options).encode() + b"\0", np.int8)
    items: dict[str, Any] = {**tensors, "special:model.yml": text}
    np.savez(path, **items)


def write_hugging_face(folder: Path, change: Change = unchanged, **changes: Any) -> None:
    write_marian(folder, **changes)
    change_tensors(folder, change)


def multilingual(kind: str, languages: list[str]) -> Callable[..., None]:
    def write(folder: Path, change: Change = unchanged, **changes: Any) -> None:
        folder.rmdir()
        write_multilingual(folder, kind, languages, **changes)
        change_tensors(folder, change)

    return write


def encoder(model_type: str) -> Callable[..., None]:
    def write(folder: Path, change: Change = unchanged, **changes: Any) -> None:
        write_model(folder, **{"model_type": model_type, **changes})
        change_tensors(folder, change)

    return write


def change_tensors(folder: Path, change: Change) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
