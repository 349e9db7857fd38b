"""Admits requests whose sentences may need remote models.

Their leases send items for local models to the workers, and items for remote models to endpoints.
Requests for remote models count towards the limits of the admission too.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from model.sequence import DecodingOptions, Hypothesis
from service.errors import InternalError, ServiceError, fault, too_late
from service.items import Result, ResultStream, WorkItem
from service.models.catalog import Catalog
from service.models.remote import RemoteItem, ServedRemote
from service.models.served import Direction
from service.remote.endpoint import Endpoints
from service.tasks.backend import Admitter, Lease, Status
from service.tasks.translation.guards import Reading, rejecting
from service.tasks.translation.pivoting import item_for
from service.text.chunking import chunk_sentences
from service.text.segmentation import split_sentences

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
        stream.add([(place, await self._translate(item, deadline))])

    async def _translate(self, item: RemoteItem, deadline: float) -> Result:
        """Translates a sentence at its endpoint, or by its fallback if that fails.

        If there is a fallback, the endpoint has half of the time until the deadline. The fallback
        also takes sentences whose translations a guard rejects, unless its own is rejected too.
        """
        if item.fallback is None:
            return await self._ask(item, deadline)
        result = None
        now = time.perf_counter()
        seconds = (deadline - now) / 2
        with suppress(ServiceError, TimeoutError):
            async with asyncio.timeout(seconds):
                result = await self._ask(item, now + seconds)
        if result is None or self._is_rejected(item, result):
            local = await self._translate_here(item, item.fallback, deadline)
            if result is None or not self._is_rejected(item, local):
                self.endpoints.recorder.count_call(item.model, "replaced")
                return local
        return result

    async def _ask(self, item: RemoteItem, deadline: float) -> Result:
        served = self.remote[item.model]
        text = served.vocabularies.source.decode(item.source)
        found, queued, called = await self.endpoints.translate(
            text, served.files, deadline, item.hints
        )
        return Result([self._hypothesis(item, found)], queued, called)

    def _hypothesis(self, item: RemoteItem, found: str) -> Hypothesis:
        tokenizer = self.remote[item.model].vocabularies.target
        return Hypothesis([*tokenizer.encode(found), tokenizer.eos_id])

    def _is_rejected(self, item: RemoteItem, result: Result) -> bool:
        if not self.endpoints.settings.guard_beam_size:
            return False
        tokenizer = self.remote[item.model].vocabularies.target
        (hypothesis,) = result.value
        source, found = tokenizer.decode(item.source), tokenizer.decode(hypothesis.tokens)
        return bool(rejecting(Reading(item.source, source, hypothesis, found, tokenizer.eos_id)))

    async def _translate_here(
        self, item: RemoteItem, direction: Direction, deadline: float
    ) -> Result:
        """Translates an item, which may be a paragraph, by a model of this server."""
        began = time.perf_counter()
        text = self.remote[item.model].vocabularies.source.decode(item.source)
        tokenizer = direction.vocabularies.source
        limit = direction.limit(self.endpoints.settings.max_source_tokens) - 1
        chunked = chunk_sentences(split_sentences(text, direction.source), tokenizer, limit)
        options = DecodingOptions(item.options.beam_size)
        items = [
            item_for(direction, [*ids, *tokenizer.source_end], options, item.is_bulk)
            for ids in chunked.sources
        ]
        results = await self.lease.submit(items, deadline).in_order() if items else []
        decode = direction.vocabularies.target.decode
        found = chunked.segments.join([decode(each.value[0].tokens) for each in results])
        seconds = time.perf_counter() - began
        return Result([self._hypothesis(item, found)], 0.0, seconds, direction.name)


async def add_all(found: ResultStream, places: list[int], stream: ResultStream) -> None:
    async for index, result in found:
        stream.add([(places[index], result)])


def service_error(error: Exception) -> ServiceError:
    if isinstance(error, ServiceError):
        return error
    logger.error("a remote model failed: %s", fault(error))
    return InternalError("a remote model failed; the log has the fault")
