"""The native runner on tiny models: the same as PyTorch, and the same bits in any company."""

import ctypes
import random
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.output import AnyShortlist, Ids
from model.architectures.stack import EncoderDecoder
from model.backends.base import DecodeStep, completed_step
from model.backends.native import library as native
from model.backends.native.library import (
    LIBRARIES,
    Library,
    address,
    can_serve,
    check,
    int32,
    load_libraries,
)
from model.backends.native.runner import NativeRunner
from model.backends.torch_runner import TorchRunner
from model.checkpoints.build import new_engine
from model.config import Activation, DecoderKind, NormPosition
from model.engine.engine import Engine
from model.precision import select_precision
from model.sequence import DecodingOptions, EngineLimits, Hypothesis, Sequence
from tests.attention_jobs import check_recorded
from tests.tiny import (
    FIXED_SHORTLIST,
    LIMITS,
    assert_same_hypotheses,
    forced_log_probs,
    greedy_ids,
    native_scores,
    quantized,
    tiny_config,
    tiny_model,
    tiny_shortlist,
    tiny_sources,
    translate,
)

pytestmark = pytest.mark.skipif(not LIBRARIES, reason="nothing was compiled for this processor")

each_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
CPU = torch.device("cpu")
KINDS: dict[str, dict[str, Any]] = {
    "ssru": {},
    "ssru pre-norm": {"norm": NormPosition.PRE, "norms_keys": False},
    "self-attention": {"decoder": DecoderKind.SELF_ATTENTION, "start_id": 5},
    "self-attention pre-norm": {
        "decoder": DecoderKind.SELF_ATTENTION,
        "norm": NormPosition.PRE,
        "start_id": 5,
        "position_offset": 2,
        "activation": Activation.RELU,
    },
    "self-attention of Marian": {
        "decoder": DecoderKind.SELF_ATTENTION,
        "norm": NormPosition.PRE,
        "norms_keys": False,
        "activation": Activation.GELU,
        "scales_embeddings": False,
    },
}
SHORTLISTS = {"whole": None, "lexical": tiny_shortlist(8), "fixed": FIXED_SHORTLIST}
each_kind = pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
PAIRS = {
    f"{library.name} {shortlist} {kind}": (library, SHORTLISTS[shortlist], KINDS[kind])
    for number, library in enumerate(LIBRARIES)
    for kind, shortlist in zip(KINDS, islice(cycle(SHORTLISTS), number, None), strict=False)
}
"""Each library with each kind of model, and each library with each shortlist."""
each_pair = pytest.mark.parametrize(("library", "shortlist", "changes"), PAIRS.values(), ids=PAIRS)
OPTIONS = [DecodingOptions(), DecodingOptions(return_scores=True), DecodingOptions(3, 3)]


def config(**changes: Any) -> Any:
    return tiny_config(**{"d_model": 64, "num_heads": 4, "ffn_dim": 128, **changes})


def int8_model(seed: int = 44, **changes: Any) -> EncoderDecoder:
    return quantized(tiny_model(config(**changes), seed))


def native_engine(
    model: EncoderDecoder, library: Library, shortlist: AnyShortlist | None = None
) -> Engine:
    return Engine(NativeRunner(model, LIMITS, shortlist, library), LIMITS)


Changes = tuple[tuple[str, Any], ...]
SOURCES, TARGET = tiny_sources(10, longest=36), [7, 3, 60, 0]
LONG: dict[str, Any] = {"max_length_factor": 1.5}
BEAMS = [Sequence(i, s, DecodingOptions(4, 4)) for i, s in enumerate(tiny_sources(9))]


@cache
def log_probs_of_pytorch(changes: Changes) -> list[Any]:
    plain = TorchRunner(int8_model(**dict(changes)), LIMITS)
    return [forced_log_probs(plain, source, TARGET) for source in SOURCES]


@cache
def targets_of_pytorch(changes: Changes, shortlist: AnyShortlist | None) -> list[list[int]]:
    runner = TorchRunner(int8_model(**dict(changes)), LIMITS, shortlist)
    return greedy_ids(Engine(runner, LIMITS), tiny_sources(20))


@cache
def beams_of_pytorch(changes: Changes) -> dict[int, list[Hypothesis]]:
    runner = TorchRunner(int8_model(**LONG, **dict(changes)), LIMITS, tiny_shortlist(8))
    return translate(Engine(runner, LIMITS), BEAMS)


def test_build_of_other_sources_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would take structures that are no longer so; workers died of one, again and again."""
    names = [library.name for library in LIBRARIES]
    assert [library.name for library in load_libraries(tmp_path)] == names  # none to compare with
    assert [library.name for library in load_libraries(tmp_path / "absent")] == names
    (tmp_path / "batch.cpp").write_text("int another;")
    assert load_libraries(tmp_path) == []
    assert f"{names[0]} was compiled from other sources" in caplog.text
    assert "make install" in caplog.text


@each_library
def test_structures_have_the_sizes_of_the_native_code(library: Library) -> None:
    """In the order of regard_structures in batch.cpp."""
    names = "MatrixSpec WeightList Sizes Weights ShortlistSpec TextSizes TextWeights Searches"
    sizes = np.zeros(99, np.int32)
    count = library.structures(address(sizes))
    expected = [ctypes.sizeof(getattr(native, name)) for name in names.split()]
    assert sizes[:count].tolist() == expected


@each_library
@pytest.mark.parametrize(("activation", "heads"), [(Activation.RELU, 1), (Activation.SWISH, 4)])
@each_kind
def test_log_probs_are_those_of_pytorch(
    library: Library, activation: Activation, heads: int, changes: dict[str, Any]
) -> None:
    """Float32 sums in another order may round an input to another integer; most sources meet
    no such input, and then all numbers agree."""
    changes = {"activation": activation, "num_heads": heads, **changes}
    found = NativeRunner(int8_model(**changes), LIMITS, None, library)
    worst = []
    for source, b in zip(SOURCES, log_probs_of_pytorch(tuple(changes.items())), strict=True):
        a = forced_log_probs(found, source, TARGET)
        worst.append(np.abs(np.delete(a, 1, axis=-1) - np.delete(b, 1, axis=-1)).max())
    assert sum(difference < 1e-3 for difference in worst) >= 5, worst
    assert max(worst) < 2.0


@each_library
def test_the_unknown_token_is_never_chosen(library: Library) -> None:
    model = int8_model()
    model.decoder.output_bias.data[model.config.unk_id] = 1e4
    targets = greedy_ids(native_engine(model, library), tiny_sources(10))
    assert not any(model.config.unk_id in target for target in targets)


@each_pair
def test_translations_are_those_of_pytorch(
    library: Library, shortlist: AnyShortlist | None, changes: dict[str, Any]
) -> None:
    wanted = targets_of_pytorch(tuple(changes.items()), shortlist)
    engine = native_engine(int8_model(**changes), library, shortlist)
    found = greedy_ids(engine, tiny_sources(20))
    assert sum(a == b for a, b in zip(found, wanted, strict=True)) >= 17
    assert len(set(map(tuple, found))) > 7


@each_library
@each_kind
def test_beams_are_those_of_pytorch(library: Library, changes: dict[str, Any]) -> None:
    engine = native_engine(int8_model(**LONG, **changes), library, tiny_shortlist(8))
    wanted, found = beams_of_pytorch(tuple(changes.items())), translate(engine, BEAMS)
    same = [[h.tokens for h in found[i]] == [h.tokens for h in wanted[i]] for i in range(9)]
    assert sum(same) >= 6


class SteppingRunner(NativeRunner):
    """Decodes one token per call, and leaves the searches to Python."""

    tokens_per_call = 1

    searches_apart = False

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        step = super().decode(rows, [], np.ones(rows, np.int64), 1).wait()
        scores = [native_scores(self, group, self.sources[group[0]]) for group in scored]
        return completed_step(replace(step, scores=scores))


@each_pair
def test_searches_are_those_of_python(
    library: Library, shortlist: AnyShortlist | None, changes: dict[str, Any]
) -> None:
    model = int8_model(max_length_factor=1.5, **changes)
    options = [DecodingOptions(1, return_scores=True), DecodingOptions(2), DecodingOptions(5, 5)]
    options += [DecodingOptions(size, size, prefix=(9, 7)) for size in (1, 3)]
    sequences = [Sequence(i, s, options[i % 5]) for i, s in enumerate(tiny_sources(30))]
    stepping = Engine(SteppingRunner(model, LIMITS, shortlist, library), LIMITS)
    wanted = translate(stepping, sequences)
    found = translate(native_engine(model, library, shortlist), sequences)
    for number in wanted:
        assert_same_hypotheses(found[number], wanted[number])


@each_library
@pytest.mark.parametrize("layer", [None, 1])
def test_recorded_attention_is_that_of_a_second_pass(library: Library, layer: int | None) -> None:
    """Rows enter and leave in turn, so the records move from row to row."""
    model = int8_model(alignment_layer=layer, decoder_layers=2)
    engine = native_engine(model, library)
    engine.low_latency = True
    options = [DecodingOptions(return_attention=True), DecodingOptions(), DecodingOptions(3, 3)]
    waiting = [
        Sequence(number, source, options[number % 3])
        for number, source in enumerate(tiny_sources(24, longest=30))
    ]
    finished = {}
    while waiting or engine.num_rows:
        entering = [waiting.pop() for _ in range(min(2, len(waiting)))]
        for sequence in entering:
            finished[sequence.id] = sequence
        if engine.free_rows >= 6:
            engine.admit(entering)
        else:
            waiting += entering
        for done in engine.step():
            # Where processors add in another order, a number may be rounded to the next int8. One
            # weight of 2,187 then differed by 0.025.
            check_recorded(model, finished[done.id], done.hypotheses, 0.05)


@each_library
def test_recording_changes_no_token(library: Library) -> None:
    model, sources = int8_model(), tiny_sources(40)
    recorded = [
        Sequence(number, source, DecodingOptions(return_attention=True))
        for number, source in enumerate(sources)
    ]
    found = translate(native_engine(model, library), recorded)
    plain = greedy_ids(native_engine(model, library), sources)
    assert [found[number][0].tokens for number in range(40)] == plain
    assert all(found[number][0].attention is not None for number in range(40))


@each_library
def test_sequences_beyond_the_token_limit_are_encoded_in_turn(library: Library) -> None:
    model, sources = int8_model(), tiny_sources(8, longest=40)
    limits = EngineLimits(max_rows=8, max_source_tokens=41, max_batch_tokens=50)
    engine = Engine(NativeRunner(model, limits, None, library), limits)
    engine.admit([Sequence(i, source) for i, source in enumerate(sources)])
    encoded = [s for s in engine.drain_stats() if s.phase == "encode"]
    assert len(encoded) > 1
    assert all(s.tokens <= 50 or s.rows == 1 for s in encoded)
    assert sum(s.rows for s in encoded) == 8
    assert sum(s.padding_tokens for s in encoded) == 0
    targets: dict[int, list[int]] = {}
    while engine.num_rows:
        targets |= {f.id: f.hypotheses[0].tokens for f in engine.step()}
    assert [targets[i] for i in range(8)] == greedy_ids(native_engine(model, library), sources)


@each_pair
def test_sentence_that_comes_again_has_the_same_bits(
    library: Library, shortlist: AnyShortlist | None, changes: dict[str, Any]
) -> None:
    """Its encoding may still be in memory. Sentences that begin alike must not be mistaken."""
    model = int8_model(**changes)
    long, other, *new = tiny_sources(40, seed=3, longest=12)
    sources = [long, long[:-1], other, [*long[:-1], other[0]], [*long, *other]]
    chance = random.Random(7)
    used = native_engine(model, library, shortlist)
    for _ in range(15):
        chosen = chance.choices(sources, k=chance.choice([1, 1, 2, 3]))
        chosen += chance.sample(new, chance.choice([0, 0, 1, 8]))
        sequences = [Sequence(i, source, chance.choice(OPTIONS)) for i, source in enumerate(chosen)]
        expected: dict[int, Any] = {}
        for sequence in sequences:
            expected |= translate(native_engine(model, library, shortlist), [sequence])
        assert translate(used, sequences) == expected


@each_library
@each_kind
def test_step_of_searches_leaves_out_other_rows(library: Library, changes: dict[str, Any]) -> None:
    model = int8_model(**changes)
    sequences = [
        Sequence(i, source, OPTIONS[i]) for i, source in enumerate(tiny_sources(3, seed=5))
    ]
    expected = translate(native_engine(model, library), sequences)
    engine = native_engine(model, library)
    assert engine.searches_apart
    chance, found = random.Random(3), dict[int, Any]()
    engine.admit(sequences)
    engine.low_latency = True
    while engine.searching:
        found |= {each.id: each.hypotheses for each in engine.step(only_searches=True)}
    assert sorted(found) == [1, 2]
    engine.admit([Sequence(10 + each.id, each.source, each.options) for each in sequences[1:3]])
    while engine.num_rows:
        done = engine.step(only_searches=bool(engine.searching) and chance.random() < 0.5)
        found |= {each.id: each.hypotheses for each in done}
    for number, hypotheses in found.items():
        assert_same_hypotheses(hypotheses, expected[number % 10])


@each_library
def test_cleared_batch_is_freed(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failed batch kept its memory until the model was unloaded."""
    freed: list[Any] = []
    monkeypatch.setattr(library, "batch_delete", freed.append)
    runner = NativeRunner(int8_model(), LIMITS, None, library)
    old = runner.batch.handle
    runner.clear()
    assert freed == [old]
    assert runner.batch.handle.value


@each_library
def test_logits_that_do_not_fit_are_refused(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = NativeRunner(int8_model(), LIMITS, None, library)
    runner.enter(0, [Sequence(0, tiny_sources(1)[0])])
    runner.decode(1, [], np.ones(1, np.int64), 1)
    size = runner.config.target_vocab_size
    row, logits = int32([0]), np.empty(size, np.float32)
    places = address(row), address(logits)
    assert library.batch_logits(runner.batch.handle, 1, *places, size - 1) == -2
    assert library.batch_logits(runner.batch.handle, 1, *places, size) == 0


@each_library
def test_row_without_recorded_attention_has_no_weights(library: Library) -> None:
    """C++ leaves a copy from no place undefined, even of zero bytes; sanitizers end the process."""
    runner = NativeRunner(int8_model(), LIMITS, None, library)
    runner.enter(0, [Sequence(0, tiny_sources(1)[0])])
    assert library.batch_attention(runner.batch.handle, 0, 0, None) == 0
    assert library.batch_attention(runner.batch.handle, 0, 1, None) == -2


def test_memory_that_runs_out_is_an_error() -> None:
    """The library is not asked to fail for real: the test's process would go with it."""
    with pytest.raises(MemoryError, match="native code"):
        check(-1)
    check(0)


@each_library
def test_wrong_number_of_matrices_or_norms_is_refused(library: Library) -> None:
    """The native code read wrong memory when the two sides did not agree."""
    for layers in ("encoder", "decoder"):
        model = int8_model()
        getattr(model, layers).layers.append(nn.LayerNorm(64))
        with pytest.raises(RuntimeError, match="refused its arguments"):
            native_engine(model, library)
    too_few = int8_model()
    feed_forward = too_few.get_submodule("decoder.layers.1.feed_forward")
    feed_forward.fc2 = nn.Identity()
    with pytest.raises(RuntimeError, match="refused its arguments"):
        native_engine(too_few, library)


@each_library
@pytest.mark.parametrize("shortlist", [None, FIXED_SHORTLIST], ids=["whole", "fixed"])
def test_given_first_token_is_kept_and_its_probability_is_one(
    library: Library, shortlist: AnyShortlist | None
) -> None:
    model = int8_model(**KINDS["self-attention pre-norm"], forces_first=True)
    sources = tiny_sources(6)
    sequences = [
        Sequence(number, source, OPTIONS[number % 3], first_id=11 + 2 * number)
        for number, source in enumerate(sources)
    ]
    found = translate(native_engine(model, library, shortlist), sequences)
    for number, hypotheses in found.items():
        assert all(hypothesis.tokens[0] == 11 + 2 * number for hypothesis in hypotheses)
    assert found[1][0].log_probs[0] == 0.0


@pytest.mark.parametrize(
    "changes", [{"d_model": 48, "num_heads": 3}, {"ffn_dim": 100}, {"num_heads": 8}]
)
def test_other_models_are_left_to_pytorch(changes: dict[str, Any]) -> None:
    assert can_serve(config())
    assert not can_serve(config(**changes))
    model = int8_model(**changes)
    assert isinstance(new_engine(model, LIMITS).runner, TorchRunner)


def test_without_a_library_pytorch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(new_engine(int8_model(), LIMITS).runner, NativeRunner)
    monkeypatch.setattr(native, "LIBRARIES", [])
    assert not can_serve(config())
    assert isinstance(new_engine(int8_model(), LIMITS).runner, TorchRunner)


def test_auto_is_int8_where_native_code_serves_it() -> None:
    assert select_precision("auto", CPU, is_int8=True) == "int8"
    assert select_precision("auto", CPU, is_int8=False) != "int8"
    assert select_precision("float32", CPU, is_int8=True) == "float32"
