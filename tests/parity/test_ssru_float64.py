"""Our Transformer and loader against an independent float64 model, from the file's bytes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from numpy.testing import assert_allclose

from model.architectures.stack import EncoderDecoder
from model.backends.encoder_batch import encode_padded
from model.checkpoints.build import new_engine
from model.checkpoints.families.marian import MarianFile, read_checkpoint
from model.checkpoints.load import ModelFiles
from model.checkpoints.weights import load_weights
from model.sequence import EngineLimits
from tests.checkpoint_folders import mixed_item
from tests.marian_writer import (
    PRE_NORM,
    Array,
    Item,
    float16_item,
    float32_item,
    tiny_options,
    write_bin,
)
from tests.parity.numpy_marian import NumpyMarian
from tests.tiny import forced_pass, greedy_ids, pad, tiny_sources

SELF_ATTENTION = {"transformer_decoder_autoreg": "self-attention"}
OWN_OUTPUT = {"tied_embeddings_all": False, "tied_embeddings_src": True}
MODELS: dict[str, dict[str, Any]] = {
    "ssru post-norm": {},
    "ssru pre-norm": PRE_NORM,
    "self-attention post-norm": SELF_ATTENTION | {"transformer_ffn_activation": "swish"},
    "self-attention pre-norm": SELF_ATTENTION | PRE_NORM,
    "own output": OWN_OUTPUT,
    "three tables": {"tied_embeddings_all": False},
}
BOTH = ("ssru post-norm", "self-attention pre-norm")
"""Models with both decoders and both places of norms, which are also written in other types."""

# Logits are of size 10 to 60 and come out of sums of float32 products; 7e-5 was measured.
FLOAT32: dict[str, float] = {"atol": 2e-4, "rtol": 1e-5}
# Not 1e-12: weights and position tables are float32 before they are anything else; 4e-6 was
# measured.
FLOAT64: dict[str, float] = {"atol": 1e-5, "rtol": 1e-7}

SENTENCES = [
    "We found the keys under an old newspaper in the kitchen.",
    "3.5 litres of water weigh about 3.5 kilograms.",
]


def our_model(path: Path, dtype: torch.dtype = torch.float32) -> EncoderDecoder:
    file = MarianFile(path)
    return load_weights(read_checkpoint(file, 3.0, 0, 1)).to(dtype)


@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        *((name, float32_item, torch.float64) for name in MODELS),
        *((name, kind, torch.float32) for name in BOTH for kind in (float16_item, mixed_item)),
    ],
)
def test_a_tiny_model_is_the_same_in_plain_float64(
    tmp_path: Path, name: str, kind: Callable[[str, Array], Item], dtype: torch.dtype
) -> None:
    options = tiny_options(**MODELS[name])
    path = write_bin(tmp_path / "model.bin", options, kind=kind)
    plain, ours = NumpyMarian(path), our_model(path, dtype)
    for source in tiny_sources(3, longest=12):
        assert_same_numbers(plain, ours, source, [9, 4, 4, 60, 33, 0])
        limit = ours.config.max_target_tokens(len(source))
        assert greedy_ids(new_engine(ours, EngineLimits()), [source])[0] == plain.greedy(
            source, limit, eos=0, unk=1
        )


def assert_same_numbers(
    plain: NumpyMarian, ours: EncoderDecoder, source: list[int], target: list[int]
) -> None:
    batch, mask = pad([source], len(source) + 5)
    with torch.no_grad():
        memory = encode_padded(ours.encoder, batch, mask)
        logits = forced_pass(ours, batch, mask, torch.tensor([target]))
    tolerance = FLOAT64 if ours.dtype is torch.float64 else FLOAT32
    expected = np.stack(plain.encode(source)), plain.logits(source, target)
    for found, other in zip((memory[0, : len(source)], logits[0]), expected, strict=True):
        assert_allclose(found.numpy(), other, atol=tolerance["atol"], rtol=tolerance["rtol"])


@pytest.mark.slow
@pytest.mark.checkpoint
def test_the_built_in_model_is_the_same_in_plain_float64(built_in: dict[str, ModelFiles]) -> None:
    files = built_in["en-pt"]
    plain, ours = NumpyMarian(files.weights), our_model(files.weights, torch.float64)
    vocabulary = sentencepiece.SentencePieceProcessor(model_file=str(files.source_vocab))
    sources = [[*vocabulary.encode(sentence), 0] for sentence in SENTENCES]
    targets = greedy_ids(new_engine(ours, EngineLimits()), sources)
    for source, target in zip(sources, targets, strict=True):
        assert target == plain.greedy(source, 3 * len(source), eos=0, unk=1)
        assert_same_numbers(plain, ours, source, target)
