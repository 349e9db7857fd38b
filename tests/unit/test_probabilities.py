"""The probabilities of target tokens are those from which the decoder chooses."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from model.architectures.output import AnyShortlist
from model.architectures.stack import EncoderDecoder
from model.backends.base import ForcedDecoder, ModelRunner
from model.backends.native.library import LIBRARIES, Library
from model.backends.native.runner import NativeRunner
from model.backends.torch_runner import TorchRunner
from model.config import DecoderKind
from model.encoding.capture_pass import TeacherForcedPass
from model.errors import AttentionQueryError, InputError
from model.inspection.captures import factory as probability_capture
from model.inspection.query import AttentionJob, AttentionKind, ProbabilityQuery, resolve_query
from model.inspection.results import TokenProbabilities
from model.sequence import EngineLimits
from tests.attention_jobs import Pairs, finished, random_pairs
from tests.tiny import (
    FIXED_SHORTLIST,
    VOCAB_SIZE,
    Family,
    forced_log_probs,
    quantized,
    tiny_config,
    tiny_model,
    tiny_shortlist,
)

PAIRS = random_pairs(6, longest=20)
LIMITS = EngineLimits(max_rows=4, max_source_tokens=41)
NAMED = (3, 17, 40)
QUERY = ProbabilityQuery(top=4, named=NAMED)

SHORTLISTS = {"whole": None, "lexical": tiny_shortlist(4), "fixed": FIXED_SHORTLIST}
each_shortlist = pytest.mark.parametrize("shortlist", SHORTLISTS.values(), ids=SHORTLISTS)
each_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)


def probabilities(
    model: EncoderDecoder,
    pairs: Pairs,
    query: ProbabilityQuery = QUERY,
    shortlist: AnyShortlist | None = None,
    forced_decoder: ForcedDecoder | None = None,
) -> list[TokenProbabilities]:
    jobs = [AttentionJob(*pair, (query,)) for pair in pairs]
    whole = TeacherForcedPass(model, jobs, shortlist=shortlist, forced_decoder=forced_decoder)
    return [result for (result,) in finished(whole)]


def assert_of_decoder(
    found: TokenProbabilities, runner: ModelRunner, pair: tuple[list[int], list[int]], atol: float
) -> None:
    source, target = pair
    expected = forced_log_probs(runner, source, target).astype(np.float64)  # (T, V)
    rows = np.arange(len(target))
    is_candidate = np.isfinite(expected[0])
    assert found.num_candidates == is_candidate.sum()
    assert_array_equal(found.is_candidate, is_candidate[target])
    assert_array_equal(found.is_named_candidate, is_candidate[[*NAMED]])
    kept = found.is_candidate
    assert_allclose(found.log_probs[kept], expected[rows, target][kept], rtol=0, atol=atol)
    named = expected[:, [*NAMED]]
    assert_allclose(
        found.named_log_probs[:, found.is_named_candidate],
        named[:, found.is_named_candidate],
        rtol=0,
        atol=atol,
    )
    finite = expected[:, is_candidate]
    assert_allclose(found.entropies, -(np.exp(finite) * finite).sum(1), rtol=0, atol=10 * atol)
    largest = -np.sort(-finite, axis=1)[:, : QUERY.top]
    assert_allclose(found.likeliest_log_probs, largest, rtol=0, atol=atol)
    for row in rows:
        assert_allclose(
            expected[row, found.likeliest[row]], found.likeliest_log_probs[row], rtol=0, atol=atol
        )
    larger = (expected[:, None] > found.named_log_probs[:, :, None] + atol).sum(-1)
    near = (expected[:, None] > found.named_log_probs[:, :, None] - atol).sum(-1)
    assert np.all((larger < found.named_ranks) & (found.named_ranks <= near + 1))


@pytest.mark.parametrize("part", [1, 7 * 32, 1 << 28])
@each_shortlist
def test_probabilities_are_those_of_the_decoder(
    family: Family, shortlist: AnyShortlist | None, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vocabulary is read in parts of one id, of some ids, and whole."""
    monkeypatch.setattr(probability_capture, "PART_PRODUCTS", part)
    model = family.model()
    runner = TorchRunner(model, LIMITS, shortlist)
    for pair, found in zip(PAIRS, probabilities(model, PAIRS, shortlist=shortlist), strict=True):
        assert_of_decoder(found, runner, pair, 1e-5)


@each_library
@pytest.mark.parametrize("decoder", DecoderKind)
@each_shortlist
def test_int8_probabilities_are_those_of_native_code(
    library: Library, decoder: DecoderKind, shortlist: AnyShortlist | None
) -> None:
    config = tiny_config(d_model=64, ffn_dim=128, decoder=decoder)
    model = quantized(tiny_model(config, 44))
    runner = NativeRunner(model, LIMITS, shortlist, library)
    pairs = PAIRS * 4  # more than are decoded together
    together = probabilities(model, pairs, QUERY, shortlist, runner.forced_decoder)
    for pair, found in zip(pairs, together, strict=True):
        assert_of_decoder(found, runner, pair, 1e-5)
        (alone,) = probabilities(model, [pair], QUERY, shortlist, runner.forced_decoder)
        assert_array_equal(found.log_probs, alone.log_probs)


def test_token_outside_the_shortlist_is_compared_with_the_candidates(family: Family) -> None:
    model, shortlist = family.model(), tiny_shortlist(1)
    source, target = PAIRS[2]
    (found,) = probabilities(model, [(source, target)], shortlist=shortlist)
    (whole,) = probabilities(model, [(source, target)])
    outside = np.flatnonzero(~found.is_named_candidate)
    assert len(outside)
    assert found.num_candidates < whole.num_candidates
    # Two tokens keep the difference of their log-probabilities.
    inside = np.flatnonzero(found.is_candidate)[0]
    for one in (found, whole):
        one.named_log_probs[:, outside] -= one.log_probs[:, None]
    assert_allclose(
        found.named_log_probs[inside, outside], whole.named_log_probs[inside, outside], atol=1e-5
    )
    assert np.all(found.named_ranks[:, outside] <= found.num_candidates + 1)


def test_forced_first_token_has_probability_one(family: Family) -> None:
    model, (source, target) = family.model(), PAIRS[2]
    query = ProbabilityQuery(top=3, named=(target[0], 40), first_id=target[0])
    (found,) = probabilities(model, [(source, target)], query)
    (free,) = probabilities(model, [(source, target)], ProbabilityQuery(3, (target[0], 40)))
    assert found.log_probs[0] == pytest.approx(0.0, abs=1e-5)
    assert found.entropies[0] == pytest.approx(0.0, abs=1e-6)
    assert found.likeliest[0].tolist() == [target[0], -1, -1]
    assert found.named_log_probs[0].tolist() == pytest.approx([0.0, -np.inf], abs=1e-5)
    assert_array_equal(found.log_probs[1:], free.log_probs[1:])


def test_probabilities_and_attention_in_one_job(family: Family) -> None:
    model, pair = family.model(), PAIRS[3]
    maps = resolve_query(model.config, [AttentionKind.CROSS], [0])
    encoder = resolve_query(model.config, [AttentionKind.ENCODER], [0])
    jobs = [
        AttentionJob(*pair, (maps, QUERY)),
        AttentionJob(*PAIRS[4], (encoder,)),
        AttentionJob(*PAIRS[5], (maps,)),
    ]
    (first, scored), (second,), (third,) = finished(TeacherForcedPass(model, jobs))
    (alone,) = probabilities(model, [pair])
    assert_allclose(scored.log_probs, alone.log_probs, rtol=0, atol=1e-5)
    assert [isinstance(each, dict) for each in (first, second, third)] == [True] * 3


@pytest.mark.parametrize(
    ("target", "named", "error", "message"),
    [
        ([], (), AttentionQueryError, "probabilities need a target"),
        ([3, 0], (VOCAB_SIZE,), InputError, "named token"),
    ],
)
def test_query_without_an_answer_is_refused(
    family: Family, target: list[int], named: tuple[int, ...], error: Any, message: str
) -> None:
    job = AttentionJob([5, 0], target, (ProbabilityQuery(1, named),))
    with pytest.raises(error, match=message):
        TeacherForcedPass(family.model(), [job])
