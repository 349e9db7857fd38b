"""A translator of a few words whose attention is computed, not made up.

Queries and keys hold what a word means and where it stands, so that a word of a translation looks
at its counterpart in some heads and at its neighbours in others. Everything follows from hashes and
sines: the same text has the same numbers everywhere.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HEADS = 8
HEAD_DIM = 32
HALF = HEAD_DIM // 2
SHAPES = {
    "en-pt": {"encoder": 6, "cross": 2},
    "pt-en": {"encoder": 6, "decoder": 2, "cross": 2},
}
"""Layers of each kind; only one of the models has self-attention in its decoder."""

WORDS = {
    "the": "os", "kids": "miúdos", "were": "estavam", "scared": "assustados", "of": "dos",
    "lions": "leões", "so": "portanto", "they": "eles", "left": "saíram", "right": "logo",
    "away": "embora", "pool": "piscina", "beats": "vence", "badminton": "badminton", "hi": "olá",
    "how": "como", "are": "está", "you": "você", "cat": "gato", "sat": "sentou", "mat": "tapete",
    "on": "no", "a": "um", "it": "ele", "slept": "dormiu",
}  # fmt: skip
LEXICON = {"en": WORDS, "pt": {pt: en for en, pt in WORDS.items()}}
END = "</s>"
PIECE_CHARS = 6


@dataclass
class Tokens:
    """One side of a sentence pair, as the API labels it.

    Attributes:
        text: What was cut up.
        tokens: Pieces as a vocabulary spells them, the end included.
        offsets: Spans of code points.
        words: For each word, the span of its tokens; the end is a word of its own.
        concepts: For each token, what it means in both languages.
    """

    text: str
    tokens: list[str] = field(default_factory=list)
    offsets: list[list[int]] = field(default_factory=list)
    words: list[list[int]] = field(default_factory=list)
    concepts: list[str] = field(default_factory=list)

    @property
    def special(self) -> list[bool]:
        return [token == END for token in self.tokens]

    @property
    def input_tokens(self) -> list[str]:
        return ["", *self.tokens[:-1]]


def sentences(text: str) -> list[str]:
    return [found.strip() for found in re.findall(r"[^.!?]*[.!?]+|[^.!?]+$", text) if found.strip()]


def tokenize(text: str, language: str) -> Tokens:
    found = Tokens(text)
    for match in re.finditer(r"\w+|[^\w\s]", text):
        word, start = match.group(), match.start()
        first = len(found.tokens)
        concept = (
            word.lower() if language == "en" else LEXICON["pt"].get(word.lower(), word.lower())
        )
        for cut in range(0, len(word), PIECE_CHARS):
            piece = word[cut : cut + PIECE_CHARS]
            found.tokens.append("▁" + piece if cut == 0 and piece[0].isalnum() else piece)
            found.offsets.append([start + cut, start + cut + len(piece)])
            found.concepts.append(concept)
        found.words.append([first, len(found.tokens)])
    found.words.append([len(found.tokens), len(found.tokens) + 1])
    found.tokens.append(END)
    found.offsets.append([len(text), len(text)])
    found.concepts.append(END)
    return found


def translate(text: str, source: str) -> str:
    def translated(match: re.Match[str]) -> str:
        word = match.group()
        other = LEXICON[source].get(word.lower(), word)
        return other.capitalize() if word[0].isupper() else other

    return re.sub(r"\w+", translated, text)


def numbers(name: str, count: int) -> Array:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(count)


def position(place: float) -> Array:
    rates = np.arange(HALF // 2) / 4 + 0.25
    return np.concatenate([np.sin(rates * place), np.cos(rates * place)])


@dataclass(frozen=True)
class Head:
    """How one head looks: how sharply at meaning, how sharply at a place, and which."""

    kind: str
    layer: int
    index: int

    def queries(self, concepts: list[str]) -> Array:  # (T, head_dim)
        draw = numbers(f"{self.kind} {self.layer} {self.index}", 3)
        sharpness = 2.2 if self.index == 0 else abs(draw[0])
        nearness = 0.3 if self.index == 0 else 3 * abs(draw[1])
        shift = round(2 * draw[2]) / 2
        rows = [
            np.concatenate([sharpness * numbers(name, HALF), nearness * position(place + shift)])
            for place, name in enumerate(concepts)
        ]
        return np.array(rows)

    def keys(self, concepts: list[str]) -> Array:  # (S, head_dim)
        rows = [
            np.concatenate([numbers(name, HALF), position(place)])
            for place, name in enumerate(concepts)
        ]
        return np.array(rows)

    def values(self, concepts: list[str]) -> Array:  # (S, head_dim)
        name = f"{self.layer} {self.index}"
        return np.array([numbers(f"{name} {concept}", HEAD_DIM) for concept in concepts])


def softmax(scores: Array) -> Array:
    exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(exponents / exponents.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, with the attention between and within them."""

    source: Tokens
    target: Tokens

    def sides(self, kind: str) -> tuple[list[str], list[str]]:
        inputs = ["", *self.target.concepts[:-1]]
        return {
            "encoder": (self.source.concepts, self.source.concepts),
            "cross": (self.target.concepts, self.source.concepts),
            "decoder": (inputs, inputs),
        }[kind]

    def scores(self, kind: str, layer: int, head: int) -> Array:  # (rows, columns)
        rows, columns = self.sides(kind)
        of = Head(kind, layer, head)
        return np.asarray(of.queries(rows) @ of.keys(columns).T)

    def weights(self, kind: str, layer: int, head: int) -> Array:  # (rows, columns)
        scores = self.scores(kind, layer, head) / np.sqrt(HEAD_DIM)
        if kind == "decoder":
            scores = np.where(np.tri(*scores.shape), scores, -np.inf)
        return softmax(scores)

    def value_norms(self, kind: str, layer: int, head: int) -> Array:
        values = Head(kind, layer, head).values(self.sides(kind)[1])
        return np.asarray(self.weights(kind, layer, head) * np.linalg.norm(values, axis=-1))

    def rollout(self, kind: str, layers: int) -> Array:
        size = len(self.sides(kind)[0])
        product = np.eye(size)
        for layer in range(layers):
            mean = np.mean([self.weights(kind, layer, head) for head in range(HEADS)], axis=0)
            product = (0.5 * mean + 0.5 * np.eye(size)) @ product
        return product

    def alignment(self, layers: int) -> dict[str, Any]:
        weights = by_word(self.weights("cross", layers - 1, 0), self.target, self.source)
        best = weights[:-1, :-1].argmax(axis=-1) if weights.shape[1] > 1 else []
        pairs = [[int(s), t, float(weights[t, s])] for t, s in enumerate(best)]
        return {
            "source_words": self.source.words[:-1],
            "target_words": self.target.words[:-1],
            "pairs": pairs,
            "pharaoh": " ".join(f"{s}-{t}" for s, t, _ in pairs),
        }


def by_word(weights: Array, rows: Tokens, columns: Tokens) -> Array:
    summed = np.stack([weights[:, a:b].sum(axis=1) for a, b in columns.words], axis=1)
    return np.stack([summed[a:b].mean(axis=0) for a, b in rows.words])
