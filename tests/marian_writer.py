"""Writes Marian `.bin` files: the container, its three kinds of tensors, and tiny checkpoints.

Source: marian-dev, src/common/binary.cpp and src/tensors/cpu/expression_graph_packable.h.
Nothing here is shared with what reads them.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

Array = NDArray[np.float32]
Shapes = list[tuple[str, tuple[int, ...]]]

ALIGNMENT = 256


@dataclass(frozen=True)
class Item:
    """One entry of the container."""

    name: str
    type: int
    shape: tuple[int, ...]
    data: bytes


def float32_item(name: str, values: Array) -> Item:
    return Item(name, 0x404, values.shape, values.astype("<f4").tobytes())


def float16_item(name: str, values: Array) -> Item:
    return Item(name, 0x402, values.shape, values.astype("<f2").tobytes())


def int8_item(name: str, values: Array) -> Item:
    """Quantises as Marian does: by 127 / max|W|, in transposed order except for embeddings."""
    multiplier = np.float32(127.0 / np.abs(values).max())
    stored = values if "Wemb" in name else values.T
    integers = np.clip(np.rint(stored * multiplier), -127, 127).astype(np.int8)
    return Item(name, 0x4101, values.shape, integers.tobytes() + struct.pack("<f", multiplier))


def options_item(options: dict[str, Any] | str) -> Item:
    text = options if isinstance(options, str) else yaml.safe_dump(options)
    data = text.encode() + b"\0"
    return Item("special:model.yml", 0x101, (len(data),), data)


def container(items: list[Item], version: int = 1) -> bytes:
    """Writes the file. Tensors are padded to 256 bytes; the options at the end are not."""
    blobs = [
        item.data if item.name.startswith("special:") else _padded(item.data) for item in items
    ]
    names = [item.name.encode() + b"\0" for item in items]
    head = struct.pack("<QQ", version, len(items))
    for item, name, blob in zip(items, names, blobs, strict=True):
        head += struct.pack("<4Q", len(name), item.type, len(item.shape), len(blob))
    head += b"".join(names)
    head += b"".join(struct.pack(f"<{len(item.shape)}i", *item.shape) for item in items)
    padding = -(len(head) + 8) % ALIGNMENT
    return head + struct.pack("<Q", padding) + bytes(padding) + b"".join(blobs)


def write_bin(
    path: Path,
    options: dict[str, Any],
    tensors: dict[str, Array] | None = None,
    kind: Callable[[str, Array], Item] | None = None,
) -> Path:
    """Writes a file of a model: by default the tensors of `tiny_tensors`, in float32."""
    found = tiny_tensors(options) if tensors is None else tensors
    items = [(kind or float32_item)(name, values) for name, values in found.items()]
    path.write_bytes(container([*items, options_item(options)]))
    return path


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def tiny_options(**changes: Any) -> dict[str, Any]:
    """Returns the options of a Firefox student with the sizes of `tiny_config`.

    Underscores in the keywords become hyphens.
    """
    options: dict[str, Any] = {
        "type": "transformer",
        "dim-emb": 16,
        "dim-vocabs": [64, 64],
        "enc-depth": 2,
        "dec-depth": 2,
        "dec-cell": "ssru",
        "input-types": [],
        "layer-normalization": False,
        "lemma-dim-emb": 0,
        "output-omit-bias": False,
        "right-left": False,
        "tied-embeddings": False,
        "tied-embeddings-all": True,
        "tied-embeddings-src": False,
        "transformer-decoder-autoreg": "rnn",
        "transformer-dim-ffn": 32,
        "transformer-ffn-activation": "relu",
        "transformer-ffn-depth": 2,
        "transformer-heads": 2,
        "transformer-no-projection": False,
        "transformer-pool": False,
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-preprocess": "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "ulr": False,
        "version": "v1.9.56",
    }
    return options | {name.replace("_", "-"): value for name, value in changes.items()}


PRE_NORM = {
    "transformer_preprocess": "n",
    "transformer_postprocess": "da",
    "transformer_postprocess_top": "n",
}


def tiny_tensors(options: dict[str, Any], seed: int = 0) -> dict[str, Array]:
    """Returns every tensor of such a model by Marian's name; matrices are (in, out)."""
    shapes = _Shapes(options)
    generator = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes.all():
        center = 1.0 if "_ln_scale" in name else 0.0
        spread = 1.0 if "Wemb" in name or name.endswith("_Wt") else 0.3
        tensors[name] = (center + spread * generator.normal(size=shape)).astype(np.float32)
    return tensors


class _Shapes:
    """Names and shapes of the parameters in Marian's `transformer.h`."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.d = options["dim-emb"]
        self.is_pre = "n" in options["transformer-preprocess"]

    def all(self) -> Shapes:
        shapes = self.embeddings()
        for i in range(1, self.options["enc-depth"] + 1):
            shapes += self.attention(f"encoder_l{i}_self") + self.ffn(f"encoder_l{i}_ffn")
        for i in range(1, self.options["dec-depth"] + 1):
            shapes += self.first(f"decoder_l{i}") + self.attention(f"decoder_l{i}_context")
            shapes += self.ffn(f"decoder_l{i}_ffn")
        if "n" in self.options["transformer-postprocess-top"]:
            shapes += self.norm("encoder_top", "") + self.norm("decoder_top", "")
        return shapes

    def embeddings(self) -> Shapes:
        o, (source, target) = self.options, self.options["dim-vocabs"]
        shapes: Shapes = [("decoder_ff_logit_out_b", (1, target))]
        if o["tied-embeddings-all"] or o["tied-embeddings-src"]:
            shapes.append(("Wemb", (source, self.d)))
        else:
            shapes += [("encoder_Wemb", (source, self.d)), ("decoder_Wemb", (target, self.d))]
        if not (o["tied-embeddings-all"] or o["tied-embeddings"]):
            shapes.append(("decoder_ff_logit_out_Wt", (target, self.d)))
        return shapes

    def attention(self, prefix: str) -> Shapes:
        shapes: Shapes = []
        for letter in "qkvo":
            shapes += [
                (f"{prefix}_W{letter}", (self.d, self.d)),
                (f"{prefix}_b{letter}", (1, self.d)),
            ]
        return shapes + self.norms(f"{prefix}_Wo", f"{prefix}_Wo")

    def ffn(self, prefix: str) -> Shapes:
        f = self.options["transformer-dim-ffn"]
        shapes: Shapes = [(f"{prefix}_W1", (self.d, f)), (f"{prefix}_b1", (1, f))]
        shapes += [(f"{prefix}_W2", (f, self.d)), (f"{prefix}_b2", (1, self.d))]
        return shapes + self.norms(f"{prefix}_ffn", f"{prefix}_ffn")

    def first(self, prefix: str) -> Shapes:
        if self.options["transformer-decoder-autoreg"] == "self-attention":
            return self.attention(f"{prefix}_self")
        shapes: Shapes = [(f"{prefix}_rnn_{name}", (self.d, self.d)) for name in ("W", "Wf")]
        shapes.append((f"{prefix}_rnn_bf", (1, self.d)))
        return shapes + self.norms(f"{prefix}_rnn", f"{prefix}_rnn_ffn")

    def norms(self, pre: str, post: str) -> Shapes:
        return self.norm(pre, "_pre") if self.is_pre else self.norm(post, "")

    def norm(self, prefix: str, suffix: str) -> Shapes:
        return [(f"{prefix}_ln_{part}{suffix}", (1, self.d)) for part in ("scale", "bias")]
