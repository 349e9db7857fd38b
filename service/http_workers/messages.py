"""The messages between an HTTP worker and the main process.

After the HttpWorkerConfig, messages are sent in lists over one socket pair. The main process admits
each request, and the admission is called a lease. A Submit sends items of a request. For a short
request, the first Submit also asks for the lease. For a long request, a Submit without items asks
for the lease before the texts are tokenised. Its answer is an Answer or a Refusal. The answer to a
Submit with items is a Refusal, or Results. A Refusal may also follow Results. When a request is
complete, the HTTP worker sends Release, which ends the lease, and Count with the request's figures
for the metrics. These two messages may wait a short time, so that they are sent in one list with
later messages. Deadlines are sent as durations. An Ask gets an Answer or a Refusal with its id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from service.errors import ServiceError
from service.ipc.channel import pickle_by_fields
from service.items import Result, WorkItem
from service.metrics.figures import Ended
from service.models.served import OnDemand
from service.settings import Settings
from service.workers.messages import ModelSet


@dataclass(frozen=True, slots=True)
class HttpWorkerConfig:
    """First message of the main process to an HTTP worker.

    `started` and `folder` are the arguments of `service.api.context.Services`.
    """

    settings: Settings
    started: int
    models: ModelSet
    on_demand: tuple[OnDemand, ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Listening:
    """HTTP worker to main process: it accepts connections. Also the answer to a Ping."""


@dataclass(slots=True)
class Count:
    """HTTP worker to main process: call a method of `service.tasks.backend.Recorder`."""

    method: Literal["begin", "end", "count_refused", "count_call"]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """HTTP worker to main process: call an asynchronous method of `service.tasks.backend.Backend`.

    The Answer or the Refusal has the same id.
    """

    id: int
    method: Literal["status", "metrics_text", "take", "load_model", "unload_model", "require"]
    arguments: tuple[Any, ...]


@dataclass(slots=True)
class Submit:
    """HTTP worker to main process: compute the items of a request, or admit it if there are none.

    The main process reads `tokens` and `client` only if the lease does not exist yet.
    """

    id: int  # also of its Results, its Answer or its Refusal
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


@dataclass(frozen=True, slots=True)
class Serve:
    """Main process to HTTP worker: serve these models from now on, and answer with Served."""

    id: int
    models: ModelSet


@dataclass(frozen=True, slots=True)
class Served:
    """HTTP worker to main process: the HTTP worker serves the models of a Serve.

    If the Serve removes models, the HTTP worker first waits until the requests for these models
    have ended. The wait is at most the time limit of a request. `failure` is the reason why the
    HTTP worker cannot serve the models; None if it serves them.
    """

    id: int
    failure: str | None = None


@dataclass(slots=True)
class Results:
    """Main process to HTTP worker: indices of finished items of a submission, and their results."""

    id: int
    results: list[tuple[int, Result]]


@dataclass(frozen=True, slots=True)
class Answer:
    """Main process to HTTP worker: the answer to the Ask or Submit with the same id."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Refusal:
    """Main process to HTTP worker: the Ask or Submit with the same id has failed."""

    id: int
    error: ServiceError


@dataclass(frozen=True, slots=True)
class Ping:
    """Main process to HTTP worker: answer with Listening, to show that the process runs."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Main process to HTTP worker: drain, then end; `service.http_server.drain` explains it."""

    has_delay: bool = True


FromHttpWorker = Listening | Count | Ask | Submit | Release | Served
ToHttpWorker = Answer | Refusal | Results | Serve | Ping | Drain

for _cls in (Count, Ended, Results, Submit):
    pickle_by_fields(_cls)
