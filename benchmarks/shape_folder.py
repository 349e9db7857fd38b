"""Writes a model with random weights in a well-known shape to a folder for `regard serve`."""

import shutil
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import yaml
from numpy.typing import NDArray

from benchmarks.peers.words import vocabulary
from benchmarks.random_weights import EOS, UNK, Shape, random_model
from model.checkpoints.families.marian import name_pairs

PAIR = "en-de"
"""Language pair in the name of the model. The texts are in neither language."""


def write(folder: Path, shape: Shape) -> Path:
    """Writes a Marian model whose translations have as many tokens as their sources.

    Each word of `benchmarks.peers.words` is a token.
    """
    path = folder / PAIR
    if (path / "config.yml").exists():
        return path
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    _write_weights(path / "model.npz", shape)
    _write_vocabulary(path / "vocab.spm", shape.vocab_size)
    (path / "config.yml").write_text("max-length-factor: 1\n", "utf-8")
    return path


def _write_weights(path: Path, shape: Shape) -> None:
    config = shape.config()
    model = random_model(config, torch.device("cpu"), torch.float32)
    parameters = dict(model.named_parameters())
    tensors = {
        tensor: _in_order(tensor, parameters[parameter].detach().numpy())
        for parameter, tensor in name_pairs(config)
        if parameter in parameters
    }
    text = np.frombuffer(yaml.safe_dump(options(shape)).encode() + b"\0", np.int8)
    np.savez(path, **tensors, **{"special:model.yml": text})  # type: ignore[arg-type]


def _in_order(tensor: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(values.T) if "_W" in tensor else values


def options(shape: Shape) -> dict[str, object]:
    """Returns Marian's options of a model with the shape."""
    return {
        "type": "transformer",
        "dim-emb": shape.d_model,
        "dim-vocabs": [shape.vocab_size, shape.vocab_size],
        "enc-depth": shape.layers,
        "dec-depth": shape.layers,
        "tied-embeddings-all": True,
        "transformer-decoder-autoreg": "self-attention",
        "transformer-dim-ffn": shape.ffn_dim,
        "transformer-ffn-activation": "swish",
        "transformer-heads": shape.num_heads,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-top": "",
    }


def _write_vocabulary(path: Path, size: int) -> None:
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(vocabulary(size)[2:]),
            model_writer=file,
            model_type="word",
            vocab_size=size,
            normalization_rule_name="identity",
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
