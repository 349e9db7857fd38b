"""Admits requests whose sentences may need remote models.

Their leases send items for local models to the workers, and items for remote models to endpoints.
Requests for remote models count towards the limits of the admission too.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import cast

from model.sequence import Hypothesis
from service.errors import InternalError, ServiceError, fault, too_late
from service.items import Result, ResultStream, WorkItem
from service.models.catalog import Catalog
from service.models.remote import RemoteItem, ServedRemote
from service.remote.endpoint import Endpoints
from service.tasks.backend import Admitter, Lease, Status

logger = logging.getLogger("regard.remote")


def admitter_of(catalog: Catalog, backend: Admitter, endpoints: Endpoints) -> Admitter:
    """Returns the backend, or, if there are remote models, an admitter that serves them too."""
    remote = catalog.of_type(ServedRemote)
    return RoutingAdmitter(remote, backend, endpoints) if remote else backend


class RoutingAdmitter:
    """Admits requests; their leases serve local and remote models."""

    def __init__(
        self, remote: dict[str, ServedRemote], backend: Admitter, endpoints: Endpoints
    ) -> None:
        self.remote = remote
        self.backend = backend
        self.endpoints = endpoints

    async def status(self) -> Status:
        return await self.backend.status()

    async def require(self, names: Sequence[str]) -> None:
        await self.backend.require(names)

    async def admit(self, tokens: int, at_once: bool, client: str = "") -> Lease:
        """Admits a request, always at once.

        A request that needs only remote models never submits items to the backend, so the backend
        cannot leave the decision to the first items.
        """
        lease = await self.backend.admit(tokens, True, client)
        return RoutingLease(lease, self.remote, self.endpoints)


class RoutingLease:
    """The lease of one request; the lease of the backend computes the items for local models."""

    def __init__(self, lease: Lease, remote: dict[str, ServedRemote], endpoints: Endpoints) -> None:
        self.lease = lease
        self.remote = remote
        self.endpoints = endpoints
        self.tasks: set[asyncio.Task[None]] = set()

    def submit(
        self, items: Sequence[WorkItem], deadline: float, total_tokens: int = 0
    ) -> ResultStream:
        if not any(item.model in self.remote for item in items):
            return self.lease.submit(items, deadline, total_tokens)
        stream = ResultStream(len(items))
        task = asyncio.create_task(self._compute(items, deadline, total_tokens, stream))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return stream

    def release(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.lease.release()

    async def _compute(
        self, items: Sequence[WorkItem], deadline: float, total_tokens: int, stream: ResultStream
    ) -> None:
        try:
            async with (
                asyncio.timeout(deadline - time.perf_counter()),
                asyncio.TaskGroup() as group,
            ):
                local = [place for place, item in enumerate(items) if item.model not in self.remote]
                if local:
                    found = self.lease.submit(
                        [items[place] for place in local], deadline, total_tokens
                    )
                    group.create_task(add_all(found, local, stream))
                for place, item in enumerate(items):
                    if item.model in self.remote:
                        sentence = cast("RemoteItem", item)  # remote models only translate
                        group.create_task(self._call(place, sentence, deadline, stream))
        except TimeoutError:
            stream.fail(too_late(stream.total - stream.left, stream.total))
        except ExceptionGroup as errors:
            stream.fail(service_error(errors.exceptions[0]))

    async def _call(
        self, place: int, item: RemoteItem, deadline: float, stream: ResultStream
    ) -> None:
        served = self.remote[item.model]
        tokenizer = served.vocabularies.source
        found, queued, called = await self.endpoints.translate(
            tokenizer.decode(item.source), served.files, deadline, item.terms
        )
        hypothesis = Hypothesis([*tokenizer.encode(found), tokenizer.eos_id])
        stream.add([(place, Result([hypothesis], queued, called))])


async def add_all(found: ResultStream, places: list[int], stream: ResultStream) -> None:
    async for index, result in found:
        stream.add([(places[index], result)])


def service_error(error: Exception) -> ServiceError:
    if isinstance(error, ServiceError):
        return error
    logger.error("a remote model failed: %s", fault(error))
    return InternalError("a remote model failed; the log has the fault")
