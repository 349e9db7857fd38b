"""The measured costs of a server: the CPU time of its processes, and the sizes of sentences."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self


class CostsError(ValueError):
    """A file with costs cannot be used."""


@dataclass(frozen=True)
class WorkerCosts:
    encode_seconds: float = 0.0  # CPU seconds of each call that encodes waiting sentences together
    source_seconds: float = 0.0  # CPU seconds of each source token that is encoded
    # CPU seconds of each decode step. A step computes one token of every row.
    step_seconds: float = 0.0
    row_seconds: float = 0.0  # CPU seconds of each row in a decode step
    # largest number of decode steps before the worker reads messages again
    tokens_per_call: int = 48
    # largest number of decode steps of a batch with fewer than `small_rows` rows, unless
    # `small_row_tokens` allows more
    small_tokens: int = 8
    small_row_tokens: int = 128  # number of tokens that such a batch may decode in a call
    small_rows: int = 16  # number of rows below which a batch is small
    max_rows: int = 64  # number of rows of a batch


@dataclass(frozen=True)
class ServerCosts:
    """CPU seconds of the main process, which answers HTTP and runs the scheduler."""

    request_seconds: float = 0.0  # for each request that is answered
    message_seconds: float = 0.0  # for each message to a worker, with the report that answers it
    refusal_seconds: float = 0.0  # for each request that is refused after its text was read
    early_refusal_seconds: float = 0.0  # for each request that is refused before its body is read


@dataclass(frozen=True)
class Costs:
    worker: WorkerCosts = field(default_factory=WorkerCosts)  # costs of a device worker
    server: ServerCosts = field(default_factory=ServerCosts)  # costs of the main process
    # source and target tokens of each measured sentence
    sentences: tuple[tuple[int, int], ...] = ((22, 22),)
    # CPU seconds of the load generator for each request. It runs on the same machine as the
    # measured server.
    client_seconds: float = 0.0
    capacity: float = 0.0  # sentences per second with many clients. Offered rates are shares of it.
    num_workers: int = 2  # number of device workers
    # cores that the server and its clients share. On a machine with other programs, these are the
    # cores that the calibration got. 0 gives each process a core of its own.
    num_cores: float = 2.0
    source: str = ""  # the machine and the date of the measurement

    def without_client(self) -> Self:
        return replace(self, client_seconds=0.0, num_cores=float(self.num_workers))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            found = json.loads(path.read_text())
            found["worker"] = WorkerCosts(**found["worker"])
            found["server"] = ServerCosts(**found["server"])
            found["sentences"] = tuple((source, target) for source, target in found["sentences"])
            return cls(**found)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CostsError(
                f"{path} has no costs of this version ({error}); "
                "write it with `python -m benchmarks.capacity calibrate`"
            ) from error
