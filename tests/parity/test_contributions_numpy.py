"""ALTI and value zeroing against a float64 model that shares no code with ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.checkpoints.build import load_model
from model.checkpoints.load import ModelFiles
from model.inspection.query import AttentionKind, AttentionMaps, AttentionNorm, Reduction
from tests.attention_jobs import assert_maps_close, maps, random_pairs
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
CONTRIBUTIONS = [AttentionNorm.ALTI, AttentionNorm.VALUE_ZEROING]


class ContributingMarian(NumpyMarian):
    """The model, which notes the contributions (S) to each token under the prefix of a layer.

    Attributes:
        norm: Kind of contributions.
        shares: The contributions, for each token that attended.
        memory: Encoder output of the sentence.
    """

    def __init__(self, path: Path, norm: AttentionNorm) -> None:
        super().__init__(path)
        self.norm_of_map = norm
        self.shares: dict[str, list[Vector]] = {}
        self.memory: list[Vector] = []
        self.is_noting = True

    def encode(self, source: list[int]) -> list[Vector]:
        self.memory = super().encode(source)
        return self.memory

    def attention_layer(self, prefix: str, x: Vector, attended: list[Vector]) -> Vector:
        y = super().attention_layer(prefix, x, attended)
        if self.is_noting:
            self.is_noting = False
            parts = self.summands(prefix, x, attended)
            note = self.alti if self.norm_of_map is AttentionNorm.ALTI else self.zeroing
            self.shares.setdefault(prefix, []).append(note(prefix, x, attended, parts))
            self.is_noting = True
        return y

    def summands(self, prefix: str, x: Vector, attended: list[Vector]) -> Vector:
        """(S, D): what each attended token adds, before the bias b_O."""
        query = self.affine(prefix, "q", self.pre(f"{prefix}_Wo", x))
        size = self.width // self.heads
        added = np.zeros((len(attended), self.width))
        for head in range(self.heads):
            own = slice(head * size, (head + 1) * size)
            keys = [self.affine(prefix, "k", each)[own] for each in attended]
            scores = np.array([query[own] @ key for key in keys]) / np.sqrt(size)
            weights = np.exp(scores - scores.max())
            weights /= weights.sum()
            for place, each in enumerate(attended):
                value = self.affine(prefix, "v", each)[own]
                added[place] += weights[place] * value @ self.tensors[f"{prefix}_Wo"][own]
        return added

    def alti(self, prefix: str, x: Vector, attended: list[Vector], parts: Vector) -> Vector:
        """Ferrando et al. 2022, equations 6 to 9."""
        bias = self.tensors[f"{prefix}_bo"][0]
        whole = x + bias + parts.sum(axis=0)
        own = [place for place, each in enumerate(attended) if each is x]
        terms = [part + x if place in own else part for place, part in enumerate(parts)]
        if not own:
            terms.append(x)  # the stream of cross-attention
        if "n" in self.option("postprocess"):
            scale = self.tensors[f"{prefix}_Wo_ln_scale"][0] / np.sqrt(whole.var() + 1e-6)
            terms = [(term - term.mean()) * scale for term in terms]
            whole = self.norm(f"{prefix}_Wo", "", whole)
        total = np.abs(whole).sum()
        kept = np.array([max(0.0, total - np.abs(whole - term).sum()) for term in terms])
        shares: Vector = kept / max(kept.sum(), 1e-300)
        return shares[: len(attended)]

    def zeroing(self, prefix: str, x: Vector, attended: list[Vector], parts: Vector) -> Vector:
        """Mohebbi et al. 2023, section 3: the layer again, without one value."""
        output = self.tensors[f"{prefix}_bo"][0] + parts.sum(axis=0)
        whole = self.rest(prefix, x, output)
        found = []
        for part in parts:
            other = self.rest(prefix, x, output - part)
            found.append(1.0 - whole @ other / np.linalg.norm(whole) / np.linalg.norm(other))
        shares: Vector = np.array(found) / np.sum(found)
        return shares

    def rest(self, prefix: str, x: Vector, output: Vector) -> Vector:
        layer, kind = prefix.rsplit("_", 1)
        y = self.post(f"{prefix}_Wo", self.option("postprocess"), output, x)
        if layer.startswith("decoder") and kind == "self":
            y = self.attention_layer(f"{layer}_context", y, self.memory)
        return self.ffn_layer(f"{layer}_ffn", y)


def expected(plain: ContributingMarian, pair: Pair) -> AttentionMaps:
    """(layers, 1, T, S) of each kind."""
    source, target = pair
    plain.shares.clear()
    plain.logits(source, target)
    found: AttentionMaps = {}
    for kind, (side, name) in PREFIXES.items():
        columns = len(target) if kind is DECODER else len(source)
        layers = [
            [np.pad(row, (0, columns - len(row))) for row in plain.shares[prefix]]
            for layer in range(1, plain.options[f"{side[:3]}-depth"] + 1)
            if (prefix := f"{side}_l{layer}_{name}") in plain.shares
        ]
        if layers:
            found[kind] = np.array(layers, np.float32)[:, None]
    return found


def check(ours: Any, path: Path, norm: AttentionNorm, pairs: list[Pair]) -> None:
    plain = ContributingMarian(path, norm)
    for pair, found in zip(pairs, contributions(ours, pairs, norm), strict=True):
        assert_maps_close(found, expected(plain, pair), 1e-4)


def contributions(ours: Any, pairs: list[Pair], norm: AttentionNorm) -> list[AttentionMaps]:
    return maps(ours, pairs, reduce=Reduction.MEAN_HEADS, norm=norm)


@pytest.mark.parametrize("norm", CONTRIBUTIONS)
@pytest.mark.parametrize("name", list(MODELS))
def test_contributions_of_a_tiny_model(tmp_path: Path, name: str, norm: AttentionNorm) -> None:
    path = tiny_file(tmp_path, name)
    check(our_model(path), path, norm, random_pairs(4, longest=12)[1:])


@pytest.mark.checkpoint
@pytest.mark.parametrize("norm", CONTRIBUTIONS)
def test_contributions_of_a_built_in_model(
    built_in: dict[str, ModelFiles], norm: AttentionNorm
) -> None:
    ours = load_model(built_in[BUILT_IN], torch.device("cpu"), "float32")
    check(ours, built_in[BUILT_IN].weights, norm, built_in_pairs()[:1])
