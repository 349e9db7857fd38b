"""What an engine keeps through any sequence of admit, step and abort."""

import random
from dataclasses import replace

import pytest

from model.architectures.output import Shortlist, ShortlistOutput
from model.backends.cuda.runner import CudaRunner
from model.backends.torch_runner import TorchRunner
from model.checkpoints.build import new_engine
from model.engine.engine import Engine
from model.sequence import DecodingOptions, Finished, Hypothesis, Sequence
from tests.tiny import LIMITS, Family, assert_same_hypotheses, tiny_sources, translate


class Driver:
    """Drives an engine at random and holds it to account after every call."""

    def __init__(self, engine: Engine, seed: int, expected: list[list[Hypothesis]]) -> None:
        self.engine = engine
        self.chance = random.Random(seed)
        self.expected = expected
        self.in_batch: dict[int, int] = {}  # id -> which of the pool
        self.ended: set[int] = set()

    def admit(self, pool: list[Sequence]) -> None:
        newcomers: list[Sequence] = []
        rows = self.engine.free_rows
        for _ in range(self.chance.randint(1, 4)):
            choice = self.chance.randrange(len(pool))
            rows -= pool[choice].options.beam_size
            if rows < 0:
                break
            name = len(self.in_batch) + len(self.ended)
            self.in_batch[name] = choice
            newcomers.append(Sequence(name, pool[choice].source, pool[choice].options))
        self.engine.admit(newcomers)

    def step(self) -> None:
        for result in self.engine.step():
            self.settle(result)

    def settle(self, result: Finished) -> None:
        assert result.id not in self.ended
        assert_same_hypotheses(result.hypotheses, self.expected[self.in_batch.pop(result.id)])
        self.ended.add(result.id)

    def abort(self) -> None:
        name = self.chance.randrange(len(self.in_batch) + len(self.ended) + 1)
        assert self.engine.abort(name) is (name in self.in_batch)
        if self.in_batch.pop(name, None) is not None:
            self.ended.add(name)

    def check(self) -> None:
        """No row leaks, none is shared, and each holds what its sequence says."""
        engine = self.engine
        assert set(engine.running) == set(self.in_batch)
        held = sorted(row for running in engine.running.values() for row in running.rows)
        assert held == list(range(engine.num_rows))
        assert engine.num_rows + engine.free_rows == engine.limits.max_rows
        for name, running in engine.running.items():
            assert running.sequence.id == name
            assert len(running.rows) == running.sequence.options.beam_size
            assert all(engine.owners[row] is running for row in running.rows)
        if isinstance(engine.runner, TorchRunner):
            self.check_padded_rows(engine.runner, engine.num_rows)

    def check_padded_rows(self, runner: TorchRunner, rows: int) -> None:
        assert runner.cache.positions[rows:].count_nonzero() == 0
        if isinstance(runner.output, ShortlistOutput):
            lists = runner.output.row_ids
            assert all(len(ids) > 0 for ids in lists[:rows])
            assert all(len(ids) == 0 for ids in lists[rows:])


def pool_of_sequences() -> list[Sequence]:
    """Short sources, and some whose width and targets are beyond the narrowest of the engine."""
    options = [
        DecodingOptions(),
        DecodingOptions(return_scores=True),
        DecodingOptions(3, 3),
        DecodingOptions(),
        DecodingOptions(5, 2, 0.6),
    ]
    sources = tiny_sources(7, seed=3, longest=9) + [[*range(2, n), 0] for n in (36, 38, 41)]
    return [Sequence(i, source, options[i % 5]) for i, source in enumerate(sources)]


def test_any_sequence_of_calls_leaks_no_row_and_settles_each_once(
    family: Family, shortlist: Shortlist | None
) -> None:
    model, pool = family.model(max_length_factor=1.2), pool_of_sequences()
    alone = [translate(new_engine(model, LIMITS, shortlist), [s])[s.id] for s in pool]
    drive(Driver(new_engine(model, LIMITS, shortlist), 0, alone), pool)


@pytest.mark.parametrize("seed", [0, 2])
def test_a_runner_that_runs_ahead_gives_what_the_plain_one_gives(family: Family, seed: int) -> None:
    """Greedy sequences alone, with which it is always ahead; then searches too."""
    model, pool = family.model(max_length_factor=1.2), pool_of_sequences()
    if seed < 2:
        pool = [Sequence(s.id, s.source) for s in pool]
    alone = [translate(Engine(TorchRunner(model, LIMITS), LIMITS), [s])[s.id] for s in pool]
    limits = replace(LIMITS, max_rows=20)  # steps of 8, 16 and 24 rows
    drive(Driver(Engine(CudaRunner(model, limits), limits), seed, alone), pool)


def drive(driver: Driver, pool: list[Sequence]) -> None:
    """Eighty calls at random, and then steps until nothing is left."""
    engine = driver.engine
    for _ in range(80):
        choice = driver.chance.random()
        if choice < 0.2 and engine.free_rows:
            driver.admit(pool)
        elif choice < 0.3:
            driver.abort()
        else:
            driver.step()
        driver.check()
    while driver.in_batch:
        driver.step()
        driver.check()
    assert engine.num_rows == 0
    assert len(driver.ended) > 8
