import json
import math
from pathlib import Path
from typing import Any

import pytest

from model.checkpoints.families.hf_config import read_config
from model.config import Activation, DecoderKind, ModelConfig, NormPosition, Sinusoids
from model.errors import CheckpointFormatError, CheckpointNotFoundError, UnsupportedModelError
from tests.tiny import tiny_config

MARIAN: dict[str, Any] = {
    "model_type": "marian",
    "is_encoder_decoder": True,
    "vocab_size": 64,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "activation_function": "swish",
    "scale_embedding": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "pad_token_id": 63,
    "eos_token_id": 0,
    "decoder_start_token_id": 63,
}
BYTES = 100_000


def config_of(folder: Path, **changes: Any) -> ModelConfig:
    options = {k: v for k, v in {**MARIAN, **changes}.items() if v != "absent"}
    (folder / "config.json").write_text(json.dumps(options), encoding="utf-8")
    return read_config(folder, BYTES, unk_id=1)


def test_config_of_an_opus_mt_model(tmp_path: Path) -> None:
    assert config_of(tmp_path) == ModelConfig(
        d_model=16,
        num_heads=2,
        ffn_dim=32,
        encoder_layers=2,
        decoder_layers=3,
        source_vocab_size=64,
        target_vocab_size=64,
        eos_id=0,
        unk_id=1,
        pad_id=63,
        start_id=63,
        decoder=DecoderKind.SELF_ATTENTION,
        norm=NormPosition.POST,
        activation=Activation.SWISH,
        sinusoids=Sinusoids.HUGGING_FACE,
        layer_norm_eps=1e-5,
        max_length_factor=3.0,
    )


def test_what_the_config_leaves_out_is_taken_from_the_generation_config(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text(
        json.dumps({"decoder_start_token_id": 7, "eos_token_id": 5}), encoding="utf-8"
    )
    config = config_of(tmp_path, decoder_start_token_id=None)
    assert (config.start_id, config.eos_id) == (7, 0)


def test_all_that_is_not_supported_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        config_of(
            tmp_path,
            normalize_before=True,
            forced_bos_token_id=5,
            static_position_embeddings=False,
            activation_function=["relu"],
            decoder_ffn_dim=64,
            quantization_config={"bits": 4},
        )
    assert len(caught.value.reasons) == 6
    assert str(tmp_path / "config.json") in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "bert"}, "model_type is 'bert', supported: marian"),
        ({"model_type": "absent"}, "model_type is None"),
        ({"d_model": "wide"}, "d_model is 'wide', not a size"),
        ({"vocab_size": True}, "vocab_size is True, not a size"),
        ({"encoder_layers": 0}, "encoder_layers is 0, not a size"),
        ({"encoder_layers": 10**9}, "weights, but the files have only 100000 bytes"),
        ({"vocab_size": 10**9}, "weights, but the files have only 100000 bytes"),
        ({"pad_token_id": 64}, "pad_token_id is 64, not an id of the vocabulary"),
        ({"decoder_start_token_id": "absent"}, "decoder_start_token_id is None, not an id"),
        (
            {"d_model": 18, "encoder_attention_heads": 4, "decoder_attention_heads": 4},
            "not a multiple",
        ),
    ],
    ids=str,
)
def test_config_of_no_use_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModelError, match=reason) as caught:
        config_of(tmp_path, **changes)
    assert "config.json is not supported" in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, '"a"'])
def test_config_that_is_missing_or_no_object_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"config\.json cannot be read: No such"):
        read_config(tmp_path, BYTES, unk_id=1)
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointFormatError, match=r"config\.json (is not JSON|holds no JSON ob)"):
        read_config(tmp_path, BYTES, unk_id=1)


@pytest.mark.parametrize(
    ("factor", "source_tokens", "limit"),
    [(3.0, 7, 21), (2.5, 3, 8), (2.5, 4, 10), (0.5, 1, 1), (0.1, 3, 1), (2.01, 100, 201)],
)
def test_length_limit_is_rounded_up(factor: float, source_tokens: int, limit: int) -> None:
    assert tiny_config(max_length_factor=factor).max_target_tokens(source_tokens) == limit
    assert limit == max(1, math.ceil(factor * source_tokens))


@pytest.mark.parametrize(
    "name", ["d_model", "num_heads", "ffn_dim", "encoder_layers", "decoder_layers"]
)
@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused_by_name(name: str, size: int) -> None:
    with pytest.raises(UnsupportedModelError, match=f"{name} is {size}, it must be at least 1"):
        tiny_config(**{name: size})


def test_every_reason_is_reported_at_once() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        tiny_config(ffn_dim=0, decoder_layers=0, target_vocab_size=65)
    assert len(caught.value.reasons) == 3
    assert all(reason in str(caught.value) for reason in caught.value.reasons)


@pytest.mark.parametrize(("d_model", "num_heads"), [(16, 3), (18, 2), (15, 1)])
def test_heads_that_do_not_divide_the_width_are_refused(d_model: int, num_heads: int) -> None:
    with pytest.raises(UnsupportedModelError, match=f"d_model {d_model} .* {num_heads}"):
        tiny_config(d_model=d_model, num_heads=num_heads)


def test_shared_embeddings_need_one_vocabulary() -> None:
    with pytest.raises(UnsupportedModelError, match="equal vocabularies, not 64 and 65"):
        tiny_config(target_vocab_size=65)
    split = tiny_config(target_vocab_size=65, shared_embeddings=False)
    assert (split.source_vocab_size, split.target_vocab_size) == (64, 65)
