"""The sleeping model of the benchmarks: the real engine, worker and server around a sleep."""

import socket

import pytest

from benchmarks.sleeping.pace import Pace
from benchmarks.sleeping.runner import SleepingRunner
from benchmarks.sleeping.worker import loaders
from model.engine.engine import Engine
from model.sequence import EngineLimits, Sequence
from service.server import create_app
from tests.api.servers import Server, make_settings
from tests.tiny import tiny_config
from tests.workers import ThreadWorker

PACE = Pace(step_ms=10, row_ms=1, encode_ms=2)


def test_each_target_is_its_source_and_each_step_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("benchmarks.sleeping.runner.time.sleep", slept.append)
    engine = Engine(SleepingRunner(tiny_config(), PACE), EngineLimits(max_rows=4))
    eos = engine.config.eos_id
    sources = {0: [5, eos], 1: [7, 6, 5, eos], 2: [8, 9, eos]}
    engine.admit([Sequence(number, source) for number, source in sources.items()])
    finished = [done for _ in range(4) for done in engine.step()]
    assert {done.id: done.hypotheses[0].tokens for done in finished} == sources
    encode, *steps = slept
    assert encode == pytest.approx(9 * 0.002)
    assert steps == pytest.approx([0.013, 0.013, 0.012, 0.011])


def test_a_sleeping_server_answers_with_the_text() -> None:
    async def start(connection: socket.socket, _threads: int) -> ThreadWorker:
        return ThreadWorker(connection, loaders(Pace(0, 0, 0)))

    with Server(create_app(make_settings(), start)) as server:
        server.until_ready()
        text = "The cat sat on the mat."
        assert server.translate(text).json() == {"translatedText": text}
