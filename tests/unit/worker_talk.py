"""The server's end of the channel to a worker in a thread."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from model.sequence import DecodingOptions, EngineLimits
from service.ipc.channel import Channel
from service.items import Done, Failed, TranslationItem
from service.workers.messages import FromWorker, ModelSet, Report, ToWorker, WorkerConfig
from tests.unit.worker_bench import files, shares_with
from tests.workers import Script, ThreadWorker


def config(*pairs: str, max_rows: int = 8) -> WorkerConfig:
    limits = EngineLimits(max_rows=max_rows, max_source_tokens=128)
    models = ModelSet(tuple(files(*pair.split("-")) for pair in pairs or ("en-pt",)))
    return WorkerConfig(models, shares_with(), "cpu", "float32", "auto", limits, 1)


class Talk:
    """The server's end of the channel: sends messages and records reports.

    Attributes:
        first: First message of the worker.
    """

    first: FromWorker

    def __init__(self, channel: Channel, worker: ThreadWorker) -> None:
        self.channel = channel
        self.worker = worker
        self.reports: list[Report] = []

    def send(self, *messages: ToWorker) -> None:
        for message in messages:
            self.channel.send([message])

    def receive(self) -> FromWorker:
        message: FromWorker = self.channel.receive()
        return message

    def hear(self, num_results: int) -> None:
        """Reads reports until the number of done and failed items is `num_results`."""
        while len(self.done) + len(self.failed) < num_results:
            report = self.receive()
            assert isinstance(report, Report)
            self.reports.append(report)

    @property
    def done(self) -> dict[int, Done]:
        return {done.id: done for report in self.reports for done in report.done}

    @property
    def failed(self) -> dict[int, Failed]:
        return {failed.id: failed for report in self.reports for failed in report.failed}

    def total(self, name: str) -> int:
        return sum(getattr(report, name).get("en-pt", 0) for report in self.reports)


Start = Callable[..., Talk]


def sentences(*ids: int, model: str = "en-pt") -> list[TranslationItem]:
    """Returns sentences; each has the token 100 + id."""
    return [TranslationItem(model, [100 + i, 0], DecodingOptions(), id=i) for i in ids]


def tokens_of(done: Done) -> list[int]:
    found: list[int] = done.value[0].tokens
    return found


@contextmanager
def talks(script: Script) -> Iterator[Start]:
    """Yields a function that starts a worker with fake models, given their pairs."""
    with ExitStack() as opened:

        def begin(*pairs: str, max_rows: int = 8) -> Talk:
            ours, theirs = map(opened.enter_context, socket.socketpair())
            worker = ThreadWorker(theirs, script.loaders)
            theirs.close()
            talk = Talk(Channel(ours), worker)
            opened.callback(worker.thread.join)
            opened.callback(ours.shutdown, socket.SHUT_RDWR)
            talk.send(config(*pairs, max_rows=max_rows))
            talk.first = talk.receive()
            return talk

        yield begin
