"""The in-flight batch: the properties that hold for every family, limits, refusals."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from model.architectures.output import Shortlist
from model.architectures.stack import EncoderDecoder
from model.backends import torch_runner
from model.backends.decoder_batch import DecodingCache
from model.backends.torch_runner import MIN_ROWS, TorchRunner, argmax
from model.checkpoints.build import new_engine
from model.engine.engine import Engine
from model.errors import InputError
from model.sequence import DecodingOptions, EngineLimits, Hypothesis, Sequence
from tests.tiny import (
    LIMITS,
    VOCAB_SIZE,
    Family,
    assert_greedy,
    assert_same_hypotheses,
    forced_pass,
    greedy_ids,
    pad,
    tiny_config,
    tiny_model,
    tiny_sources,
    translate,
)

GREEDY = DecodingOptions()
SCORED = DecodingOptions(return_scores=True)
BEAM = DecodingOptions(beam_size=3, num_hypotheses=3)


# The properties


def test_cached_decoding_is_uncached_decoding(family: Family) -> None:
    model, sources = family.model(), tiny_sources(20, longest=20)
    targets = greedy_ids(new_engine(model, LIMITS), sources)
    assert len(set(map(tuple, targets))) >= 15
    ended = sum(target[-1] == 0 for target in targets)
    assert 3 <= ended <= 19
    for source, target in zip(sources[:3], targets, strict=False):
        assert_greedy(model, source, target)


@pytest.mark.parametrize("options", [SCORED, BEAM], ids=["greedy", "beam"])
def test_cached_logits_are_teacher_forced_logits(family: Family, options: DecodingOptions) -> None:
    """For every hypothesis of a beam too: its rows change places with those of its parents."""
    model, sources = family.model(), tiny_sources(3, longest=13)
    sequences = [Sequence(i, source, options) for i, source in enumerate(sources)]
    results = translate(new_engine(model, LIMITS), sequences)
    for i, source in enumerate(sources):
        assert len(results[i]) == options.num_hypotheses
        for hypothesis in results[i]:
            expected = teacher_forced(model, source, hypothesis.tokens)
            assert hypothesis.log_probs == pytest.approx(expected, abs=1e-4)
            assert hypothesis.score == pytest.approx(sum(expected) / len(expected), abs=1e-4)


def teacher_forced(model: EncoderDecoder, source: list[int], target: list[int]) -> list[float]:
    """The log-probability of each token of the target by one pass without a cache."""
    with torch.no_grad():
        logits = forced_pass(model, *pad([source]), torch.tensor([target]))
    logits[..., model.config.unk_id] = -torch.inf
    chosen: list[float] = logits[0].log_softmax(-1)[range(len(target)), target].tolist()
    return chosen


@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_a_batch_translates_as_one_alone(
    family: Family, shortlist: Shortlist | None, options: DecodingOptions
) -> None:
    model, sources = family.model(), tiny_sources(3, longest=10)
    sequences = [Sequence(i, source, options) for i, source in enumerate(sources)]
    together = translate(new_engine(model, LIMITS, shortlist), sequences)
    for sequence in sequences:
        alone = translate(new_engine(model, LIMITS, shortlist), [sequence])
        assert_same_hypotheses(together[sequence.id], alone[sequence.id])


def test_greedy_and_beams_share_a_batch(family: Family) -> None:
    model = family.model()
    sources = tiny_sources(6, longest=10)
    options = [GREEDY, BEAM, SCORED, DecodingOptions(2, 1), GREEDY, BEAM]
    sequences = [Sequence(i, s, o) for i, (s, o) in enumerate(zip(sources, options, strict=True))]
    engine = new_engine(model, EngineLimits(max_rows=11, max_source_tokens=41))
    engine.admit(sequences)
    assert engine.num_rows == 11
    finished: dict[int, list[Hypothesis]] = {}
    while engine.num_rows:
        finished |= {result.id: result.hypotheses for result in engine.step()}
    for sequence in sequences:
        alone = translate(new_engine(model, LIMITS), [sequence])[sequence.id]
        assert_same_hypotheses(finished[sequence.id], alone)
    assert [h.score is None for h in (finished[0][0], finished[2][0])] == [True, False]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_target_continues_its_prefix(family: Family, beam_size: int) -> None:
    """Other sequences in the batch, greedy and searched, are as they are alone."""
    model, (source, *others) = family.model(), tiny_sources(4, longest=12)
    (own,), prefix = greedy_ids(new_engine(model, LIMITS), [source]), (9, 7, 12)
    given = DecodingOptions(beam_size, beam_size, prefix=prefix)
    mixed = [GREEDY, SCORED, DecodingOptions(2, 2)]
    sequences = [Sequence(0, source, given)]
    sequences += [Sequence(i + 1, s, o) for i, (s, o) in enumerate(zip(others, mixed, strict=True))]
    found = translate(new_engine(model, LIMITS), sequences)
    for hypothesis in found[0]:
        assert tuple(hypothesis.tokens[:3]) == prefix
        assert hypothesis.log_probs[:3] == [0.0, 0.0, 0.0]
    if beam_size == 1:
        assert_greedy(model, source, found[0][0].tokens, prefix)
        first = replace(given, prefix=tuple(own[: len(own) // 2]))
        again = translate(new_engine(model, LIMITS), [Sequence(0, source, first)])
        assert again[0][0].tokens == own
    else:
        expected = teacher_forced(model, source, found[0][0].tokens)
        torch.testing.assert_close(found[0][0].log_probs[3:], expected[3:], rtol=1e-4, atol=1e-4)
    for sequence in sequences[1:]:
        alone = translate(new_engine(model, LIMITS), [sequence])[sequence.id]
        assert_same_hypotheses(found[sequence.id], alone)


def brute_force(model: EncoderDecoder, source: list[int], words: list[int]) -> list[int]:
    """The most probable target of at most 2 words: one teacher-forced pass over all of them."""
    eos = model.config.eos_id
    targets = [[eos, eos], *([a, b] for a in words for b in [eos, *words])]
    with torch.no_grad():
        logits = forced_pass(model, *pad([source] * len(targets)), torch.tensor(targets))
    logits[..., model.config.unk_id] = -torch.inf
    log_probs = logits.log_softmax(-1).gather(2, torch.tensor(targets)[..., None])[..., 0]
    log_probs[0, 1] = 0.0  # nothing follows EOS
    best = targets[int(log_probs.sum(-1).argmax())]
    return best[:1] if best[0] == eos else best


def test_a_wide_beam_finds_the_most_probable_target(family: Family) -> None:
    """12 ids, 2 tokens at most, and a row for each first token: nothing is pruned."""
    sizes = {"source_vocab_size": 12, "target_vocab_size": 12, "max_length_factor": 1.0}
    model = family.model(**sizes)
    with torch.no_grad():
        model.decoder.output_bias[0] -= 5.0  # EOS is one id among others
    options = DecodingOptions(beam_size=12, num_hypotheses=1, length_penalty=0.0)
    found = set()
    for word in range(2, 12):
        best = translate(new_engine(model, EngineLimits(12)), [Sequence(0, [word, 0], options)])[0][
            0
        ]
        assert best.tokens == brute_force(model, [word, 0], list(range(2, 12)))
        found.add(tuple(best.tokens))
    assert len(found) > 1


# Rows, limits, figures


def test_a_sequence_is_aborted_after_its_shortlists_outgrew_their_place() -> None:
    """The larger place was made while admitting, in inference mode, and a move outside of it
    raised "Inplace update to inference tensor": an abort ended the worker."""
    config = tiny_config(source_vocab_size=9000, target_vocab_size=9000)
    lists = np.random.default_rng(0).integers(0, 9000, (9000, 300)).astype(np.uint32)
    offsets = (np.arange(9001) * 300).astype(np.uint64)
    shortlist = Shortlist(5, offsets, np.sort(lists, axis=1).reshape(-1), is_shared=True)
    engine = new_engine(tiny_model(config, 0), LIMITS, shortlist)
    engine.admit([Sequence(i, [*range(20 * i + 2, 20 * i + 20), 0]) for i in range(8)])
    assert engine.abort(0)
    assert engine.num_rows == 7


@pytest.mark.parametrize("factor", [0.1, 2.5])
def test_a_target_ends_at_its_own_sources_limit(family: Family, factor: float) -> None:
    model = family.model(max_length_factor=factor)
    with torch.no_grad():
        model.decoder.output_bias[0] = -1e4
    sources = tiny_sources(8, longest=15)
    for source, target in zip(sources, greedy_ids(new_engine(model, LIMITS), sources), strict=True):
        assert len(target) == model.config.max_target_tokens(len(source))


@pytest.mark.parametrize("max_rows", [1, MIN_ROWS + 1])
def test_few_rows_are_enough(family: Family, max_rows: int) -> None:
    model, sources = family.model(), tiny_sources(5, longest=10)
    engine = new_engine(model, EngineLimits(max_rows=max_rows, max_source_tokens=41))
    assert greedy_ids(engine, sources) == greedy_ids(new_engine(model, LIMITS), sources)


def test_unknown_and_padding_are_never_generated(family: Family) -> None:
    model = family.model(pad_id=2)
    with torch.no_grad():
        model.decoder.output_bias[[1, 2]] = 1e4
    for options in (GREEDY, BEAM):
        results = translate(
            new_engine(model, LIMITS),
            [Sequence(i, source, options) for i, source in enumerate(tiny_sources(4, longest=8))],
        )
        tokens = {t for hypotheses in results.values() for h in hypotheses for t in h.tokens}
        assert tokens.isdisjoint({1, 2})


def test_a_model_with_a_start_token_decodes_as_it_is_taught(family: Family) -> None:
    model, source = family.model(start_id=63), tiny_sources(1)[0]
    target = greedy_ids(new_engine(model, LIMITS), [source])[0]
    assert_greedy(model, source, target)
    assert target != greedy_ids(new_engine(family.model(), LIMITS), [source])[0]


def test_clear_forgets_every_sequence(family: Family) -> None:
    engine, sources = new_engine(family.model(), LIMITS), tiny_sources(4, longest=12)
    expected = greedy_ids(engine, sources)
    engine.admit([Sequence(i, source) for i, source in enumerate(sources)])
    engine.step()
    engine.clear()
    assert (engine.num_rows, engine.free_rows, engine.drain_stats()) == (0, 8, [])
    assert greedy_ids(engine, sources) == expected


def test_torch_runner_allocates_its_cache_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of NLLB-200-distilled-600M take 3.2 GB, and there were two of them at each clear."""
    caches: list[DecodingCache] = []

    class Counted(DecodingCache):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            caches.append(self)

    monkeypatch.setattr(torch_runner, "DecodingCache", Counted)
    model, sources = tiny_model(tiny_config(), 0), tiny_sources(4, longest=12)
    engine = Engine(TorchRunner(model, LIMITS), LIMITS)
    expected = greedy_ids(engine, sources)
    for tensor in vars(caches[0]).values():
        tensor.fill_(3)  # what earlier sentences leave must not matter
    engine.clear()
    assert len(caches) == 1
    assert greedy_ids(engine, sources) == expected


def test_figures_count_what_was_computed() -> None:
    engine = new_engine(tiny_model(tiny_config(), 0), LIMITS)
    engine.admit([Sequence(0, [5, 0]), Sequence(1, [*range(2, 30), 0])])
    engine.step()
    encode, decode = engine.drain_stats()
    assert (encode.phase, encode.rows, encode.tokens) == ("encode", 2, 31)
    assert (encode.tokens + encode.padding_tokens) % 2 == 0
    assert encode.padding_tokens > 0
    assert (decode.phase, decode.rows, decode.tokens) == ("decode", 2, 2)
    assert decode.padding_tokens == MIN_ROWS - 2
    assert engine.drain_stats() == []


def encode_groups(limits: EngineLimits, lengths: list[int]) -> Iterator[tuple[int, int]]:
    """(rows, padded tokens) of each encoder batch for sources of these lengths."""
    engine = new_engine(tiny_model(tiny_config(), 0), limits)
    engine.admit([Sequence(i, [5] * (n - 1) + [0]) for i, n in enumerate(lengths)])
    for figures in engine.drain_stats():
        yield figures.rows, figures.tokens + figures.padding_tokens


def test_waiting_sequences_are_encoded_by_length_within_the_token_budget() -> None:
    limits = EngineLimits(max_rows=16, max_source_tokens=128, max_batch_tokens=256)
    groups = list(encode_groups(limits, [120, 4, 5, 4, 128, 6, 5, 4, 4, 5, 6, 7]))
    assert sum(rows for rows, _ in groups) == 12
    assert all(padded <= 256 for _, padded in groups)
    assert all(padded // rows <= 32 or padded // rows >= 120 for rows, padded in groups)


def test_a_source_beyond_the_token_budget_is_encoded_alone() -> None:
    limits = EngineLimits(max_rows=4, max_source_tokens=128, max_batch_tokens=64)
    assert [rows for rows, _ in encode_groups(limits, [128, 128])] == [1, 1]


# Refusals

VALID = [5, 6, 0]


@pytest.mark.parametrize(
    ("sequence", "error", "message"),
    [
        (Sequence(0, []), InputError, "no tokens"),
        (Sequence(0, [5] * 42), InputError, "42 tokens; the limit is 41. Split"),
        (Sequence(0, [5, VOCAB_SIZE, 0]), InputError, "from 0 to 64; the vocabulary has 64"),
        (Sequence(0, [5, -1, 0]), InputError, "from -1 to 5; the vocabulary has 64"),
        (Sequence(0, VALID, DecodingOptions(9)), InputError, "is 9; it must be from 1 to 8"),
        (Sequence(0, VALID, DecodingOptions(0)), InputError, "is 0; it must be from 1 to 8"),
        (
            Sequence(0, VALID, DecodingOptions(prefix=(9,) * 9)),
            InputError,
            "9 tokens; the lim",
        ),
        (Sequence(0, VALID, DecodingOptions(prefix=(64,))), InputError, "ids from 64 to 64"),
        (
            Sequence(0, VALID, DecodingOptions(prefix=(9, 0, 1))),
            InputError,
            r"target has: .0, 1",
        ),
        (Sequence(0, VALID, first_id=9), InputError, "no first token .*, as 9"),
    ],
)
def test_what_cannot_be_translated_is_refused(
    sequence: Sequence, error: type[InputError], message: str
) -> None:
    engine = new_engine(tiny_model(tiny_config(), 0), LIMITS)
    with pytest.raises(error, match=message):
        engine.check(sequence)
    with pytest.raises(error, match=message):
        engine.admit([Sequence(1, VALID), sequence])
    assert engine.num_rows == 0


@pytest.mark.parametrize(
    ("first_id", "error", "message"),
    [
        (VOCAB_SIZE, InputError, "target has ids from 64 to 64; the vocabulary has 64"),
        (-1, InputError, "target has ids from -1"),
        (1, InputError, "1, is never generated"),
    ],
)
def test_a_first_token_that_cannot_be_said_is_refused(
    first_id: int, error: type[InputError], message: str
) -> None:
    engine = new_engine(tiny_model(tiny_config(forces_first=True), 0), LIMITS)
    with pytest.raises(error, match=message):
        engine.check(Sequence(0, VALID, first_id=first_id))


def test_more_rows_than_are_free_are_refused_before_any_is_taken() -> None:
    engine = new_engine(tiny_model(tiny_config(), 0), LIMITS)
    engine.admit([Sequence(0, VALID, DecodingOptions(6))])
    with pytest.raises(InputError, match="3 rows are needed; 2 are free"):
        engine.admit([Sequence(1, VALID, BEAM)])
    assert engine.num_rows == 6


def test_argmax_takes_the_best_column_and_the_first_of_equals() -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0], [-torch.inf, -torch.inf, -3.0]])
    assert argmax(logits).tolist() == [1, 2]
