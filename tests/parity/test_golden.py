"""The built-in models say what they said before, in whatever company a sentence is translated.

tests/golden/make.py made the file; ids are exact.
"""

import random

import pytest
import torch

from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles, load_vocabularies
from model.engine.engine import Engine
from model.precision import Precision
from model.sequence import EngineLimits, Sequence
from tests.golden import golden, sentences
from tests.golden.make import TEXTS
from tests.tiny import greedy_ids, torch_runner

pytestmark = pytest.mark.checkpoint


@pytest.fixture(scope="module")
def engine(built_in: dict[str, ModelFiles], name: str) -> Engine:
    limits = EngineLimits(max_rows=16)
    return load_engine(built_in[name], torch.device("cpu"), Precision.FLOAT32, limits, True)


def columns(name: str) -> tuple[list[list[int]], list[list[int]]]:
    found = sentences(name)
    return [each["source"] for each in found], [each["target"] for each in found]


def test_the_file_is_of_these_checkpoints_and_sentences(
    built_in: dict[str, ModelFiles], name: str
) -> None:
    assert golden(name)["revision"] == built_in[name].revision, "run tests/golden/make.py again"
    vocabularies = load_vocabularies(built_in[name])
    assert [s["text"] for s in sentences(name)] == TEXTS[name]
    for sentence in sentences(name):
        assert sentence["source"] == [*vocabularies.source.encode(sentence["text"]), 0]
        assert sentence["translation"] == vocabularies.target.decode(sentence["target"])


def test_each_sentence_alone(engine: Engine, name: str) -> None:
    for source, target in zip(*columns(name), strict=True):
        assert greedy_ids(engine, [source]) == [target]


def test_sentences_that_come_at_any_time(engine: Engine, name: str) -> None:
    """Each sentence comes twice, in any order, some steps after the one before it; now and then
    a stranger is admitted too and aborted later, so that rows move."""
    chance = random.Random(1)
    sources, targets = columns(name)
    waiting = [*range(len(sources))] * 2
    chance.shuffle(waiting)
    expected: dict[int, list[int]] = {}
    found: dict[int, list[int]] = {}
    stranger = -1
    while waiting or engine.num_rows:
        if waiting and engine.free_rows > 1 and chance.random() < 0.5:
            choice = waiting.pop()
            expected[len(expected)] = targets[choice]
            engine.admit([Sequence(len(expected) - 1, sources[choice])])
        if not engine.abort(stranger) and waiting and engine.free_rows and chance.random() < 0.3:
            stranger -= 1
            engine.admit([Sequence(stranger, chance.choice(sources))])
        for result in engine.step():
            if result.id >= 0:
                found[result.id] = result.hypotheses[0].tokens
    assert found == expected
    assert len(found) == 2 * len(sources)


def test_the_shortlist_restricts_and_hardly_changes_a_translation(
    engine: Engine, built_in: dict[str, ModelFiles], name: str
) -> None:
    """Every id is in its own sentence's list; without lists most sentences are the same."""
    sources, targets = columns(name)
    shortlist = torch_runner(engine).shortlist
    assert shortlist is not None
    for source, target in zip(sources, targets, strict=True):
        assert set(target) <= set(shortlist.ids(source).tolist())
    full = load_engine(
        built_in[name], torch.device("cpu"), Precision.FLOAT32, EngineLimits(), False
    )
    same = sum(a == b for a, b in zip(greedy_ids(full, sources), targets, strict=True))
    assert same >= 8
