import math

import pytest

from model.config import ModelConfig
from model.errors import UnsupportedModelError
from tests.tiny import tiny_config


def test_head_dim_is_the_share_of_one_head() -> None:
    assert tiny_config(d_model=48, num_heads=4).head_dim == 12


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


def test_defaults_are_those_of_a_firefox_student() -> None:
    config = ModelConfig(256, 8, 1536, 6, 2, 32000, 32000)
    assert (config.decoder, config.norm, config.activation) == ("ssru", "post", "relu")
    assert (config.sinusoids, config.eos_id, config.unk_id) == ("marian", 0, 1)
    assert config.start_id is config.pad_id is None
