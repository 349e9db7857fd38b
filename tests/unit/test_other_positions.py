"""Properties of all families, for models with relative positions (T5) or learned ones (mBART)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from model.architectures.stack import EncoderDecoder
from model.checkpoints import build
from model.config import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DecoderKind,
    NormPosition,
    NormSpec,
)
from model.inspection.query import AttentionNorm, Reduction
from tests.tiny import LIMITS, Family
from tests.unit import test_engine, test_knockouts, test_teacher_forced

BLOCK = BlockSpec(
    16,
    32,
    AttentionSpec(2, 2, 4, has_bias=False, scale=1.0, buckets=8, max_distance=20),
    activation=Activation.GELU_TANH,
    has_gate=True,
    ffn_biases=(False, False),
    norm=NormSpec(has_bias=False, is_rms=True),
    norm_position=NormPosition.PRE,
)


class Relative(Family):
    def model(self, **changes: Any) -> EncoderDecoder:
        return super().model(block=BLOCK, has_sinusoids=False, scales_embeddings=False, **changes)


class Learned(Family):
    def model(self, **changes: Any) -> EncoderDecoder:
        own = {"max_positions": 160, "position_offset": 2, "norms_embedding": True}
        return super().model(has_sinusoids=False, **own, **changes)


FAMILIES = [
    Relative(DecoderKind.SELF_ATTENTION, NormPosition.PRE, 3),
    Learned(DecoderKind.SELF_ATTENTION, NormPosition.PRE, 7),
]


@pytest.fixture(params=FAMILIES, ids=["relative", "learned"])
def family(request: pytest.FixtureRequest) -> Family:
    found: Family = request.param
    return found


OF_FAMILIES: list[Callable[[Family], None]] = [
    test_engine.test_cached_decoding_is_uncached_decoding,
    test_engine.test_greedy_and_beams_share_a_batch,
    test_teacher_forced.test_rollout_is_the_product_of_the_layers,
    test_teacher_forced.test_weights_are_those_of_the_padded_explicit_pass,
    test_knockouts.test_source_tokens_off_are_masked_tokens,
]
OF_MODELS: list[Callable[[EncoderDecoder], None]] = [
    test_teacher_forced.test_layers_and_heads_come_in_the_order_asked_for,
    test_teacher_forced.test_steps_add_up_and_are_those_of_the_weights,
    test_knockouts.test_nothing_switched_off_changes_no_bit,
    test_knockouts.test_slices_change_no_knockout,
    test_knockouts.test_all_heads_of_a_layer_leave_its_bias,
    test_knockouts.test_edges_of_all_tokens_are_a_source_token,
    test_knockouts.test_an_edge_of_the_decoder_changes_no_earlier_token,
    test_knockouts.test_a_source_without_tokens_gives_finite_numbers,
]


@pytest.mark.parametrize("holds", OF_FAMILIES)
def test_property_of_a_family_holds(holds: Callable[[Family], None], family: Family) -> None:
    holds(family)


@pytest.mark.parametrize("holds", OF_MODELS)
def test_property_of_a_model_holds(holds: Callable[[EncoderDecoder], None], family: Family) -> None:
    holds(family.model(decoder_layers=3))


@pytest.mark.parametrize("options", [test_engine.GREEDY, test_engine.BEAM], ids=["greedy", "beam"])
def test_batches_scores_and_prefixes_are_as_in_other_families(family: Family, options: Any) -> None:
    test_engine.test_a_batch_translates_as_one_alone(family, None, options)
    test_engine.test_target_continues_its_prefix(family, options.beam_size)
    if options is test_engine.BEAM:
        test_engine.test_cached_logits_are_teacher_forced_logits(family, options)


def test_attention_of_a_sentence_is_the_same_alone_and_beside_others(family: Family) -> None:
    model = family.model(decoder_layers=3)
    test_teacher_forced.test_a_sentence_gets_the_same_alone_and_beside_others(model, "float32")
    for reduce in test_teacher_forced.REDUCTIONS:
        norm = AttentionNorm.VALUE_NORMS
        test_teacher_forced.test_a_reduction_is_numpys(family, Reduction(reduce), norm)


def test_gpu_decodes_them_without_graphs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The fakes stand for a GPU, and for runners that would need it."""
    monkeypatch.setattr(EncoderDecoder, "device", SimpleNamespace(type="cuda"))
    monkeypatch.setattr(build, "TorchRunner", lambda *_: "without graphs")
    monkeypatch.setattr(build, "Engine", lambda runner, _: runner)
    found: Any = build.new_engine(FAMILIES[0].model(), LIMITS)
    assert found == "without graphs"
    assert "decoded without CUDA graphs" in caplog.text


def test_both_sides_share_one_matrix_of_tokens_and_no_positions() -> None:
    model = FAMILIES[1].model()
    one, other = model.encoder.embedding, model.decoder.embedding
    assert one.weight is other.weight
    assert one.positions is not other.positions
    half = model.to(torch.bfloat16)
    assert half.encoder.embedding.weight is half.decoder.embedding.weight
