"""The time of steps on a GPU, with events whose times the tests set."""

import pytest
import torch

from service.workers.device_time import MAX_PENDING, GpuTimer, HostTimer, timer_of

GPU = torch.device("cuda", 0)


class FakeGpu:
    """A GPU that works through the marks of its stream when a test lets it."""

    def __init__(self) -> None:
        self.now = 0.0  # milliseconds
        self.recorded: list[FakeEvent] = []

    def new_event(self) -> "FakeEvent":
        return FakeEvent(self)

    def work(self, milliseconds: float) -> None:
        """Finishes all work that was launched; each step takes the given time."""
        for number, event in enumerate(self.recorded):
            self.now += milliseconds * (number % 2)
            event.time = self.now
        self.recorded.clear()


class FakeEvent:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.time: float | None = None

    def record(self, _stream: object, /) -> None:
        self.gpu.recorded.append(self)

    def query(self) -> bool:
        return self.time is not None

    def synchronize(self) -> None:
        if self.time is None:
            self.gpu.work(10.0)

    def elapsed_time(self, end: "FakeEvent", /) -> float:
        assert self.time is not None
        assert end.time is not None
        return end.time - self.time


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    return FakeGpu()


def step(timer: GpuTimer) -> float:
    timer.start()
    return timer.stop()


def test_step_is_charged_when_the_gpu_has_finished_it(gpu: FakeGpu) -> None:
    timer = GpuTimer(GPU, gpu.new_event)
    assert step(timer) == 0
    gpu.work(3.0)
    assert step(timer) == pytest.approx(0.003)
    gpu.work(4.0)
    assert step(timer) == pytest.approx(0.004)


def test_gpu_has_only_a_few_steps_in_advance(gpu: FakeGpu) -> None:
    """A step that launches more waits for the oldest, so that no kind exceeds its share by far."""
    timer = GpuTimer(GPU, gpu.new_event)
    assert [step(timer) for _ in range(MAX_PENDING)] == [0] * MAX_PENDING
    assert step(timer) == pytest.approx(0.01 * (MAX_PENDING + 1))


def test_failed_step_leaves_no_events(gpu: FakeGpu) -> None:
    timer = GpuTimer(GPU, gpu.new_event)
    step(timer)
    timer.start()
    assert timer.abandon() == 0
    assert not timer.pending


def test_cpu_has_computed_when_a_call_returns() -> None:
    timer = timer_of(torch.device("cpu"))
    assert isinstance(timer, HostTimer)
    timer.start()
    assert timer.stop() > 0
    timer.start()
    assert timer.abandon() > 0
