from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model.checkpoints.families.marian import MarianFile, read_checkpoint
from model.checkpoints.load import ModelFiles
from model.checkpoints.weights import load_weights
from model.config import Activation, DecoderKind, ModelConfig, NormPosition, Sinusoids
from model.errors import UnsupportedModelError
from tests.marian_writer import PRE_NORM, Array, tiny_options, tiny_tensors, write_bin

SELF_ATTENTION = {"transformer_decoder_autoreg": "self-attention"}

Write = Callable[[dict[str, Any], dict[str, Array]], MarianFile]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(options: dict[str, Any], tensors: dict[str, Array]) -> MarianFile:
        return MarianFile(write_bin(tmp_path / "model.bin", options, tensors))

    return write


def config_of(file: MarianFile) -> ModelConfig:
    return read_checkpoint(file, 2.5, 0, 1).config


def test_the_built_in_model_is_a_tiny_student(built_in: ModelFiles) -> None:
    config = config_of(MarianFile(built_in.weights))
    assert config == ModelConfig(
        d_model=256,
        num_heads=8,
        ffn_dim=1536,
        encoder_layers=6,
        decoder_layers=2,
        source_vocab_size=32000,
        target_vocab_size=32000,
        norms_keys=False,
        max_length_factor=2.5,
        alignment_layer=1,
    )


def test_ids_come_from_the_vocabulary(write: Write) -> None:
    options = tiny_options()
    config = read_checkpoint(write(options, tiny_tensors(options)), 2.0, 5, 7).config
    assert (config.eos_id, config.unk_id, config.max_length_factor) == (5, 7, 2.0)
    assert config.start_id is config.pad_id is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"decoder": DecoderKind.SSRU, "norm": NormPosition.POST}),
        (SELF_ATTENTION, {"decoder": DecoderKind.SELF_ATTENTION}),
        (PRE_NORM, {"norm": NormPosition.PRE}),
        ({"transformer_postprocess": "an"}, {"norm": NormPosition.POST}),
        ({"transformer_ffn_activation": "swish"}, {"activation": Activation.SWISH}),
        ({"transformer_ffn_activation": "gelu"}, {"activation": Activation.GELU_SIGMOID}),
        ({}, {"shared_embeddings": True, "tied_output": True, "sinusoids": Sinusoids.MARIAN}),
        ({"tied_embeddings_all": False}, {"shared_embeddings": False, "tied_output": False}),
        (
            {"tied_embeddings_all": False, "tied_embeddings": True},
            {"shared_embeddings": False, "tied_output": True},
        ),
        (
            {"tied_embeddings_all": False, "tied_embeddings_src": True},
            {"shared_embeddings": True, "tied_output": False},
        ),
    ],
)
def test_options_become_switches(
    write: Write, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    options = tiny_options(**changes)
    config = config_of(write(options, tiny_tensors(options)))
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("changes", "layer"),
    [
        ({}, None),
        ({"transformer_guided_alignment_layer": "last"}, 2),
        ({"transformer_guided_alignment_layer": "1"}, 0),
        ({"transformer_guided_alignment_layer": 3}, 2),
        ({"transformer_guided_alignment_layer": "last", "guided_alignment": "none"}, None),
        ({"transformer_guided_alignment_layer": 2, "guided_alignment": "corpus.align"}, 1),
        ({"transformer_guided_alignment_layer": 0}, None),
        ({"transformer_guided_alignment_layer": 4}, None),
        ({"transformer_guided_alignment_layer": "first"}, None),
    ],
)
def test_the_layer_that_aligns_counts_from_one_in_the_file(
    write: Write, changes: dict[str, Any], layer: int | None
) -> None:
    options = tiny_options(dec_depth=3, **changes)
    config = config_of(write(options, tiny_tensors(options)))
    assert config.alignment_layer == layer


def test_options_that_an_old_marian_left_out_have_its_defaults(write: Write) -> None:
    whole = tiny_options(dim_emb=64, transformer_dim_ffn=2048)
    names = ("type", "dim-emb", "dim-vocabs", "enc-depth", "dec-depth", "transformer-postprocess")
    config = config_of(write({name: whole[name] for name in names}, tiny_tensors(whole)))
    assert (config.num_heads, config.ffn_dim) == (8, 2048)
    assert (config.decoder, config.activation) == ("self-attention", "swish")


def test_every_unsupported_option_is_reported_at_once(write: Write) -> None:
    options = tiny_options(
        type="s2s",
        transformer_pool=True,
        transformer_tied_layers=[1, 1],
        transformer_ffn_depth=3,
        transformer_train_position_embeddings=True,
        transformer_decoder_autoreg="average-attention",
        transformer_ffn_activation="prelu",
        transformer_postprocess="hn",
        dim_emb="wide",
        enc_depth=0,
        dim_vocabs=[64],
    )
    with pytest.raises(UnsupportedModelError) as caught:
        config_of(write(options, {}))
    reasons = "\n".join(caught.value.reasons)
    assert len(caught.value.reasons) == 11
    for name in options:
        if options[name] != tiny_options()[name] and name != "transformer-postprocess":
            assert name in reasons
    assert "('', 'hn', '')" in reasons
    assert "model.bin is not supported" in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"dec_cell": "gru"},
        {"transformer_decoder_autoreg": ["rnn"]},
        {"transformer_ffn_activation": {"relu": 1}},
        {"transformer_preprocess": "d", "transformer_postprocess_top": "n"},
        {"transformer_preprocess": None},
        {"dim_vocabs": 64},
        {"dim_vocabs": [64, 0]},
        {"dim_vocabs": [64, 64, 64]},
        {"dim_emb": None},
        {"dim_emb": True},
        {"dec_depth": 2.0},
        {"transformer_heads": -8},
        {"transformer_heads": 3},
        {"enc_depth": 10**9},
        {"dim_vocabs": [10**12, 10**12]},
        {"transformer_dim_ffn": 10**15},
    ],
    ids=str,
)
def test_an_option_of_no_use_is_refused(write: Write, changes: dict[str, Any]) -> None:
    tensors = tiny_tensors(tiny_options())
    with pytest.raises(UnsupportedModelError):
        config_of(write(tiny_options(**changes), tensors))


CHECKPOINTS = [
    {},
    PRE_NORM,
    SELF_ATTENTION,
    SELF_ATTENTION | PRE_NORM,
    {"tied_embeddings_all": False, "tied_embeddings": True, "dim_vocabs": [64, 60]},
    {"tied_embeddings_all": False, "tied_embeddings_src": True},
    {"tied_embeddings_all": False, "dim_vocabs": [64, 60]},
]


@pytest.mark.parametrize("changes", CHECKPOINTS, ids=str)
def test_every_parameter_is_filled_from_its_own_tensor(
    write: Write, changes: dict[str, Any]
) -> None:
    """Each tensor holds one number of its own; parity tests prove which belongs where."""
    options = tiny_options(**changes)
    tensors = tiny_tensors(options)
    for number, values in enumerate(tensors.values()):
        values[:] = number
    file = write(options, tensors)
    model = load_weights(read_checkpoint(file, 2.5, 0, 1))
    numbers = [set(parameter.flatten().tolist()) for parameter in model.parameters()]
    assert sorted(n for values in numbers for n in values) == list(range(len(tensors)))
    assert not model.training
