"""The benchmarks of vectors: arithmetic, tables and our side of them; no peer is needed."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import embedding, ours, random_encoders
from benchmarks import options as command_line
from benchmarks.contestants import EMBEDDERS
from benchmarks.embedding import ALL, BATCHES, FLOAT32, ONE, PEER, best_peer, contestants
from benchmarks.options import Options
from benchmarks.peers import vectors
from benchmarks.processes import Engine
from benchmarks.report import OURS, Result, Sample
from model.backends.native.library import is_supported
from model.checkpoints.families.sentence_transformers import (
    find_embedding_models,
    load_tokenizer,
    read_config,
)
from tests.tiny_text import write_model


def options_for(folder: Path, *words: str) -> Options:
    source = folder / "lines.txt"
    source.write_text("hello world\na b c .\n", "utf-8")
    files = ["--source", str(source), "--reference", str(source)]
    return command_line.parse([*files, "--embedding-model", str(folder / "tiny"), *words])


def rates(**found: float) -> Result:
    samples = [
        Sample(name, ALL, turn, {"sentences_per_second": rate})
        for name, rate in found.items()
        for turn in (1, 2)
    ]
    return Result("embed", samples)


def test_the_best_peer_is_the_fastest_in_bfloat16() -> None:
    names = {
        OURS: 900.0,
        f"{PEER}-bfloat16-32": 300.0,
        f"{PEER}-bfloat16-64": 400.0,
        f"{PEER}-float32-32": 500.0,
    }
    assert best_peer(rates(**names), ALL) == f"{PEER}-bfloat16-64"
    assert (
        best_peer(rates(**names, **{"openvino-bfloat16-32": 450.0}), ALL) == "openvino-bfloat16-32"
    )
    assert best_peer(rates(regard=1.0), ALL) == ""


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        (3.1e-7, "largest difference 3.1e-07 (must be below 1e-05)."),
        (1e-5, "largest difference 1.0e-05 (must be below 1e-05: IT IS NOT)."),
    ],
)
def test_vectors_in_float32_have_to_be_the_peers(
    tmp_path: Path, difference: float, said: str
) -> None:
    figures = {"largest_difference": difference}
    samples = [Sample(f"{PEER}-{kind}-32", ALL, 0, figures) for kind in ("bfloat16", "float32")]
    last = embedding.table(Result("embed", samples), options_for(tmp_path)).splitlines()[-1]
    assert last == f"{FLOAT32} and {PEER}-float32-32: {said}"


def test_peers_are_chosen_by_the_beginning_of_their_names(tmp_path: Path) -> None:
    none = contestants(options_for(tmp_path, "--peers", "none"), ALL, tmp_path)
    assert list(none) == [OURS, FLOAT32]
    some = contestants(options_for(tmp_path, "--peers", f"{PEER}-bfloat16"), ALL, tmp_path)
    assert list(some)[2:] == [f"{PEER}-bfloat16-{size}" for size in BATCHES]
    single = contestants(options_for(tmp_path), ONE, tmp_path)
    expected = [f"{peer}-{kind}" for peer, kinds in EMBEDDERS.items() for kind in kinds]
    assert list(single)[2:] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", random_encoders.SHAPES)
def test_random_encoders_are_served_by_native_code(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, options = random_encoders.SHAPES[name]
    small = options | {"num_hidden_layers": 1, "intermediate_size": 64}
    monkeypatch.setitem(random_encoders.SHAPES, name, (kind, small))
    random_encoders.write(name, tmp_path)
    (files,) = find_embedding_models(str(tmp_path))
    assert is_supported(read_config(files).encoder)
    assert load_tokenizer(files, read_config(files)).tokenize("hello world").tokenized.ids


@pytest.mark.slow
def test_our_engine_embeds_in_processes(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    options = options_for(tmp_path, "--workers", "2")
    source = tmp_path / "lines.txt"
    engine = Engine(contestants(options, ALL, source)[FLOAT32](options))
    engine.run()
    found = vectors.unpack(engine.outputs())
    engine.stop()
    run = ours.load_embedder(find_embedding_models(str(folder))[0], "float32")
    expected = vectors.unpack(run(["hello world", "a b c ."]))
    np.testing.assert_allclose(found, expected, atol=1e-6)
