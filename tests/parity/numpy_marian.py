"""Marian's Transformer in float64 and plain numpy, one position at a time.

Written from the description of the format and of the forward pass; it shares no code with the
package, reads the file by itself, and knows no batches, masks, caches or heads as a dimension.

Source: marian-dev, src/models/transformer.h and src/common/binary.cpp; Kim et al. 2019, "From
Research to Production and Back", section 3.1 (SSRU).
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

Vector = NDArray[np.float64]

TYPES: dict[int, Any] = {0x404: np.dtype("<f4"), 0x402: np.dtype("<f2"), 0x4101: np.dtype("i1")}


def read_bin(path: Path) -> tuple[dict[str, Vector], dict[str, Any]]:
    """Tensors by name, matrices as (in, out), embeddings as (V, D); and the options."""
    data = path.read_bytes()
    count = int.from_bytes(data[8:16], "little")
    heads = [struct.unpack_from("<4Q", data, 16 + 32 * i) for i in range(count)]
    place = 16 + 32 * count
    names = data[place : place + sum(head[0] for head in heads)].split(b"\0")[:-1]
    place += sum(head[0] for head in heads)
    shapes = []
    for _, _, rank, _ in heads:
        shapes.append(struct.unpack_from(f"<{rank}i", data, place))
        place += 4 * rank
    place += 8 + int.from_bytes(data[place : place + 8], "little")
    tensors, options = {}, {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
        blob = data[place : place + size]
        place += size
        if name == b"special:model.yml":
            options = yaml.safe_load(blob.rstrip(b"\0"))
        else:
            tensors[name.decode()] = _values(blob, kind, shape, b"Wemb" in name)
    return tensors, options


def _values(blob: bytes, kind: int, shape: tuple[int, ...], is_embedding: bool) -> Vector:
    count = int(np.prod(shape))
    numbers: Vector = np.frombuffer(blob, TYPES[kind], count).astype(np.float64)
    if kind != 0x4101:
        return numbers.reshape(shape)
    numbers /= struct.unpack_from("<f", blob, count)[0]
    return numbers.reshape(shape) if is_embedding else numbers.reshape(shape[::-1]).T


class State:
    """What a decoder layer remembers: its SSRU's cell, or all that it has read."""

    def __init__(self, width: int) -> None:
        self.cell = np.zeros(width)
        self.inputs: list[Vector] = []


class NumpyMarian:
    """The model in a file, by the names and options that stand in it.

    Under the prefix of each attention, `seen` has weights (H, S) for every token that attended,
    and weights times the norms of what they let through (Kobayashi et al. 2020, section 3).
    """

    def __init__(self, path: Path) -> None:
        self.tensors, self.options = read_bin(path)
        self.width = int(self.options["dim-emb"])
        self.heads = int(self.options["transformer-heads"])
        self.seen: dict[str, list[tuple[Vector, Vector]]] = {}

    def encode(self, source: list[int]) -> list[Vector]:
        """The memory, one vector a token."""
        table = self.table("encoder")
        xs = [self.embed(table[token], place) for place, token in enumerate(source)]
        for layer in range(1, self.options["enc-depth"] + 1):
            prefix = f"encoder_l{layer}"
            xs = [self.attention_layer(f"{prefix}_self", x, xs) for x in xs]
            xs = [self.ffn_layer(f"{prefix}_ffn", x) for x in xs]
        return [self.post("encoder_top", self.option("postprocess-top"), x, x) for x in xs]

    def logits(self, source: list[int], target: list[int]) -> Vector:
        """(T, V): what predicts each token of the target from those before it."""
        memory, states = self.encode(source), self.fresh_states()
        rows = []
        for place in range(len(target)):
            previous = target[place - 1] if place else None
            rows.append(self.step(previous, place, states, memory))
        return np.stack(rows)

    def greedy(self, source: list[int], limit: int, eos: int, unk: int) -> list[int]:
        """The best token each time, never the unknown one, until EOS or the limit."""
        memory, states = self.encode(source), self.fresh_states()
        target: list[int] = []
        while len(target) < limit and eos not in target:
            previous = target[-1] if target else None
            logits = self.step(previous, len(target), states, memory)
            logits[unk] = -np.inf
            target.append(int(logits.argmax()))
        return target

    def fresh_states(self) -> list[State]:
        return [State(self.width) for _ in range(self.options["dec-depth"])]

    def step(
        self, previous: int | None, place: int, states: list[State], memory: list[Vector]
    ) -> Vector:
        """Logits (V) after one more token; None is the start, a vector of zeros."""
        vector = np.zeros(self.width) if previous is None else self.table("decoder")[previous]
        x = self.embed(vector, place)
        for layer, state in enumerate(states, 1):
            prefix = f"decoder_l{layer}"
            if self.options["transformer-decoder-autoreg"] == "rnn":
                x = self.ssru_layer(f"{prefix}_rnn", x, state)
            else:
                state.inputs.append(x)
                x = self.attention_layer(f"{prefix}_self", x, state.inputs)
            x = self.attention_layer(f"{prefix}_context", x, memory)
            x = self.ffn_layer(f"{prefix}_ffn", x)
        x = self.post("decoder_top", self.option("postprocess-top"), x, x)
        logits: Vector = self.output(x) + self.tensors["decoder_ff_logit_out_b"][0]
        return logits

    def output(self, x: Vector) -> Vector:
        """The output layer less its bias (V)."""
        products: Vector = self.tensors.get("decoder_ff_logit_out_Wt", self.table("decoder")) @ x
        return products

    def option(self, name: str) -> str:
        return str(self.options[f"transformer-{name}"])

    def table(self, side: str) -> Vector:
        shared = self.tensors.get("Wemb")
        return self.tensors[f"{side}_Wemb"] if shared is None else shared

    def embed(self, vector: Vector, place: int) -> Vector:
        half = self.width // 2
        angles = np.array([place * 10000.0 ** (-k / (half - 1)) for k in range(half)])
        sinusoids = np.concatenate([np.sin(angles), np.cos(angles)])
        embedded: Vector = self.width**0.5 * vector + sinusoids
        return embedded

    def attention_layer(self, prefix: str, x: Vector, attended: list[Vector]) -> Vector:
        """Only what asks is normed before; what is attended to is taken as it is."""
        query = self.affine(prefix, "q", self.pre(f"{prefix}_Wo", x))
        keys = [self.affine(prefix, "k", other) for other in attended]
        values = [self.affine(prefix, "v", other) for other in attended]
        size = self.width // self.heads
        parts = []
        rows: list[Vector] = []
        norms: list[Vector] = []
        for head in range(self.heads):
            own = slice(head * size, (head + 1) * size)
            scores = np.array([query[own] @ key[own] for key in keys]) / np.sqrt(size)
            weights = np.exp(scores - scores.max())
            weights /= weights.sum()
            parts.append(sum(w * value[own] for w, value in zip(weights, values, strict=True)))
            moved = [value[own] @ self.tensors[f"{prefix}_Wo"][own] for value in values]
            rows.append(weights)
            norms.append(weights * np.linalg.norm(moved, axis=-1))
        self.seen.setdefault(prefix, []).append((np.stack(rows), np.stack(norms)))
        y = self.affine(prefix, "o", np.concatenate(parts))
        return self.post(f"{prefix}_Wo", self.option("postprocess"), y, x)

    def ssru_layer(self, prefix: str, x: Vector, state: State) -> Vector:
        inner = self.pre(prefix, x)
        gate = self.product(f"{prefix}_Wf", inner) + self.tensors[f"{prefix}_bf"][0]
        forget = 1.0 / (1.0 + np.exp(-gate))
        update = self.product(f"{prefix}_W", inner)
        state.cell = forget * state.cell + (1.0 - forget) * update
        y = np.maximum(state.cell, 0.0)
        return self.post(f"{prefix}_ffn", self.option("postprocess"), y, x)

    def ffn_layer(self, prefix: str, x: Vector) -> Vector:
        hidden = self.affine(prefix, "1", self.pre(f"{prefix}_ffn", x))
        is_relu = self.option("ffn-activation") == "relu"
        hidden = np.maximum(hidden, 0.0) if is_relu else hidden / (1.0 + np.exp(-hidden))
        y = self.affine(prefix, "2", hidden)
        return self.post(f"{prefix}_ffn", self.option("postprocess"), y, x)

    def affine(self, prefix: str, letter: str, x: Vector) -> Vector:
        bias: Vector = self.tensors[f"{prefix}_b{letter}"][0]
        return self.product(f"{prefix}_W{letter}", x) + bias

    def product(self, name: str, x: Vector) -> Vector:
        """x times a matrix (in, out)."""
        y: Vector = x @ self.tensors[name]
        return y

    def pre(self, prefix: str, x: Vector) -> Vector:
        return self.norm(prefix, "_pre", x) if "n" in self.option("preprocess") else x

    def post(self, prefix: str, operations: str, y: Vector, x: Vector) -> Vector:
        """`d` is nothing, `a` adds what went in, `n` norms, in the order in which they stand."""
        for operation in operations:
            if operation == "a":
                y = y + x
            elif operation == "n":
                y = self.norm(prefix, "", y)
        return y

    def norm(self, prefix: str, suffix: str, x: Vector) -> Vector:
        scale = self.tensors[f"{prefix}_ln_scale{suffix}"][0]
        bias = self.tensors[f"{prefix}_ln_bias{suffix}"][0]
        normed: Vector = (x - x.mean()) / np.sqrt(x.var() + 1e-6) * scale + bias
        return normed
