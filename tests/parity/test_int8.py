"""The int8 model: against the same rule in plain numpy, and the same in any batch."""

import numpy as np
import pytest
import torch

from model.backends.native.library import LIBRARIES, Library
from model.backends.native.runner import NativeRunner
from model.backends.torch_runner import TorchRunner
from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles
from model.engine.engine import Engine
from model.precision import Precision
from model.sequence import EngineLimits, Sequence
from tests.golden import sentences
from tests.parity.numpy_marian import NumpyMarian, Vector
from tests.tiny import forced_log_probs, forced_pass, greedy_ids

pytestmark = pytest.mark.checkpoint

CPU = torch.device("cpu")


class Int8Marian(NumpyMarian):
    """The input of every product is rounded to 127 steps of its largest value."""

    def quantized(self, x: Vector) -> Vector:
        multiplier = 127 / np.abs(x).max()
        rounded: Vector = np.rint(x * multiplier) / multiplier
        return rounded

    def product(self, name: str, x: Vector) -> Vector:
        return super().product(name, self.quantized(x))

    def affine(self, prefix: str, letter: str, x: Vector) -> Vector:
        y = super().affine(prefix, letter, x)
        is_kept = prefix.endswith("_context") and letter in "kv"  # for the decoder, in halves
        return y.astype(np.float16).astype(np.float64) if is_kept else y

    def output(self, x: Vector) -> Vector:
        return super().output(self.quantized(x))


@pytest.fixture(scope="module")
def engine(built_in: dict[str, ModelFiles], name: str) -> Engine:
    return load_engine(built_in[name], CPU, Precision.INT8, EngineLimits(max_rows=16), True)


def test_logits_follow_the_rule(built_in: dict[str, ModelFiles], engine: Engine, name: str) -> None:
    """Float32 and float64 may round one input in many thousands to another integer, which moves
    all that comes after it by about 0.1; most sentences meet none."""
    plain = Int8Marian(built_in[name].weights)
    medians = []
    for sentence in sentences(name)[:4]:
        source, target = sentence["source"], sentence["target"]
        mask = torch.ones(1, len(source), dtype=torch.bool)
        with torch.inference_mode():
            logits = forced_pass(engine.model, torch.tensor([source]), mask, torch.tensor([target]))
        difference = np.abs(logits[0].numpy() - plain.logits(source, target))
        assert difference.max() < 4.0
        medians.append(float(np.median(difference)))
    assert sorted(medians)[1] < 1e-4


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_native_code_computes_the_same(engine: Engine, name: str, library: Library) -> None:
    """To the last bits of float32 where no input is rounded to another integer."""
    runner = NativeRunner(engine.model, engine.limits, None, library)
    plain = TorchRunner(engine.model, engine.limits)
    medians = []
    for sentence in sentences(name)[:4]:
        pair = sentence["source"], sentence["target"]
        found, wanted = forced_log_probs(runner, *pair), forced_log_probs(plain, *pair)
        difference = np.abs(np.delete(found, 1, axis=-1) - np.delete(wanted, 1, axis=-1))
        assert difference.max() < 4.0
        medians.append(float(np.median(difference)))
    assert sum(median < 1e-4 for median in medians) >= 2, medians


def test_a_sentence_is_the_same_alone_and_in_a_batch(engine: Engine, name: str) -> None:
    sources = [sentence["source"] for sentence in sentences(name)]
    alone = [greedy_ids(engine, [source])[0] for source in sources]
    engine.admit([Sequence(i, source) for i, source in enumerate(sources)])
    together: dict[int, list[int]] = {}
    while engine.num_rows:
        together |= {result.id: result.hypotheses[0].tokens for result in engine.step()}
    assert together == dict(enumerate(alone))


def test_most_translations_are_those_of_float32(engine: Engine, name: str) -> None:
    found = greedy_ids(engine, [sentence["source"] for sentence in sentences(name)])
    targets = [sentence["target"] for sentence in sentences(name)]
    assert sum(a == b for a, b in zip(found, targets, strict=True)) >= 8
