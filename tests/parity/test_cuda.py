"""The built-in models on a GPU: `python -m pytest -m gpu`, on a machine that has one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles
from model.device import Precision
from model.sequence import DecodingOptions, EngineLimits, Sequence
from tests.tiny import greedy_ids, translate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.checkpoint,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

GOLDEN = Path(__file__).parents[1] / "golden" / "built_in.json"


def sentences(name: str) -> list[dict[str, Any]]:
    models = json.loads(GOLDEN.read_text(encoding="utf-8"))["models"]
    found: list[dict[str, Any]] = models[name]["sentences"]
    return found


@pytest.mark.parametrize("name", ["en-pt", "pt-en"])
@pytest.mark.parametrize(("precision", "at_least"), [("float32", 12), ("bfloat16", 8)])
def test_translations_are_those_of_the_cpu(
    built_in: dict[str, ModelFiles], name: str, precision: str, at_least: int
) -> None:
    """With the shortlist, as the golden file was made; bfloat16 rounds some words to others."""
    cuda = torch.device("cuda")
    engine = load_engine(built_in[name], cuda, Precision(precision), EngineLimits(), True)
    found = greedy_ids(engine, [sentence["source"] for sentence in sentences(name)])
    targets = [sentence["target"] for sentence in sentences(name)]
    assert sum(a == b for a, b in zip(found, targets, strict=True)) >= at_least


def test_a_beam_and_scores_work_over_the_whole_vocabulary(built_in: dict[str, ModelFiles]) -> None:
    cuda = torch.device("cuda")
    engine = load_engine(built_in["en-pt"], cuda, Precision.FLOAT32, EngineLimits(), False)
    source = sentences("en-pt")[0]["source"]
    options = DecodingOptions(beam_size=4, num_hypotheses=4, return_scores=True)
    (hypotheses,) = translate(engine, [Sequence(0, source, options)]).values()
    scores = [hypothesis.score for hypothesis in hypotheses]
    assert len(scores) == 4
    assert scores == sorted(scores, key=lambda score: -(score or 0.0))
