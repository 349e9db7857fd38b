"""Texts encoded in native code: the same as PyTorch, and the same bits in any company."""

import gc
import random
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from model.backends.encoder_batch import equal_parts
from model.backends.native.library import ACTIVATIONS as NATIVE_ACTIVATIONS
from model.backends.native.library import LIBRARIES, Library, can_serve
from model.backends.native.runner import NativeTextEncoder, TextBatch
from model.checkpoints import embedding as loading
from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import find_embedding_models
from model.config import Activation, NormSpec, Rope
from model.encoding.embedding import EmbeddingEncode, EmbeddingJob, EmbeddingModel, Vectors, embed
from model.layers.block import ACTIVATIONS
from model.precision import Precision
from model.quantization.int8 import quantize
from tests.text_models import NATIVE, SIZES, WIDE, int8_model, jobs, new_model
from tests.tiny_text import write_model

pytestmark = pytest.mark.skipif(not LIBRARIES, reason="nothing was compiled for this processor")

each_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
CPU = torch.device("cpu")
ON_DISK: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}


def native_model(library: Library, **changes: Any) -> EmbeddingModel:
    model = int8_model(**changes)
    model.native = NativeTextEncoder(model.encoder, library)
    return model


def cosines(found: list[Vectors], wanted: list[Vectors]) -> NDArray[np.float64]:
    pairs = zip(np.asarray(found, np.float64), np.asarray(wanted, np.float64), strict=True)
    return np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs])


@each_library
@pytest.mark.parametrize("family", NATIVE)
def test_vectors_are_those_of_pytorch(library: Library, family: str) -> None:
    texts, changes = jobs(*range(1, 60, 3)), {**NATIVE[family], "num_heads": 2}
    wanted = embed(int8_model(**changes), texts)
    found = embed(native_model(library, **changes), texts)
    assert cosines(found, wanted).min() > 0.999


LAYERS = {
    **{family: {"num_heads": 2, **changes} for family, changes in NATIVE.items()},
    **{f"{heads} heads": {"num_heads": heads, "position_offset": 2} for heads in (1, 4)},
}


@each_library
@pytest.mark.parametrize("changes", LAYERS.values(), ids=LAYERS)
def test_one_layer_is_that_of_pytorch(library: Library, changes: dict[str, Any]) -> None:
    """But where float32 sums in another order round an input to another integer."""
    changes = {**changes, "layers": 1}
    texts = jobs(*range(1, 40), is_per_token=True)
    wanted = np.concatenate(embed(int8_model(**changes), texts))
    found = np.concatenate(embed(native_model(library, **changes), texts))
    differences = np.abs(found - wanted).max(axis=1)
    assert np.median(differences) < 1e-5
    assert differences.max() < 0.05


@each_library
def test_relative_bias_reaches_as_far_as_a_text(library: Library) -> None:
    """In one layer few inputs are rounded to another integer; 64 positions are all there are."""
    changes = {"layers": 1, "relative_buckets": 32, "max_positions": 64}
    for text in jobs(1, 2, 17, 63, 64, is_per_token=True):
        (wanted,) = embed(int8_model(**changes), [text])
        (found,) = embed(native_model(library, **changes), [text])
        assert np.median(np.abs(found - wanted).max(axis=1)) < 1e-5


@each_library
@pytest.mark.parametrize("family", NATIVE)
def test_text_has_the_same_bits_in_every_batch(library: Library, family: str) -> None:
    """Alone, among others in any order, and in slices of any size."""
    model, chance = native_model(library, **NATIVE[family], num_heads=2), random.Random(4)
    texts = jobs(*[chance.randint(1, 64) for _ in range(40)], is_per_token=True)
    alone = [embed(model, [text])[0] for text in texts]
    for slice_tokens in (7, 30, 64, 300, 5000):
        order = chance.sample(range(len(texts)), len(texts))
        together = embed(model, [texts[i] for i in order], slice_tokens)
        for i, vectors in zip(order, together, strict=True):
            np.testing.assert_array_equal(vectors, alone[i])


@each_library
def test_two_passes_take_turns_without_meeting(library: Library) -> None:
    model, texts = native_model(library), jobs(9, 30, 4, 21)
    alone = embed(model, texts)
    first, second = EmbeddingEncode(model, texts, 20), EmbeddingEncode(model, texts[::-1], 20)
    found: dict[int, Vectors] = {}
    while first.advance() | second.advance():
        found |= first.take_finished()
        found |= {3 - number: vector for number, vector in second.take_finished().items()}
        for number, vector in found.items():
            np.testing.assert_array_equal(vector, alone[number])
    assert len(found) == 4


def test_a_slice_is_half_a_layer_and_less_of_a_long_text() -> None:
    model = native_model(LIBRARIES[0])
    short, long = EmbeddingEncode(model, jobs(9)), EmbeddingEncode(model, jobs(60), slice_tokens=20)
    assert sum(1 for _ in short.slices) == 2 * 2 + 1
    assert sum(1 for _ in long.slices) == 2 * (2 + 3 + 3) + 1
    assert equal_parts(60, 25) == [(0, 20), (20, 20), (40, 20)]
    assert equal_parts(5, 25) == [(0, 5)]


def test_batch_keeps_the_weights_that_it_reads() -> None:
    """Its native code reads freed memory otherwise."""
    encoder = NativeTextEncoder(int8_model().encoder)
    freed = weakref.ref(encoder)
    batch = TextBatch(encoder, [[5, 6, 7]])
    del encoder
    gc.collect()
    assert freed() is not None
    gc.disable()
    try:
        del batch
        assert freed() is None
    finally:
        gc.enable()


def activated(library: Library, activation: Activation, x: float) -> float:
    """What the feed-forward layer makes of x.

    All its inner numbers are the same, which quantises without an error. They are added to 1 and
    taken from it; the ratio of the two sums goes through the norm.
    """
    model = new_model(**WIDE, layers=1, activation=activation)
    (layer,) = model.encoder.blocks
    first, last = layer.mixer_residual.norm, layer.feed_forward_residual.norm
    assert isinstance(first, nn.LayerNorm)
    assert isinstance(last, nn.LayerNorm)
    with torch.no_grad():
        first.weight.zero_()
        first.bias.copy_(torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(16))
        layer.feed_forward.fc1.weight.zero_()
        layer.feed_forward.fc1.bias.fill_(x)
        layer.feed_forward.fc2.weight.copy_(
            torch.tensor([1.0, -1.0]).repeat(32)[:, None] / WIDE["ffn_dim"]
        )
        layer.feed_forward.fc2.bias.zero_()
        last.weight.fill_(1.0)
        last.bias.zero_()
    quantize(model.encoder.layers)
    model.native = NativeTextEncoder(model.encoder, library)
    above, below = embed(model, jobs(1))[0][:2].astype(np.float64)
    return float((above - below) / (above + below))


@each_library
@pytest.mark.parametrize("activation", NATIVE_ACTIVATIONS)
def test_activations_are_exact(library: Library, activation: Activation) -> None:
    for x in [-30.0, -5.6, -5.4, *np.linspace(-5, 5, 11), 5.4, 5.6, 30.0]:
        wanted = float(ACTIVATIONS[activation](torch.tensor(x, dtype=torch.float64)))
        found = activated(library, activation, x)
        assert abs(found - wanted) < 1.2e-6 * (1 + wanted**2), (x, found, wanted)


def test_can_serve() -> None:
    assert can_serve(new_model(**WIDE).config.encoder)
    for changes in NATIVE.values():
        assert can_serve(new_model(**WIDE | {"num_heads": 2}, **changes).config.encoder)
    others: list[dict[str, Any]] = [
        {"attention": {"rope": Rope(50.0)}},  # of heads that are 16 wide
        {"attention": {"qk_norm": NormSpec(1e-5)}},  # of another epsilon
        {"attention": {"kv_heads": 2}},  # of keys that are 32 wide
        {"block": {"norms_keys": False}},
        {"activation": Activation.TANH},
    ]
    for changes in others:
        assert not can_serve(new_model(**WIDE, **changes).config.encoder), changes
    for changes in ({}, {"num_heads": 8}, {"ffn_dim": 100}):
        sizes = {**SIZES, **(WIDE | changes if changes else {})}
        assert not can_serve(new_model(**sizes).config.encoder), changes


def test_auto_takes_int8_where_native_code_serves(tmp_path: Path) -> None:
    files = find_embedding_models(str(write_model(tmp_path / "tiny", **ON_DISK)))[0]
    job = EmbeddingJob([1, 7, 8, 2])
    exact = embed(load_embedding_model(files, CPU, "float32"), [job])
    for dtype in ("auto", "int8"):
        model = load_embedding_model(files, CPU, dtype)
        assert model.native
        assert model.precision == "int8"
        assert cosines(embed(model, [job]), exact).min() > 0.99


def test_prompt_is_left_out_of_pooling_in_int8(tmp_path: Path) -> None:
    files = find_embedding_models(str(write_model(tmp_path / "tiny", **ON_DISK)))[0]
    model = load_embedding_model(files, CPU, "int8")
    assert model.native
    ids = [1, 7, 8, 9, 2]
    found, tokens = embed(model, [EmbeddingJob(ids, unpooled=2), EmbeddingJob(ids, True)])
    mean = tokens[2:].mean(axis=0)
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-6)


@pytest.mark.parametrize("limit", ["MIN_COSINE", "MIN_DEGENERATE_COSINE"])
def test_auto_leaves_int8_where_vectors_would_change(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = find_embedding_models(str(write_model(tmp_path / "tiny", **ON_DISK)))[0]
    exact = embed(load_embedding_model(files, CPU, "float32"), [EmbeddingJob([1, 7, 2])])
    monkeypatch.setattr(loading, limit, 0.9999999)
    model = load_embedding_model(files, CPU, "auto")
    assert model.native is None
    assert model.precision == "float32"
    np.testing.assert_array_equal(embed(model, [EmbeddingJob([1, 7, 2])]), exact)
    assert "int8 is not used" in caplog.text
    assert load_embedding_model(files, CPU, "int8").native


def test_auto_takes_float16_only_where_vectors_hardly_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a GPU with matrix units for float16 alone; the CPU computes here."""
    files = find_embedding_models(str(write_model(tmp_path / "tiny", **ON_DISK)))[0]
    monkeypatch.setattr(loading, "select_native_precision", lambda *_, **__: Precision.FLOAT16)
    job = EmbeddingJob([1, 7, 8, 2])
    model = load_embedding_model(files, CPU, "auto")
    assert model.precision is Precision.FLOAT16
    assert model.encoder.embedding.tokens.dtype is torch.float16
    rounded = embed(model, [job])
    monkeypatch.setattr(loading, "MIN_COSINE", 1.1)
    model = load_embedding_model(files, CPU, "auto")
    assert model.precision is Precision.FLOAT32
    assert model.encoder.embedding.tokens.dtype is torch.float32
    exact = embed(model, [job])
    assert cosines(exact, rounded).min() > 0.999
    assert (exact[0] != rounded[0]).any()
    assert "float16 is not used" in caplog.text
