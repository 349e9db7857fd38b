"""The runner for GPUs, on a CPU: all but the graphs. With graphs: tests/parity/test_cuda.py."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from model.backends.cuda import runner as runner_module
from model.backends.cuda.graphs import Downloads, Graphs, Slot, Uploads
from model.backends.cuda.runner import (
    BEAM,
    ENCODE_TOKENS,
    MIN_ROWS,
    TOKENS_PER_CALL,
    CudaRunner,
    fitting_rows,
    sizes,
)
from model.backends.decoder_batch import DecodingCache
from model.backends.torch_runner import TorchRunner
from model.config import DecoderKind
from model.engine.engine import Engine
from model.layers.attention import MultiHeadAttention
from model.sequence import BatchStats, DecodingOptions, EngineLimits, Finished, Sequence
from service.workers.device_memory import held_bytes
from tests.attention_jobs import check_recorded
from tests.tiny import (
    FIXED_SHORTLIST,
    Family,
    assert_same_hypotheses,
    forced_log_probs,
    greedy_ids,
    tiny_config,
    tiny_model,
    tiny_sources,
    translate,
)

CPU = torch.device("cpu")
LIMITS = EngineLimits(max_rows=40, max_source_tokens=41, max_batch_tokens=256)
RECORDED = DecodingOptions(return_attention=True)
OPTIONS = [DecodingOptions(), DecodingOptions(return_scores=True), DecodingOptions(3, 3)]


def cuda_engine(family: Family, limits: EngineLimits = LIMITS) -> Engine:
    return Engine(CudaRunner(family.model(), limits), limits)


def plain_engine(family: Family, limits: EngineLimits = LIMITS) -> Engine:
    return Engine(TorchRunner(family.model(), limits), limits)


def cuda_runner(engine: Engine) -> CudaRunner:
    assert isinstance(engine.runner, CudaRunner)
    return engine.runner


# The same as the plain runner


def test_translations_are_those_of_the_plain_runner(family: Family) -> None:
    sources = tiny_sources(45, longest=20)
    targets = greedy_ids(cuda_engine(family), sources)
    assert targets == greedy_ids(plain_engine(family), sources)
    assert len(set(map(tuple, targets))) > 30


def test_log_probs_are_those_of_the_plain_runner(family: Family) -> None:
    """Over a target that is not the model's own; the device chooses the two largest a row."""
    model, source, target = family.model(), tiny_sources(1)[0], [7, 3, 60, 5, 0]
    found = forced_log_probs(CudaRunner(model, LIMITS), source, target)
    expected = forced_log_probs(TorchRunner(model, LIMITS), source, target)
    given = np.isfinite(found)
    assert (given.sum(axis=1) == 2).all()
    assert found[given] == pytest.approx(expected[given], abs=1e-4)
    assert (expected[given].reshape(-1, 2).min(axis=1) >= np.sort(expected)[:, -2]).all()


def test_vocabulary_of_any_size_gives_the_same_translations(family: Family) -> None:
    """The output layer is padded; its padding is not chosen, by a beam search neither."""
    changes = {"source_vocab_size": 67, "target_vocab_size": 67}
    engine = Engine(CudaRunner(family.model(**changes), LIMITS), LIMITS)
    assert cuda_runner(engine).logits.shape[1] == 128
    options = [*OPTIONS, DecodingOptions(2, 2, prefix=(9, 7))]
    sequences = [Sequence(i, s, options[i % 4]) for i, s in enumerate(tiny_sources(16))]
    found = translate(engine, sequences)
    plain = Engine(TorchRunner(family.model(**changes), LIMITS), LIMITS)
    for name, hypotheses in translate(plain, sequences).items():
        assert_same_hypotheses(found[name], hypotheses)


SEARCHES = [
    DecodingOptions(return_scores=True),
    DecodingOptions(2, 2, 0.6),
    DecodingOptions(4, 4, 0.0),
    DecodingOptions(1, prefix=(9, 7, 5)),
    DecodingOptions(3, 3, prefix=(9,)),
    DecodingOptions(BEAM + 3, 2),
    DecodingOptions(),
    DecodingOptions(),
]


def test_searches_are_those_of_the_plain_runner(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They enter, end and move beside greedy rows. More rows than SEARCH_ROWS take two launches."""
    monkeypatch.setattr(runner_module, "SEARCH_ROWS", 16)
    limits, chance = replace(LIMITS, max_rows=20), random.Random(20)
    changes = {"max_length_factor": 1.5, "forces_first": family.seed % 2 > 0}
    model = family.model(**changes)
    sequences = [
        Sequence(
            i, [7, *source], SEARCHES[chance.randrange(8)], 9 if changes["forces_first"] else None
        )
        for i, source in enumerate(tiny_sources(32, longest=20))
    ]
    expected = translate(Engine(TorchRunner(model, limits), limits), sequences)
    engine, waiting, ended = Engine(CudaRunner(model, limits), limits), [*sequences], 0
    while waiting or engine.num_rows:
        while waiting and waiting[-1].options.beam_size <= engine.free_rows:
            engine.admit([waiting.pop()])
            if chance.random() < 0.5:
                break
        if chance.random() < 0.1:
            engine.abort(chance.randrange(32))
        for done in engine.step():
            assert_same_hypotheses(done.hypotheses, expected[done.id])
            ended += 1
    assert ended > 20
    assert not cuda_runner(engine).search_rows


def test_a_search_waits_only_when_its_results_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine launches the other rows before."""
    runner, waits = CudaRunner(tiny_model(tiny_config(), 0), LIMITS), list[Slot]()
    with torch.inference_mode():
        runner.enter(0, [Sequence(0, [5, 6, 0], DecodingOptions(2))])
        monkeypatch.setattr(Slot, "wait", lambda slot: waits.append(slot))
        found = runner.search([[0, 1]], [[0.0, -np.inf]], 2)
        waits.clear()  # those of the upload
        assert len([*found]) == 2
    assert len(waits) == 1


def test_a_search_copies_no_padding_of_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    """With BEAM rows for each row of a step, the copies would take eight times the memory."""
    runner, copied = CudaRunner(tiny_model(tiny_config(), 0), LIMITS), list[int]()

    def note(cache: DecodingCache, source: Tensor, target: Tensor, is_same_source: bool) -> None:
        copied.extend(map(len, (source, target)))

    with torch.inference_mode():
        runner.enter(0, [Sequence(0, [5, 6, 0], DecodingOptions(2))])
        monkeypatch.setattr(DecodingCache, "copy_rows", note)
        runner.search([[0, 1]], [[0.0, -np.inf]], 1)
    assert copied == [MIN_ROWS, MIN_ROWS]


def test_log_probs_of_halves_are_not_rounded(family: Family) -> None:
    """They are sums of products of bfloat16 numbers, in float32."""
    model, source = family.model().bfloat16(), tiny_sources(1)[0]
    runner = CudaRunner(model, LIMITS)
    hidden = torch.randn(4, model.config.d_model, generator=torch.manual_seed(1)).bfloat16()
    logits = runner.output.float_logits(hidden)
    exact = hidden.double() @ runner.output.weight.double().t() + runner.output.bias.double()
    torch.testing.assert_close(logits.double(), exact, rtol=1e-5, atol=1e-5)
    found = forced_log_probs(runner, source, [7, 3, 60, 5, 0])
    given = torch.from_numpy(found[np.isfinite(found)])
    assert (given != given.bfloat16().float()).all()


def test_a_model_may_start_from_a_token() -> None:
    model = tiny_model(tiny_config(start_id=9), 44)
    sources = tiny_sources(20)
    found = greedy_ids(Engine(CudaRunner(model, LIMITS), LIMITS), sources)
    assert found == greedy_ids(Engine(TorchRunner(model, LIMITS), LIMITS), sources)
    assert found != greedy_ids(
        cuda_engine(Family(DecoderKind.SSRU, model.config.norm, 44)), sources
    )


def test_only_candidates_of_a_fixed_shortlist_are_chosen(family: Family) -> None:
    changes = {"source_vocab_size": 67, "target_vocab_size": 67}  # the output layer is padded
    runners = [
        kind(family.model(**changes), LIMITS, FIXED_SHORTLIST) for kind in (CudaRunner, TorchRunner)
    ]
    sequences = [Sequence(i, s, OPTIONS[i % 3]) for i, s in enumerate(tiny_sources(15))]
    found, plain = (translate(Engine(runner, LIMITS), sequences) for runner in runners)
    for name, hypotheses in plain.items():
        assert_same_hypotheses(found[name], hypotheses)
        chosen = {token for each in hypotheses for token in each.tokens}
        assert chosen <= set(FIXED_SHORTLIST.candidates.tolist())


def test_each_sequence_may_have_its_own_first_token() -> None:
    """Under beams and scores too, among rows that come and go and some that are free."""
    model = tiny_model(tiny_config(forces_first=True), 44)
    first = [(9, 13, None)[i % 4 % 3] for i in range(30)]
    sequences = [Sequence(i, s, OPTIONS[i % 3], first[i]) for i, s in enumerate(tiny_sources(30))]
    found = translate(Engine(CudaRunner(model, LIMITS), LIMITS), sequences)
    plain = translate(Engine(TorchRunner(model, LIMITS), LIMITS), sequences)
    for name, hypotheses in plain.items():
        assert_same_hypotheses(found[name], hypotheses)
        if first[name] is not None:
            assert all(hypothesis.tokens[0] == first[name] for hypothesis in hypotheses)
    free = {found[i][0].tokens[0] for i in found if first[i] is None}
    assert free - {9, 13}


@pytest.mark.parametrize("kind", [CudaRunner, TorchRunner])
def test_a_row_that_moves_before_its_first_step_keeps_its_first_token(kind: Any) -> None:
    engine = Engine(kind(tiny_model(tiny_config(forces_first=True), 44), LIMITS), LIMITS)
    sources = tiny_sources(3, longest=9)
    engine.admit([Sequence(i, s, first_id=9 + 4 * i) for i, s in enumerate(sources)])
    moved = engine.owners[-1].sequence.id
    engine.abort(engine.owners[0].sequence.id)
    finished: list[Finished] = []
    while engine.num_rows:
        finished += engine.step()
    (hypotheses,) = [each.hypotheses for each in finished if each.id == moved]
    assert hypotheses[0].tokens[0] == 9 + 4 * moved


def test_what_a_cleared_engine_held_leaves_no_trace(family: Family) -> None:
    engine, sources = cuda_engine(family), tiny_sources(40, longest=20)
    engine.admit([Sequence(i, source) for i, source in enumerate(sources)])
    engine.step()
    engine.step()
    cuda_runner(engine).cache.memory_value.fill_(torch.nan)  # as after a step that went wrong
    engine.clear()
    assert greedy_ids(engine, sources) == greedy_ids(plain_engine(family), sources)


def test_rows_not_in_use_stay_in_bounds(family: Family) -> None:
    """They go on from where a long target left them, beside a row that starts again and again."""
    engine, source = cuda_engine(family), tiny_sources(1)[0]
    runner = cuda_runner(engine)
    greedy_ids(engine, [[*range(2, 42), 0]] * 8)
    with torch.inference_mode():
        for _ in range(8):
            runner.enter(0, [Sequence(0, source)])
            for _ in range(10):
                runner.decode(1, [], np.full(1, TOKENS_PER_CALL), TOKENS_PER_CALL)
    assert int(runner.cache.positions.max()) <= runner.max_target_tokens
    assert greedy_ids(engine, [source]) == greedy_ids(plain_engine(family), [source])


# Recorded attention


@pytest.mark.parametrize("layer", [None, 1], ids=["mean", "one head"])
def test_recorded_attention_is_that_of_a_second_pass(family: Family, layer: int | None) -> None:
    """Rows enter, leave and move while launches are pending, and some sequences are aborted."""
    model = family.model(alignment_layer=layer, max_length_factor=1.5)
    engine, chance = Engine(CudaRunner(model, LIMITS), LIMITS), random.Random(1)
    options = [RECORDED, DecodingOptions(), RECORDED, replace(OPTIONS[2], return_attention=True)]
    sequences = [
        Sequence(number, source, options[number % 4])
        for number, source in enumerate(tiny_sources(40, longest=30))
    ]
    waiting = [*sequences]
    while waiting or engine.num_rows:
        if engine.free_rows >= 12:
            engine.admit([waiting.pop() for _ in range(min(4, len(waiting)))])
        if chance.random() < 0.2:
            engine.abort(chance.randrange(40))
        for done in engine.step():
            sequence = sequences[done.id]
            if sequence.id % 4 == 3:  # a search
                assert all(each.attention is None for each in done.hypotheses)
            else:
                check_recorded(model, sequence, done.hypotheses, 1e-5)
    assert not cuda_runner(engine).records.of_rows


def test_recording_changes_no_token(family: Family) -> None:
    sources = tiny_sources(45, longest=20)
    recorded = [Sequence(number, source, RECORDED) for number, source in enumerate(sources)]
    found = translate(cuda_engine(family), recorded)
    assert [found[number][0].tokens for number in range(45)] == greedy_ids(
        cuda_engine(family), sources
    )


# What graphs rely on


def addresses(runner: CudaRunner) -> list[int]:
    tensors = [
        *vars(runner.cache).values(),
        runner.tokens,
        runner.first_ids,
        runner.chosen,
        runner.logits,
        runner.output.weight,
        runner.output.bias,
        runner.uploads.arrived,
        runner.records.weights,
        *(runner.search_cache.cell, runner.search_cache.positions),
        *(runner.search_tokens, runner.totals, runner.continuations),
        runner.model.encoder.embedding.table,
        runner.model.decoder.embedding.table,
        *runner.model.parameters(),
        *(
            tensor
            for module in runner.model.modules()
            if isinstance(module, MultiHeadAttention)
            for tensor in module.fused or ()
            if tensor is not None
        ),
    ]
    return [tensor.data_ptr() for tensor in tensors]


def test_what_a_graph_reads_never_moves(family: Family) -> None:
    engine = cuda_engine(family)
    before = addresses(cuda_runner(engine))
    sources = [*tiny_sources(30, longest=15), [*range(2, 42), 0]]
    translate(engine, [Sequence(i, s, OPTIONS[i % 3]) for i, s in enumerate(sources)])
    engine.clear()
    assert addresses(cuda_runner(engine)) == before


def test_what_is_captured_looks_at_no_value(family: Family) -> None:
    """On the meta device there are none: what waits for a device to know one fails there."""
    runner = CudaRunner(family.model().to("meta"), replace(LIMITS, max_rows=8))
    calls = list(runner._shapes())
    with torch.inference_mode():
        for function, shape in calls:
            function(*shape)
    assert len(calls) == len({(function.__name__, shape) for function, shape in calls})
    assert {function.__name__ for function, _ in calls} == {
        *("_encode", "_decode", "_decode_recording", "_search_step", "_move")
    }


def test_what_is_captured_runs_one_after_the_other(family: Family) -> None:
    """No function changes the uploaded row numbers, from which the next one reads its own."""
    runner = CudaRunner(family.model(), LIMITS)
    runner.uploads.arrived.fill_(1)  # as before a capture
    with torch.inference_mode():
        for function, shape in runner._shapes():
            function(*shape)
    assert (runner.uploads.arrived == 1).all()


def test_one_graph_of_steps_serves_all_lengths(family: Family) -> None:
    runner = CudaRunner(family.model(), LIMITS)
    steps = [shape for function, shape in runner._shapes() if function.__name__ == "_decode"]
    assert sorted(steps) == [(rows, TOKENS_PER_CALL) for rows in runner.row_sizes]


def test_every_step_is_of_a_shape_that_is_captured(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = cuda_engine(family)
    runner = cuda_runner(engine)
    captured = {(function.__name__, shape) for function, shape in runner._shapes()}
    ran = set()
    run = runner.graphs.run

    def noting(function: object, *shape: int) -> None:
        ran.add((getattr(function, "__name__", ""), shape))
        run(getattr(runner, getattr(function, "__name__", "")), *shape)

    monkeypatch.setattr(runner.graphs, "run", noting)
    greedy_ids(engine, tiny_sources(45, longest=15))
    kinds, sources = [*OPTIONS, RECORDED], tiny_sources(30, longest=15)
    translate(engine, [Sequence(i, s, kinds[i % 4]) for i, s in enumerate(sources)])
    assert ran <= captured
    assert {name for name, _ in ran} == {name for name, _ in captured}
    assert len([name for name, _ in ran if name == "_search_step"]) >= 2


class FakeGraph:
    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1


def test_a_captured_shape_is_replayed_and_others_run() -> None:
    calls: list[tuple[int, ...]] = []

    def function(*shape: int) -> None:
        calls.append(shape)

    graphs, graph = Graphs(CPU), FakeGraph()
    graphs.captured["function", (1, 2)] = graph  # type: ignore[assignment]
    graphs.run(function, 1, 2)
    graphs.run(function, 2, 1)
    assert (graph.replays, calls) == (1, [(2, 1)])


def test_nothing_is_captured_without_a_gpu() -> None:
    engine = Engine(CudaRunner(tiny_model(tiny_config(), 0), LIMITS), LIMITS)
    cuda_runner(engine).capture()
    assert cuda_runner(engine).graphs.captured == {}
    assert engine.num_rows == 0


def test_too_little_memory_for_graphs_ends_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without graphs the model would need the same memory later, beside the models that serve."""
    graphs = Graphs(torch.device("cuda"))

    def refuse(calls: object) -> None:
        graphs.captured["function", ()] = FakeGraph()  # type: ignore[assignment]
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(graphs, "_capture", refuse)
    monkeypatch.setattr(torch.cuda, "device", lambda device: torch.no_grad())
    with pytest.raises(torch.OutOfMemoryError):
        graphs.capture([])
    assert graphs.captured == {}


def test_capture_is_tried_again_without_cached_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs, calls = Graphs(torch.device("cuda")), list[str]()

    def capture(_calls: object) -> None:
        calls.append("capture")
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(graphs, "_capture", capture)
    monkeypatch.setattr(torch.cuda, "device", lambda device: torch.no_grad())
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty"))
    graphs.capture([])
    assert calls == ["capture", "empty", "capture"]


class CudaCalls:
    """Stands in for torch.cuda during captures, and notes the calls; `fails` fails a capture."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.fails = False
        calls = self.calls

        class Graph:
            def capture_begin(self, pool: tuple[int, int], capture_error_mode: str) -> None:
                assert (pool, capture_error_mode) == ((0, 1), "thread_local")
                calls.append("begin")

            def capture_end(self) -> None:
                calls.append("end")
                if calls[-2] == "failed":
                    raise RuntimeError("capture was invalidated")

        class Stream:
            def wait_stream(self, other: object) -> None:
                calls.append("wait")

        def refuse(*_: object) -> None:
            raise AssertionError("the models that serve would wait")

        segments = [
            {"segment_pool_id": (0, 1), "total_size": 40},
            {"segment_pool_id": (0, 0), "total_size": 1000},
            {"segment_pool_id": (0, 1), "total_size": 2},
        ]
        for name, value in (
            ("CUDAGraph", Graph),
            ("Stream", Stream),
            ("current_stream", Stream),
            ("stream", lambda stream: torch.no_grad()),
            ("device", lambda device: torch.no_grad()),
            ("graph_pool_handle", lambda: (0, 1)),
            ("memory_snapshot", lambda: segments),
            ("synchronize", refuse),
            ("empty_cache", refuse),
        ):
            monkeypatch.setattr(torch.cuda, name, value)

    def compute(self, *shape: int) -> None:
        if self.fails and self.calls[-1] == "begin":
            self.calls.append("failed")
            raise RuntimeError("operation not permitted when stream is capturing")
        self.calls.append(f"compute {shape[0]}")


def test_capture_waits_for_no_other_work_and_counts_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda, graphs = CudaCalls(monkeypatch), Graphs(torch.device("cuda"))
    graphs.capture([(cuda.compute, (8,)), (cuda.compute, (4,))])
    assert cuda.calls == [
        "wait",
        *("compute 8", "begin", "compute 8", "end"),
        *("compute 4", "begin", "compute 4", "end"),
        "wait",
    ]
    assert [*graphs.captured] == [("compute", (8,)), ("compute", (4,))]
    assert graphs.native_bytes == held_bytes(graphs) == 42


def test_capture_that_fails_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cuda, graphs = CudaCalls(monkeypatch), Graphs(torch.device("cuda"))
    cuda.fails = True
    graphs.capture([(cuda.compute, (8,))])
    assert cuda.calls[-3:] == ["failed", "end", "wait"]
    assert graphs.captured == {}
    assert "not permitted when stream is capturing" in caplog.text


# Batches of newcomers


def encoded(limits: EngineLimits, lengths: list[int]) -> list[BatchStats]:
    """One for each batch in which sources of these lengths are encoded."""
    engine = Engine(CudaRunner(tiny_model(tiny_config(), 0), limits), limits)
    engine.admit([Sequence(i, [5] * (n - 1) + [0]) for i, n in enumerate(lengths)])
    return engine.drain_stats()


WIDE = EngineLimits(max_rows=256, max_source_tokens=128, max_batch_tokens=4096)


def test_few_waiting_sequences_of_any_lengths_share_a_batch() -> None:
    (stats,) = encoded(WIDE, [*[8] * 12, 90, 40])
    assert (stats.phase, stats.rows, stats.tokens) == ("encode", 14, 96 + 130)
    assert stats.tokens + stats.padding_tokens == 16 * 96


def test_many_are_not_padded_to_the_longest() -> None:
    first, second = encoded(WIDE, [*[30] * 60, *[120] * 5])
    assert first.rows + second.rows == 65
    assert first.rows - 5 == ENCODE_TOKENS // (128 - 32)
    assert second.padding_tokens < second.tokens


def test_batches_keep_to_the_token_budget() -> None:
    limits = replace(WIDE, max_batch_tokens=256)
    found = encoded(limits, [120, 4, 5, 4, 128, 6, 5, 4, 4, 5, 6, 7])
    assert sum(stats.rows for stats in found) == 12
    assert all(stats.tokens + stats.padding_tokens <= 256 for stats in found)


def test_a_source_beyond_the_token_budget_is_encoded_alone() -> None:
    assert [stats.rows for stats in encoded(replace(WIDE, max_batch_tokens=64), [128] * 2)] == [
        1,
        1,
    ]


def drained(engine: Engine) -> list[Finished]:
    finished: list[Finished] = []
    while engine.num_rows:
        finished += engine.step()
    return finished


def test_figures_count_the_rows_computed_for_nothing() -> None:
    engine = Engine(CudaRunner(tiny_model(tiny_config(), 0), LIMITS), LIMITS)
    engine.admit([Sequence(i, [5, 6, 7, 0]) for i in range(9)])
    lengths = [len(finished.hypotheses[0].tokens) for finished in drained(engine)]
    decode = [stats for stats in engine.drain_stats() if stats.phase == "decode"]
    assert sum(stats.rows for stats in decode) == sum(lengths)
    assert len(decode) == max(lengths)
    assert {stats.rows + stats.padding_tokens for stats in decode} == {16}


# Sizes


def test_sizes_double_and_then_come_halves() -> None:
    assert sizes(8, 1024, halves_from=256) == [8, 16, 32, 64, 128, 256, 384, 512, 768, 1024]
    assert sizes(32, 128, halves_from=64) == [32, 64, 96, 128]
    assert sizes(32, 392, halves_from=999) == [32, 64, 128, 256, 392]
    assert sizes(8, 8, halves_from=8) == [8]
    assert sizes(32, 40, halves_from=64) == [32, 40]
    assert sizes(1, 1, halves_from=16) == [1]


@pytest.mark.parametrize(
    ("free_gib", "rows"), [(80.0, 1024), (1.0, 64), (0.0, 64)], ids=["large", "small", "none"]
)
def test_rows_without_a_setting_follow_the_memory(free_gib: float, rows: int) -> None:
    config = tiny_config(d_model=512, num_heads=8, decoder=DecoderKind.SELF_ATTENTION)
    model = tiny_model(replace(config, decoder_layers=6), 0)
    assert fitting_rows(model, EngineLimits(), int(free_gib * 2**30)) == rows


def test_rows_take_a_quarter_of_the_memory_at_most() -> None:
    model = tiny_model(tiny_config(), 0)
    rows = fitting_rows(model, LIMITS, 2**24)
    limits = replace(LIMITS, max_rows=rows)
    assert 64 < rows < 1024
    assert CudaRunner(model, limits).cache.num_bytes <= 2**22
    assert CudaRunner(model, replace(limits, max_rows=3 * rows)).cache.num_bytes > 2**22


# Transfers


def test_uploads_arrive_side_by_side_through_more_than_all_slots() -> None:
    uploads = Uploads(6, CPU, slots=2)
    for number in range(5):
        uploads.send(np.array([[number, 1], [2, 3]]), np.array([number]))
        assert uploads.arrived.tolist() == [number, 1, 2, 3, number, 0]


def test_what_was_fetched_stays_until_as_many_more_were() -> None:
    downloads = Downloads(4, CPU, slots=3)
    slots = [downloads.fetch(torch.tensor([number, number])) for number in range(3)]
    assert [slot.numbers[:2].tolist() for slot in slots] == [[0, 0], [1, 1], [2, 2]]
    assert downloads.fetch(torch.tensor([9])) is slots[0]


def test_the_outcome_of_a_step_outlives_the_next_ones() -> None:
    """The engine may keep it; its slot is written again."""
    runner = CudaRunner(tiny_model(tiny_config(), 0), LIMITS)
    with torch.inference_mode():
        runner.enter(0, [Sequence(0, [5, 6, 0])])
        first = runner.decode(1, [], np.ones(1, np.int64), 1).wait()
        best = first.best.copy()
        for _ in range(6):
            runner.decode(1, [], np.ones(1, np.int64), 1).wait()
    assert first.best.tolist() == best.tolist()
