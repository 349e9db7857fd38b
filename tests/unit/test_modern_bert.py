"""ModernBERT: its options, its files, and traces of layers with a window."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.backends.native.library import is_supported
from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import find_embedding_models
from model.checkpoints.families.text_encoders import read_config
from model.config import NormPosition
from model.encoding.embedding import EmbeddingJob, embed
from model.inspection.results import EXCLUDED
from tests.attention_jobs import text_steps
from tests.tiny_text import WORDS, write_encoder

CPU = torch.device("cpu")
OPTIONS: dict[str, Any] = {
    "model_type": "modernbert",
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "local_attention": 4,
}
GLOBAL, LOCAL = (160_000.0, None), (10_000.0, 2)


def rotary(**changes: Any) -> tuple[tuple[float, int | None], ...]:
    """Returns the base and the window of each layer."""
    layers = [block.mixer for block in read_config(OPTIONS | changes, "config.json").blocks]
    return tuple((each.rope.theta, each.window) for each in layers if each and each.rope)


def test_layers_are_those_of_the_options() -> None:
    config = read_config(OPTIONS, "config.json")
    assert rotary() == (GLOBAL, LOCAL, LOCAL, GLOBAL)
    assert {block.norm_position for block in config.blocks} == {NormPosition.PRE}
    assert [block.norms_first for block in config.blocks] == [False, True, True, True]
    assert config.max_tokens == 24
    assert rotary(global_attn_every_n_layers=2) == (GLOBAL, LOCAL, GLOBAL, LOCAL)
    kinds = ["sliding_attention", *["full_attention"] * 3]
    assert rotary(layer_types=kinds) == (LOCAL, GLOBAL, GLOBAL, GLOBAL)
    assert rotary(local_rope_theta=500)[1] == (500.0, 2)


def test_bases_of_newer_files_are_read() -> None:
    parameters = {
        "full_attention": {"rope_type": "default", "rope_theta": 7.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 3.0},
    }
    found = rotary(rope_parameters=parameters)
    assert found[:2] == ((7.0, None), (3.0, 2))
    del parameters["full_attention"], parameters["sliding_attention"]["rope_theta"]
    assert rotary(rope_parameters=parameters, local_rope_theta=5)[:2] == (GLOBAL, (5.0, 2))
    assert rotary(local_attention=1)[1] == (10_000.0, 0)


def write_model(folder: Path) -> Path:
    return write_encoder(folder, **OPTIONS, architectures=["ModernBertModel"])


@pytest.mark.parametrize("dtype", ["auto", "int8"])
def test_folder_is_served_without_native_code(
    tmp_path: Path, dtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of widths that native code does not have; the log says so."""
    caplog.set_level("INFO")
    (files,) = find_embedding_models(str(write_model(tmp_path / "modern")))
    exact = embed(load_embedding_model(files, CPU, "float32"), [EmbeddingJob([1, 7, 8, 2])])
    model = load_embedding_model(files, CPU, dtype)
    assert not is_supported(model.config.encoder)
    assert model.native is None
    assert f"modern: PyTorch computes it in {model.precision}" in caplog.text
    (found,) = embed(model, [EmbeddingJob([1, 7, 8, 2])])
    np.testing.assert_allclose(found, exact[0], atol=0 if dtype == "auto" else 0.05)


def test_trace_of_a_window_gives_other_tokens_no_weight(tmp_path: Path) -> None:
    (files,) = find_embedding_models(str(write_model(tmp_path / "modern")))
    model = load_embedding_model(files, CPU, "float32")
    local = text_steps(model.encoder, [3] * 12, 1, 1, 5)
    assert local.bias is not None
    assert local.bias.tolist() == [EXCLUDED] * 3 + [0.0] * 5 + [EXCLUDED] * 4
    assert np.flatnonzero(local.weights).tolist() == [3, 4, 5, 6, 7]
    assert local.output_bias.tolist() == [0.0] * 16
    assert text_steps(model.encoder, [3] * 12, 3, 1, 5).bias is None
