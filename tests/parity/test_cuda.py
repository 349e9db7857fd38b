"""The runners on a GPU: `python -m pytest -m gpu`, on a machine that has one.

What needs no GPU of the one made for it is in tests/unit/test_cuda_runner.py.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from model.backends.cuda.runner import MOST_ROWS, CudaRunner
from model.backends.torch_runner import TorchRunner
from model.checkpoints.build import default_rows, load_engine, load_model, new_engine
from model.checkpoints.load import ModelFiles
from model.encoding.capture_pass import TeacherForcedPass
from model.engine.engine import Engine
from model.inspection.query import AttentionJob, resolve_query
from model.precision import Precision
from model.sequence import DecodingOptions, EngineLimits, Sequence
from service.workers.loading import warm_up
from tests.attention_jobs import (
    assert_maps_close,
    assert_rows_sum_to_one,
    check_recorded,
    finished,
    maps,
    random_pairs,
    results,
)
from tests.golden import sentences
from tests.tiny import (
    FAMILIES,
    LIMITS,
    Family,
    assert_same_hypotheses,
    greedy_ids,
    tiny_sources,
    translate,
)
from tests.unit.test_engine_random import Driver, drive, pool_of_sequences

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
each_family = pytest.mark.parametrize("family", FAMILIES, ids=str)
each_precision = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


@pytest.mark.checkpoint
@pytest.mark.parametrize(("precision", "at_least"), [("float32", 12), ("bfloat16", 8)])
def test_translations_over_a_shortlist_are_those_of_the_cpu(
    built_in: dict[str, ModelFiles], name: str, precision: str, at_least: int
) -> None:
    """With the shortlist, as the golden file was made; bfloat16 rounds some words to others."""
    engine = load_engine(built_in[name], CUDA, Precision(precision), EngineLimits(), True)
    found = greedy_ids(engine, [sentence["source"] for sentence in sentences(name)])
    targets = [sentence["target"] for sentence in sentences(name)]
    assert sum(a == b for a, b in zip(found, targets, strict=True)) >= at_least


@pytest.mark.checkpoint
def test_a_beam_and_scores_work_over_the_whole_vocabulary(built_in: dict[str, ModelFiles]) -> None:
    engine = load_engine(built_in["en-pt"], CUDA, Precision.FLOAT32, EngineLimits(), False)
    source = sentences("en-pt")[0]["source"]
    options = DecodingOptions(beam_size=4, num_hypotheses=4, return_scores=True)
    (hypotheses,) = translate(engine, [Sequence(0, source, options)]).values()
    scores = [hypothesis.score for hypothesis in hypotheses]
    assert len(scores) == 4
    assert scores == sorted(scores, key=lambda score: -(score or 0.0))


@pytest.mark.checkpoint
@pytest.mark.parametrize(("precision", "at_least"), [("float32", 11), ("bfloat16", 8)])
def test_translations_over_the_whole_vocabulary_are_those_of_the_cpu(
    built_in: dict[str, ModelFiles], name: str, precision: str, at_least: int
) -> None:
    """The sentences in float32 on the CPU, and one after the other on the GPU and all at once."""
    sources = [sentence["source"] for sentence in sentences(name)]
    plain = load_engine(built_in[name], CPU, Precision.FLOAT32, EngineLimits(), False)
    engine = load_engine(built_in[name], CUDA, Precision(precision), EngineLimits(), False)
    assert isinstance(engine.runner, CudaRunner)
    wanted = greedy_ids(plain, sources)
    together = greedy_ids(engine, sources)
    alone = [greedy_ids(engine, [source])[0] for source in sources]
    assert sum(a == b for a, b in zip(together, wanted, strict=True)) >= at_least
    assert sum(a == b for a, b in zip(together, alone, strict=True)) >= at_least


# The runner made for GPUs, on tiny models


def cuda_engine(family: Family, dtype: torch.dtype, has_graphs: bool = True) -> Engine:
    limits = EngineLimits(max_rows=40, max_source_tokens=41, max_batch_tokens=256)
    runner = CudaRunner(family.model(max_length_factor=1.2).to(CUDA, dtype), limits)
    if has_graphs:
        runner.capture()
        assert len(runner.graphs.captured) == len(list(runner._shapes()))
    return Engine(runner, limits)


@each_family
@each_precision
def test_graphs_give_what_their_functions_give(family: Family, dtype: torch.dtype) -> None:
    options = [DecodingOptions(), DecodingOptions(return_scores=True), DecodingOptions(3, 3)]
    sources = [*tiny_sources(60), [*range(2, 42), 0]]
    for kinds in (options[:1], options):
        sequences = [Sequence(i, s, kinds[i % len(kinds)]) for i, s in enumerate(sources)]
        eager = translate(cuda_engine(family, dtype, has_graphs=False), sequences)
        assert translate(cuda_engine(family, dtype), sequences) == eager


@each_family
@pytest.mark.parametrize("seed", range(2))
def test_any_sequence_of_calls_settles_each_once(family: Family, seed: int) -> None:
    pool = pool_of_sequences()
    alone = [translate(cuda_engine(family, torch.float32, False), [s])[s.id] for s in pool]
    drive(Driver(cuda_engine(family, torch.float32), seed, alone), pool)


@contextmanager
def no_waiting() -> Iterator[None]:
    """An error for each operation that would have the host wait for the device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mode is announced as a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@each_family
@pytest.mark.parametrize("has_graphs", [True, False], ids=["graphs", "eager"])
def test_nothing_in_the_loop_waits_for_the_device(family: Family, has_graphs: bool) -> None:
    """But for a step's event, once the next one is under way."""
    engine = cuda_engine(family, torch.float32, has_graphs)
    sources = tiny_sources(80)
    greedy_ids(engine, sources)  # compiles kernels and fills caches
    expected = greedy_ids(engine, sources)
    with no_waiting():
        assert greedy_ids(engine, sources) == expected
        engine.admit([Sequence(i, source) for i, source in enumerate(sources[:9])])
        engine.step()
        assert engine.abort(3)
        while engine.num_rows:
            engine.step()
    with no_waiting(), pytest.raises(RuntimeError):
        engine.model.decoder.output_bias[0].item()  # the errors would have come


@each_family
@each_precision
def test_decode_steps_record_attention_without_waiting(family: Family, dtype: torch.dtype) -> None:
    """In bfloat16, the second pass rounds other sums than the decode steps."""
    engine = cuda_engine(family, dtype)
    options = [DecodingOptions(return_attention=True), DecodingOptions()]
    sequences = [Sequence(i, s, options[i % 2]) for i, s in enumerate(tiny_sources(60))]
    translate(engine, sequences)  # compiles kernels and fills caches
    with no_waiting():
        found = translate(engine, sequences)
    tolerance = 1e-4 if dtype is torch.float32 else 0.1
    for sequence in sequences:
        check_recorded(engine.model, sequence, found[sequence.id], tolerance)


SEARCHES = [
    DecodingOptions(return_scores=True),
    DecodingOptions(3, 3, 0.6),
    DecodingOptions(2, 2, prefix=(9, 7)),
    DecodingOptions(),
]


@each_family
def test_searches_are_those_of_the_cpu_and_wait_only_for_their_events(family: Family) -> None:
    engine = cuda_engine(family, torch.float32)
    plain = Engine(TorchRunner(family.model(max_length_factor=1.2), engine.limits), engine.limits)
    sequences = [Sequence(i, [7, *s], SEARCHES[i % 4]) for i, s in enumerate(tiny_sources(40))]
    translate(engine, sequences)  # compiles kernels and fills caches
    with no_waiting():
        found = translate(engine, sequences)
    for number, hypotheses in translate(plain, sequences).items():
        assert_same_hypotheses(found[number], hypotheses)


def test_log_probs_of_halves_are_not_rounded_on_a_gpu() -> None:
    runner = cuda_engine(FAMILIES[0], torch.bfloat16).runner
    assert isinstance(runner, CudaRunner)
    hidden = torch.randn(4, runner.config.d_model, device=CUDA).bfloat16()
    logits = runner.output.float_logits(hidden)
    exact = hidden.double() @ runner.output.weight.double().t() + runner.output.bias.double()
    assert logits.dtype is torch.float32
    torch.testing.assert_close(logits.double(), exact, rtol=1e-4, atol=1e-4)


@each_family
def test_memory_does_not_grow(family: Family) -> None:
    engine, sources = cuda_engine(family, torch.bfloat16), tiny_sources(40)
    greedy_ids(engine, sources)
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    steps = 0
    while steps < 1000:
        free = engine.free_rows
        engine.admit([Sequence(steps * 40 + i, source) for i, source in enumerate(sources[:free])])
        engine.step()
        steps += 1
    engine.clear()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


@each_family
def test_a_cleared_engine_goes_on_with_its_graphs(family: Family) -> None:
    engine, sources = cuda_engine(family, torch.float32), tiny_sources(50)
    expected = greedy_ids(engine, sources)
    engine.admit([Sequence(i, source) for i, source in enumerate(sources[:40])])
    engine.step()
    engine.clear()
    assert greedy_ids(engine, sources) == expected
    warm_up(engine)
    assert greedy_ids(engine, sources) == expected


@each_family
@each_precision
def test_a_pass_shows_the_attention_of_the_cpu_without_waiting(
    family: Family, dtype: torch.dtype
) -> None:
    pairs, model = random_pairs(6), family.model()
    expected = maps(model.to(dtype), pairs)
    query = resolve_query(model.config, list(expected[0]))
    jobs = [AttentionJob(source, target, (query,)) for source, target in pairs]
    results(model.to(CUDA), jobs)  # compiles kernels and fills caches
    whole = TeacherForcedPass(model, jobs)
    with no_waiting():
        while whole.advance():
            pass
    for (found,), other in zip(finished(whole), expected, strict=True):
        assert_rows_sum_to_one(found)
        assert_maps_close(found, other, 1e-4 if dtype is torch.float32 else 0.1)


def test_a_model_on_a_gpu_has_the_runner_with_graphs() -> None:
    model = FAMILIES[0].model().to(CUDA)
    engine = new_engine(model, LIMITS)
    assert isinstance(engine.runner, CudaRunner)
    assert engine.runner.graphs.captured
    assert default_rows(model, LIMITS) == MOST_ROWS


@pytest.mark.checkpoint
def test_the_rows_of_a_gpu_fit_the_built_in_models(built_in: dict[str, ModelFiles]) -> None:
    model = load_model(built_in["en-pt"], CUDA, "auto")
    before = torch.cuda.memory_allocated()
    engine = new_engine(model, EngineLimits(default_rows(model, EngineLimits())))
    assert engine.limits.max_rows == MOST_ROWS
    assert torch.cuda.memory_allocated() - before < 0.5e6 * MOST_ROWS
