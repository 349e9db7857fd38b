"""The models of random weights that the benchmarks serve."""

import random
from pathlib import Path

import pytest
import torch

from benchmarks import contestants, http, options
from benchmarks.peers.protocol import sentences, vocabulary, word
from benchmarks.random_weights import CASES, EOS, write_folder
from benchmarks.report import Result, Sample
from model.checkpoints.build import load_engine
from model.checkpoints.load import find_models, load_vocabularies
from model.sequence import EngineLimits, Sequence

SHAPE = CASES["opus-mt"].tiny()


def test_words_are_distinct() -> None:
    assert [word(number) for number in (0, 25, 26, 700)] == ["a", "z", "ba", "bay"]
    assert len(set(vocabulary(20_000))) == 20_000


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


def test_servers_get_the_same_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestants, "peer_python", lambda _: "python")
    monkeypatch.setattr(http, "write_folder", lambda folder, shape: folder / "en-de")
    chosen = options.parse(["--source", __file__, "--reference", __file__])
    prepares = http.shape_contestants(chosen)
    assert list(prepares) == ["regard", "ctranslate2-naive", "ctranslate2-batched"]
    ours, *peers = (prepare(chosen) for prepare in prepares.values())
    assert ours.environment["REGARD_DTYPE"] == "int8"
    for peer in peers:
        assert '"vocab_size": 58101' in peer.command[-2].format(port=1)


def test_ratio_is_that_to_the_naive_server() -> None:
    result = Result("shapes-http")
    for name, rate in (("regard", 90.0), ("ctranslate2-naive", 30.0)):
        figures = {"requests_per_second": rate, "p50_ms": 5.0}
        result.samples.append(Sample(name, "opus-mt, 64", 1, figures))
    row = http.shapes_table(result, None).splitlines()[2]  # type: ignore[arg-type]
    assert "| **regard** | 90.0 (90.0\u201390.0) | 3.00 | 5.00 | \u2013 | \u2013 |" in row
