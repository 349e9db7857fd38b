"""The models of random weights that the benchmarks serve."""

import random
from pathlib import Path

import torch

from benchmarks.peers.protocol import sentences
from benchmarks.random_weights import CASES, EOS, write_folder
from model.checkpoints.build import load_engine
from model.checkpoints.load import find_models, load_vocabularies
from model.sequence import EngineLimits, Sequence

SHAPE = CASES["opus-mt"].tiny()


def test_translation_has_the_length_of_its_source(tmp_path: Path) -> None:
    assert write_folder(tmp_path, SHAPE) == tmp_path / "en-de"
    (files,) = find_models(str(tmp_path))
    vocabularies = load_vocabularies(files)
    texts = sentences(20, SHAPE.tokens, SHAPE.vocab_size)
    sources = [[*vocabularies.source.encode(text), EOS] for text in texts]
    assert all(len(source) == SHAPE.tokens for source in sources)
    assert all(source.count(EOS) == 1 and 1 not in source for source in sources)
    random.Random(0).shuffle(sources)
    engine = load_engine(
        files, torch.device("cpu"), "int8", EngineLimits(max_rows=32), use_shortlist=False
    )
    engine.admit([Sequence(number, source) for number, source in enumerate(sources)])
    finished = []
    while engine.num_rows:
        finished += engine.step()
    assert [len(each.hypotheses[0].tokens) for each in finished] == [SHAPE.tokens] * 20
    found = vocabularies.target.decode(finished[0].hypotheses[0].tokens)
    assert len(found.split()) == SHAPE.tokens


def test_complete_model_is_kept(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, SHAPE)
    (folder / "model.npz").write_bytes(b"kept")
    write_folder(tmp_path, SHAPE)
    assert (folder / "model.npz").read_bytes() == b"kept"
    (folder / "config.yml").unlink()  # the last file that is written
    write_folder(tmp_path, SHAPE)
    assert (folder / "model.npz").read_bytes() != b"kept"
