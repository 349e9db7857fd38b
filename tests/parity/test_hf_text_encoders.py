"""Our text encoder against transformers', with the same random weights."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    GteConfig,
    GteModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    NomicBertConfig,
    NomicBertModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from model.checkpoints.families.encoder_family import ACTIVATIONS
from model.checkpoints.families.text_encoders import family_of, read_config
from model.checkpoints.formats.files import find_weights, read_options
from model.checkpoints.formats.tensors import read_tensors
from model.checkpoints.weights import fill, normal_names
from model.config import EmbeddingConfig
from model.encoding.embedding import EmbeddingJob, EmbeddingModel, embed
from tests.attention_jobs import text_maps

VOCAB_SIZE = 99
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 300,
}
MODERN: dict[str, Any] = {
    "local_attention": 16,
    **dict.fromkeys(("pad_token_id", "cls_token_id", "bos_token_id"), 0),
    **dict.fromkeys(("sep_token_id", "eos_token_id"), 1),
}
MODELS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bert": (BertModel, BertConfig, {}),
    **{
        f"bert, {name}": (BertModel, BertConfig, {"hidden_act": name})
        for name in ACTIVATIONS
        if name != "gelu"
    },
    "roberta": (RobertaModel, RobertaConfig, {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta": (XLMRobertaModel, XLMRobertaConfig, {"type_vocab_size": 1}),
    "camembert": (CamembertModel, CamembertConfig, {"type_vocab_size": 1}),
    "roberta, other padding": (RobertaModel, RobertaConfig, {"pad_token_id": 0}),
    "mpnet": (MPNetModel, MPNetConfig, {}),
    "modernbert": (ModernBertModel, ModernBertConfig, MODERN),
    "modernbert, other layers": (
        ModernBertModel,
        ModernBertConfig,
        MODERN
        | {
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "hidden_activation": "relu",
            "norm_eps": 1e-3,
        },
    ),
    "gte": (GteModel, GteConfig, {}),
    "gte, no types": (GteModel, GteConfig, {"type_vocab_size": 0, "hidden_act": "relu"}),
    "nomic": (NomicBertModel, NomicBertConfig, {}),
    "mpnet, other padding": (MPNetModel, MPNetConfig, {"pad_token_id": 0}),
}
# Hidden states are of size 1; two implementations order their sums differently.
TOLERANCE: dict[str, Any] = {"atol": 1e-5, "rtol": 0.0}


@pytest.fixture(scope="module", params=MODELS)
def theirs(request: pytest.FixtureRequest) -> Any:
    """A model with weights large enough that attention and biases matter."""
    kind, config, changes = MODELS[request.param]
    torch.manual_seed(5)
    model = kind(config(**SIZES | changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    return model


def fill_encoder(model: EmbeddingModel, arrays: Any, options: dict[str, Any]) -> None:
    family = family_of(options, "")
    fill(model.encoder, normal_names(arrays, family), family.names, family.ignored)


def load(folder: Path) -> EmbeddingModel:
    options = read_options(folder / "config.json")
    config = read_config(options, "config.json")
    arrays = read_tensors(find_weights(folder))
    settings = EmbeddingConfig(config, max_tokens=config.max_tokens)
    model = EmbeddingModel(settings)
    fill_encoder(model, arrays, options)
    return model


@pytest.fixture(scope="module")
def ours(theirs: Any, tmp_path_factory: pytest.TempPathFactory) -> EmbeddingModel:
    folder = tmp_path_factory.mktemp("model")
    theirs.save_pretrained(folder)
    return load(folder)


def texts(lengths: list[int]) -> list[list[int]]:
    """Ids from 3 up, as RoBERTa's code leaves out padding (1) when it counts positions."""
    rng = random.Random(7)
    return [[rng.randrange(3, VOCAB_SIZE) for _ in range(length)] for length in lengths]


def hidden_states(theirs: Any, ids: list[int]) -> Tensor:
    with torch.inference_mode():
        states: Tensor = theirs(torch.tensor([ids])).last_hidden_state[0]
    return states


def test_hidden_states_are_those_of_transformers(theirs: Any, ours: EmbeddingModel) -> None:
    """The longest is longer than a slice, and than the distance at which MPNet's buckets end."""
    inputs = texts([7, 2, 7, 31, 3, 298])
    found = embed(ours, [EmbeddingJob(ids, is_per_token=True) for ids in inputs], slice_tokens=64)
    for ids, vectors in zip(inputs, found, strict=True):
        assert_close(torch.from_numpy(vectors), hidden_states(theirs, ids), **TOLERANCE)


def test_long_texts_have_whole_blocks_outside_a_window() -> None:
    """Of 1,500 tokens, fused attention computes blocks of keys that are all excluded."""
    torch.manual_seed(6)
    sizes = SIZES | MODERN | {"max_position_embeddings": 1600, "local_attention": 128}
    theirs: Any = ModernBertModel(ModernBertConfig(**sizes))
    theirs.eval()
    options = theirs.config.to_dict()
    config = read_config(options, "config.json")
    model = EmbeddingModel(EmbeddingConfig(config, max_tokens=config.max_tokens))
    arrays = {name: each.detach().numpy() for name, each in theirs.state_dict().items()}
    fill_encoder(model, arrays, options)
    (ids,) = texts([1500])
    (found,) = embed(model, [EmbeddingJob(ids, is_per_token=True)])
    assert_close(torch.from_numpy(found), hidden_states(theirs, ids), **TOLERANCE)


def test_a_vector_is_the_mean_of_the_tokens(theirs: Any, ours: EmbeddingModel) -> None:
    inputs = texts([5, 12])
    found = embed(ours, [EmbeddingJob(ids) for ids in inputs])
    for ids, vector in zip(inputs, found, strict=True):
        assert_close(torch.from_numpy(vector), hidden_states(theirs, ids).mean(dim=0), **TOLERANCE)


def test_a_vector_does_not_depend_on_the_batch(ours: EmbeddingModel) -> None:
    """To the bit: texts alone, in company, and in company of their own length."""
    jobs = [EmbeddingJob(ids, is_per_token=True) for ids in texts([1, 2, 2, 3, 9, 9, 9, 40, 90])]
    alone = [embed(ours, [job])[0] for job in jobs]
    for slice_tokens in (100, 256):
        together = embed(ours, jobs, slice_tokens)
        for vectors, others in zip(alone, together, strict=True):
            np.testing.assert_array_equal(vectors, others)


def test_attention_is_that_of_transformers(theirs: Any, ours: EmbeddingModel) -> None:
    """All layers and heads, of texts of different lengths side by side, with eager attention."""
    inputs = texts([7, 2, 7, 31, 3, 140])
    theirs.set_attn_implementation("eager")
    for ids, found in zip(inputs, text_maps(ours.encoder, inputs, slice_tokens=64), strict=True):
        with torch.inference_mode():
            expected = theirs(torch.tensor([ids]), output_attentions=True).attentions
        assert_close(torch.from_numpy(found), torch.cat(expected), **TOLERANCE)
