"""The messages between an HTTP worker and the main process.

After the HttpWorkerConfig, messages are sent in lists over one socket pair. The main process admits
each request, and the admission is called a lease. For a short request, the first Submit also asks
for the lease. For a long request, a Submit without items asks for the lease before the texts are
tokenised. When a request is complete, the HTTP worker sends Release, which ends the lease, and a
Call with the request's figures for the metrics. These two messages may wait a short time, so that
they are sent in one list with later messages. Deadlines are sent as durations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.errors import ServiceError
from service.ipc.channel import pickle_by_fields
from service.items import Result, WorkItem
from service.metrics.figures import Ended
from service.models.served import OnDemand
from service.settings import Settings
from service.workers.messages import ModelSet


@dataclass(frozen=True, slots=True)
class HttpWorkerConfig:
    """First message of the main process to an HTTP worker."""

    settings: Settings
    started: int  # Unix seconds; an argument of Services, like `folder`
    models: ModelSet
    on_demand: tuple[OnDemand, ...] = ()
    folder: str = ""


@dataclass(slots=True)
class Call:
    """Calls a method of the other process, which sends an Answer if there is an id.

    The main process has the methods of `Recorder` and `Backend` (`service.tasks.backend`), and
    `listening`, which reports that the HTTP worker accepts connections. An HTTP worker has the
    methods of RemoteBackend: `serve`, `listen` and `drain`.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    id: int = 0  # unique in the process that calls


@dataclass(slots=True)
class Submit:
    """HTTP worker to main process: compute the items of a request, or admit it if there are none.

    The main process sends Results, and an Answer if there are no items or after an error. It reads
    `tokens` and `client` only if the lease does not exist yet.
    """

    id: int  # also of its Results and its Answer
    lease: int  # id that is unique in the HTTP worker
    tokens: int  # estimate for the request
    items: Sequence[WorkItem]
    seconds: float  # until the deadline
    # Tokens of all submissions of the lease; 0 means the tokens of `items` alone. It is read only
    # in the first submission of a lease.
    total_tokens: int = 0
    client: str = ""


@dataclass(slots=True)
class Release:
    """HTTP worker to main process: the request of a lease has ended."""

    lease: int


@dataclass(slots=True)
class Results:
    """Main process to HTTP worker: indices of finished items of a submission, and their results."""

    id: int
    results: list[tuple[int, Result]]


@dataclass(frozen=True, slots=True)
class Answer:
    id: int  # of the Call or the Submit
    value: Any = None
    error: ServiceError | None = None


FromHttpWorker = Call | Submit | Release | Answer
ToHttpWorker = Call | Answer | Results

for _cls in (Call, Ended, Results, Submit):
    pickle_by_fields(_cls)
