"""The int8 model: against Marian's rule in plain numpy, and the same in any batch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles
from model.device import Precision
from model.engine import Engine
from model.sequence import EngineLimits, Sequence
from tests.parity.numpy_marian import NumpyMarian, Vector
from tests.tiny import greedy_ids

pytestmark = pytest.mark.checkpoint

CPU = torch.device("cpu")
GOLDEN = Path(__file__).parents[1] / "golden" / "built_in.json"


class Int8Marian(NumpyMarian):
    """Inputs of every product are rounded to int8 by the multipliers that stand in the file."""

    def quantized(self, x: Vector, alpha: Vector) -> Vector:
        multiplier = float(alpha.ravel()[0])
        rounded: Vector = np.clip(np.rint(x * multiplier), -127, 127) / multiplier
        return rounded

    def product(self, name: str, x: Vector) -> Vector:
        return super().product(name, self.quantized(x, self.tensors[f"{name}_QuantMultA"]))

    def output(self, x: Vector) -> Vector:
        return super().output(self.quantized(x, self.tensors["none_QuantMultA"]))


def sentences(name: str) -> list[dict[str, Any]]:
    models = json.loads(GOLDEN.read_text(encoding="utf-8"))["models"]
    found: list[dict[str, Any]] = models[name]["sentences"]
    return found


@pytest.fixture(scope="module", params=["en-pt", "pt-en"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(built_in: dict[str, ModelFiles], name: str) -> Engine:
    return load_engine(built_in[name], CPU, Precision.INT8, EngineLimits(max_rows=16), True)


def test_logits_follow_marians_rule(
    built_in: dict[str, ModelFiles], engine: Engine, name: str
) -> None:
    """Float32 and float64 may round one input in many thousands to another integer, which moves
    the logits of its row by about 0.1; the median is of those that have met none."""
    plain = Int8Marian(built_in[name].weights)
    for sentence in sentences(name)[:3]:
        source, target = sentence["source"], sentence["target"]
        mask = torch.ones(1, len(source), dtype=torch.bool)
        with torch.inference_mode():
            logits, _ = engine.model(torch.tensor([source]), mask, torch.tensor([target]))
        difference = np.abs(logits[0].numpy() - plain.logits(source, target))
        assert np.median(difference) < 1e-4
        assert difference.max() < 1.0


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
