"""Bergamot models of two vocabularies (en-ja, en-ko, en-zh), from a folder to translations.

Their encoder and decoder have embeddings of their own, of different sizes; the output layer is the
decoder's.
"""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from model.backends.native.library import LIBRARIES
from model.backends.native.runner import NativeRunner
from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles, find_models, load_vocabularies
from model.sequence import EngineLimits
from tests.checkpoint_folders import write_split
from tests.hf_files import SENTENCE, SOURCE_TEXT
from tests.marian_writer import Array
from tests.parity.numpy_marian import NumpyMarian
from tests.tiny import greedy_ids, torch_runner

CPU = torch.device("cpu")
SEED = 5
LIMITS = EngineLimits(max_rows=4, max_source_tokens=64)
JAPANESE = ("家は小さいです", "小さな家がそこにあります", "大きな木がここに", "猫と犬は仲良し")
SOURCES = [SENTENCE, *SOURCE_TEXT, "a house", "the big house is a small house"]


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    """As Mozilla's training writes them: matrices and embeddings are int8."""

    def shrink(tensors: dict[str, Array]) -> None:
        for name in ("encoder_Wemb", "decoder_Wemb"):
            tensors[name] *= 0.2  # with larger tied embeddings, the model repeats its input

    sizes = {"dim_emb": 64, "transformer_dim_ffn": 128, "transformer_heads": 4}
    write_split(tmp_path, shrink, JAPANESE, SEED, **sizes)
    (found,) = find_models(str(tmp_path))
    return found


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
