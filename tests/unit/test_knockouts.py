"""Heads, edges and source tokens that are switched off, in every family and precision."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from model.architectures.stack import EncoderDecoder
from model.backends.encoder_batch import attend_without
from model.encoding.capture_pass import TeacherForcedPass
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    EdgeKnockout,
    HeadKnockout,
    Knockout,
    ProbabilityQuery,
    SiteKnockout,
    attention_layers,
)
from service.tasks.knockouts import Draft
from tests.attention_jobs import CHANGES, finished, kinds_of
from tests.tiny import Family, forced_pass, pad

ENCODER, DECODER, CROSS = AttentionKind
PAIR = [*range(3, 15), 0], [*range(20, 31), 0]
QUERY = ProbabilityQuery(top=2)
MODULES = {
    ENCODER: ("encoder", "mixer"),
    DECODER: ("decoder", "mixer"),
    CROSS: ("decoder", "cross_attention"),
}


@pytest.fixture(params=CHANGES)
def model(family: Family, request: pytest.FixtureRequest) -> EncoderDecoder:
    return CHANGES[request.param](family.model(decoder_layers=3))


def log_probs(
    model: EncoderDecoder,
    *knockouts: Knockout | None,
    pair: tuple[list[int], list[int]] = PAIR,
    slice_tokens: int = 128,
) -> list[NDArray[np.float32]]:
    jobs = [AttentionJob(*pair, (QUERY,), knockout) for knockout in knockouts]
    found = finished(TeacherForcedPass(model, jobs, slice_tokens))
    return [result.log_probs for (result,) in found]


def all_heads(model: EncoderDecoder, kind: AttentionKind, *layers: int) -> Knockout:
    every = tuple(range(model.config.num_heads))
    return Knockout(heads=(HeadKnockout(kind, layers, every),))


def edge(model: EncoderDecoder, kind: AttentionKind, query: int, key: int) -> EdgeKnockout:
    layers = tuple(range(attention_layers(model.config)[kind]))
    return EdgeKnockout(kind, query, key, layers, tuple(range(model.config.num_heads)))


def test_nothing_switched_off_changes_no_bit(model: EncoderDecoder) -> None:
    plain, *same = log_probs(model, None, Knockout(), Knockout())
    for found in same:
        assert_array_equal(found, plain)
    off, again = log_probs(model, all_heads(model, CROSS, 0), Knockout())
    assert_array_equal(again, plain)
    assert np.abs(off - plain).max() > 1e-3


def test_slices_change_no_knockout(model: EncoderDecoder) -> None:
    knockouts = (
        Knockout(edges=(edge(model, CROSS, 5, 3), edge(model, ENCODER, 7, 2)), source=(1,)),
        all_heads(model, ENCODER, 0),
    )
    whole, sliced = (log_probs(model, *knockouts, slice_tokens=size) for size in (256, 3))
    for one, other in zip(whole, sliced, strict=True):
        assert_allclose(one, other, rtol=0, atol=1e-5)


def test_all_heads_of_a_layer_leave_its_bias(model: EncoderDecoder) -> None:
    """As if the values of the layer were 0, so that only b_O is left."""
    for kind in kinds_of(model.config):
        (found,) = log_probs(model, all_heads(model, kind, 1))
        side, name = MODULES[kind]
        out = model.get_submodule(f"{side}.layers.1.{name}.out")
        hook = out.register_forward_pre_hook(lambda _, inputs: (torch.zeros_like(inputs[0]),))
        (expected,) = log_probs(model, None)
        hook.remove()
        assert_array_equal(found, expected)


def test_source_tokens_off_are_masked_tokens(family: Family) -> None:
    model, off = family.model(), (1, 4)
    source, target = (pad([ids])[0] for ids in PAIR)
    mask = torch.ones(1, len(PAIR[0]), dtype=torch.bool)
    mask[0, list(off)] = False
    with torch.inference_mode():
        logits = forced_pass(model, source, mask, target)
        logits[..., list(model.config.forbidden_ids)] = float("-inf")
        expected = logits.log_softmax(-1)[0].gather(1, target.T)[:, 0]
    (found,) = log_probs(model, Knockout(source=off))
    assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_edges_of_all_tokens_are_a_source_token(model: EncoderDecoder) -> None:
    source, target = PAIR
    edges = [edge(model, ENCODER, query, 2) for query in range(len(source))]
    edges += [edge(model, CROSS, query, 2) for query in range(len(target))]
    one, other = log_probs(model, Knockout(edges=tuple(edges)), Knockout(source=(2,)))
    assert_array_equal(one, other)


@pytest.mark.parametrize("keys", [(), (1, 4)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_uniform_heads_give_the_mean_of_the_values(is_causal: bool, keys: tuple[int, ...]) -> None:
    """The mean is over the tokens that may be seen; other heads keep their bits."""
    torch.manual_seed(3)
    query, key, value = (torch.randn(1, 4, 6, 8) for _ in range(3))
    seen = torch.ones(6, 6, dtype=torch.bool)
    seen = seen.tril() if is_causal else seen
    bias = torch.zeros(6, 6).masked_fill(~seen, -torch.inf) if is_causal else None
    off = SiteKnockout((), keys, (), uniform=(1, 3))
    found = attend_without(off, query, key, value, bias, 0)
    others = attend_without(SiteKnockout((), keys, ()), query, key, value, bias, 0)
    assert torch.equal(found[:, ::2], others[:, ::2])
    weights = seen.float()
    weights[:, list(keys)] = 0.0
    means = (weights / weights.sum(-1, keepdim=True)) @ value[0, 1::2]
    torch.testing.assert_close(found[0, 1::2], means)


def test_an_edge_of_the_decoder_changes_no_earlier_token(model: EncoderDecoder) -> None:
    for kind in kinds_of(model.config)[1:]:
        plain, off = log_probs(model, Knockout(), Knockout(edges=(edge(model, kind, 6, 3),)))
        assert_array_equal(off[:6], plain[:6])
        assert np.abs(off[6:] - plain[6:]).max() > 1e-4


def test_a_source_without_tokens_gives_finite_numbers(model: EncoderDecoder) -> None:
    every = Knockout(source=tuple(range(len(PAIR[0]))))
    heads = Knockout(heads=(all_heads(model, CROSS, 0, 1, 2).heads))
    found, blind = log_probs(model, every, heads)
    assert np.isfinite(found).all()
    assert_allclose(found, blind, rtol=0, atol=1e-5)


EOS = 0


def likeliest(prefix: Sequence[int], seed: int) -> int:
    """A model of 6 tokens: the token after a prefix depends on the last two tokens."""
    return random.Random(f"{seed} {[*prefix][-2:]} {len(prefix)}").randrange(6)


def greedy(seed: int, limit: int) -> tuple[list[int], bool]:
    ids: list[int] = []
    while EOS not in ids:
        if len(ids) == limit - 1:
            return [*ids, EOS], likeliest(ids, seed) != EOS
        ids.append(likeliest(ids, seed))
    return ids, False


@pytest.mark.parametrize("length", [1, 2, 7, 30])
@pytest.mark.parametrize("limit", [30, 40])
def test_draft_becomes_what_greedy_decoding_writes(length: int, limit: int) -> None:
    """For any draft, in as many rounds as tokens or fewer, and within the limit."""
    for seed in range(200):
        draft = Draft([*[1 + seed % 5] * (length - 1), EOS], EOS, limit)
        rounds = 0
        while not draft.is_done:
            draft.change([likeliest(draft.ids[:place], seed) for place in range(len(draft.ids))])
            rounds += 1
        assert (draft.ids, draft.is_cut) == greedy(seed, limit)
        assert rounds <= limit + 1
