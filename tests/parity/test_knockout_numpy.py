"""Knock-outs against a float64 model that shares no code with ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from model.checkpoints.build import load_model
from model.checkpoints.load import ModelFiles
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    EdgeKnockout,
    HeadKnockout,
    Knockout,
    ProbabilityQuery,
)
from tests.attention_jobs import kinds_of, random_pairs, results
from tests.parity.numpy_marian import NumpyMarian, Vector
from tests.parity.test_attention_numpy import (
    BUILT_IN,
    PREFIXES,
    Pair,
    built_in_pairs,
    tiny_file,
)
from tests.parity.test_ssru_float64 import MODELS, our_model

ENCODER, DECODER, CROSS = AttentionKind


class WithoutAttention(NumpyMarian):
    """The model in which some attention layers give only their bias b_O.

    Attributes:
        off: Prefixes of these layers.
    """

    def __init__(self, path: Path, off: set[str]) -> None:
        super().__init__(path)
        self.off = off

    def attention_layer(self, prefix: str, x: Vector, attended: list[Vector]) -> Vector:
        if prefix not in self.off:
            return super().attention_layer(prefix, x, attended)
        bias = self.tensors[f"{prefix}_bo"][0]
        return self.post(f"{prefix}_Wo", self.option("postprocess"), bias, x)


class WithoutSourceToken(NumpyMarian):
    """The model in which no token attends to one source token.

    Attributes:
        off: Position of the token.
    """

    def __init__(self, path: Path, off: int) -> None:
        super().__init__(path)
        self.off = off

    def attention_layer(self, prefix: str, x: Vector, attended: list[Vector]) -> Vector:
        if prefix.startswith("encoder") or prefix.endswith("context"):
            attended = [each for place, each in enumerate(attended) if place != self.off]
        return super().attention_layer(prefix, x, attended)


def change(model: Any, pair: Pair, knockout: Knockout) -> Any:
    query = ProbabilityQuery(top=1)
    jobs = [AttentionJob(*pair, (query,), each) for each in (Knockout(), knockout)]
    base, off = results(model, jobs)
    return off.log_probs - base.log_probs


def plain_change(one: NumpyMarian, other: NumpyMarian, pair: Pair, forbidden: Any) -> Any:
    found = []
    for plain in (one, other):
        logits = plain.logits(*pair)
        logits[:, list(forbidden)] = -np.inf
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        found.append(log_probs[np.arange(len(pair[1])), pair[1]])
    return found[1] - found[0]


def check(ours: Any, path: Path, pair: Pair) -> None:
    plain, config = NumpyMarian(path), ours.config
    heads = tuple(range(config.num_heads))
    sizes = {ENCODER: config.encoder_layers}
    for kind in kinds_of(config):
        side, name = PREFIXES[kind]
        every = tuple(range(sizes.get(kind, config.decoder_layers)))
        for layers in (every, every[:1], every[-1:]):
            off = Knockout(heads=(HeadKnockout(kind, layers, heads),))
            other = WithoutAttention(path, {f"{side}_l{layer + 1}_{name}" for layer in layers})
            expected = plain_change(plain, other, pair, config.forbidden_ids)
            assert_allclose(change(ours, pair, off), expected, rtol=0, atol=1e-4)
    token = WithoutSourceToken(path, 1)
    expected = plain_change(plain, token, pair, config.forbidden_ids)
    assert_allclose(change(ours, pair, Knockout(source=(1,))), expected, rtol=0, atol=1e-4)
    edges = tuple(
        EdgeKnockout(kind, query, 1, tuple(range(sizes.get(kind, config.decoder_layers))), heads)
        for kind, ids in ((ENCODER, pair[0]), (CROSS, pair[1]))
        for query in range(len(ids))
    )
    assert_allclose(change(ours, pair, Knockout(edges=edges)), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_tiny_model_loses_what_the_float64_model_loses(tmp_path: Path, name: str) -> None:
    path = tiny_file(tmp_path, name)
    check(our_model(path), path, random_pairs(4, longest=12)[2])


@pytest.mark.checkpoint
def test_the_built_in_model_loses_what_the_float64_model_loses(
    built_in: dict[str, ModelFiles],
) -> None:
    ours = load_model(built_in[BUILT_IN], torch.device("cpu"), "float32")
    check(ours, built_in[BUILT_IN].weights, built_in_pairs()[0])
