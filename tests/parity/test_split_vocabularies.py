"""Bergamot models of two vocabularies (en-ja, en-ko, en-zh), from a folder to translations.

Their encoder and decoder have embeddings of their own, of different sizes; the output layer is the
decoder's.
"""

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.backends.native.library import LIBRARIES
from model.backends.native.runner import NativeRunner
from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles, find_models, load_vocabularies
from model.errors import CheckpointError, CheckpointFormatError
from model.sequence import EngineLimits
from model.tokenization.tokenizer import Tokenizer
from tests.hf_files import SENTENCE, SOURCE_TEXT, pieces_model
from tests.marian_writer import (
    container,
    float32_item,
    int8_item,
    options_item,
    tiny_options,
    tiny_tensors,
)
from tests.parity.numpy_marian import NumpyMarian
from tests.tiny import greedy_ids, torch_runner

CPU = torch.device("cpu")
SEED = 5
LIMITS = EngineLimits(max_rows=4, max_source_tokens=64)
MATRIX = re.compile(r"_W.?$|Wemb")
JAPANESE = ("家は小さいです", "小さな家がそこにあります", "大きな木がここに", "猫と犬は仲良し")
SOURCES = [SENTENCE, *SOURCE_TEXT, "a house", "the big house is a small house"]


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    return write(tmp_path)


def write(folder: Path, **changes: Any) -> ModelFiles:
    """As Mozilla's training writes them: matrices and embeddings are int8."""
    paths = folder / "srcvocab.enja.spm", folder / "trgvocab.enja.spm"
    for path, sentences in zip(paths, (tuple(SOURCE_TEXT), JAPANESE), strict=True):
        path.write_bytes(marian_pieces(sentences))
    vocabs = [Tokenizer(path).vocab_size for path in paths]
    sizes = {"dim_emb": 64, "transformer_dim_ffn": 128, "transformer_heads": 4}
    tied = {"tied_embeddings": True, "tied_embeddings_all": False}
    options = tiny_options(**{"dim_vocabs": vocabs, **sizes, **tied, **changes})
    tensors = tiny_tensors(options, SEED)
    for name in ("encoder_Wemb", "decoder_Wemb"):
        tensors[name] *= 0.2  # larger ones, tied, predict what was put in
    items = [
        (int8_item if MATRIX.search(name) else float32_item)(name, values)
        for name, values in tensors.items()
    ]
    (folder / "model.enja.bin").write_bytes(container([*items, options_item(options)]))
    (found,) = find_models(str(folder))
    return found


def marian_pieces(sentences: tuple[str, ...]) -> bytes:
    """A vocabulary with Marian's ids of signs."""
    return pieces_model(sentences, bos_id=-1, eos_id=0, unk_id=1, pad_id=-1)


def encoded(files: ModelFiles) -> list[list[int]]:
    tokenizer = load_vocabularies(files).source
    return [[*tokenizer.encode(text), tokenizer.eos_id] for text in SOURCES]


def test_targets_are_those_of_the_formulas(files: ModelFiles) -> None:
    engine = load_engine(files, CPU, "float32", LIMITS, True)
    assert not engine.config.shared_embeddings
    assert engine.config.source_vocab_size != engine.config.target_vocab_size
    formulas, sources = NumpyMarian(files.weights), encoded(files)
    targets = greedy_ids(engine, sources)
    for source, target in zip(sources, targets, strict=True):
        limit = engine.config.max_target_tokens(len(source))
        assert target == formulas.greedy(source, limit, eos=0, unk=1)
    assert len(set(map(tuple, targets))) >= 5
    text = load_vocabularies(files).target.decode(targets[0])
    assert set(text.replace(" ", "")) <= set("".join(JAPANESE))


@pytest.mark.skipif(not LIBRARIES, reason="nothing was compiled for this processor")
def test_native_code_serves_them(files: ModelFiles) -> None:
    native = load_engine(files, CPU, "auto", LIMITS, True)
    assert isinstance(native.runner, NativeRunner)
    plain, sources = load_engine(files, CPU, "float32", LIMITS, True), encoded(files)
    found, exact = greedy_ids(native, sources), greedy_ids(plain, sources)
    assert sum(one == other for one, other in zip(found, exact, strict=True)) >= 5


def test_shortlist_is_of_targets_and_no_source_is_added_to_it(files: ModelFiles) -> None:
    """Ids 0 to 9 for all, 10 + n % 9 for source id n: those of the source mean something else."""
    size = load_vocabularies(files).source.vocab_size
    lists = [10 + source % 9 for source in range(size)]
    head = struct.pack("<6Q", 0xF11A48D5013417F5, 0, 10, 1, size + 1, size)
    body = np.arange(size + 1, dtype="<u8").tobytes() + np.array(lists, dtype="<u4").tobytes()
    (files.weights.parent / "lex.50.50.enja.s2t.bin").write_bytes(head + body)
    (listed,) = find_models(str(files.weights.parent))
    engine = load_engine(listed, CPU, "float32", LIMITS, True)
    shortlist = torch_runner(engine).shortlist
    assert shortlist is not None
    for source, target in zip(encoded(files), greedy_ids(engine, encoded(files)), strict=True):
        allowed = {*range(10), *(10 + each % 9 for each in source)}
        assert set(shortlist.ids(source).tolist()) == allowed
        assert set(target) <= allowed


def test_vocabularies_that_are_exchanged_are_refused(files: ModelFiles) -> None:
    folder = files.weights.parent
    (folder / "srcvocab.enja.spm").rename(folder / "x")
    (folder / "trgvocab.enja.spm").rename(folder / "srcvocab.enja.spm")
    (folder / "x").rename(folder / "trgvocab.enja.spm")
    with pytest.raises(CheckpointError, match=r"have (\d+) and (\d+) ids; .* for \2 and \1"):
        load_engine(find_models(str(folder))[0], CPU, "float32", LIMITS, True)


def test_a_vocabulary_without_its_other_is_refused(files: ModelFiles) -> None:
    (files.weights.parent / "trgvocab.enja.spm").unlink()
    with pytest.raises(CheckpointFormatError, match=r"0 files trgvocab\.\*\.spm"):
        find_models(str(files.weights.parent))
