"""Computes equal sentences once: sentences in progress are shared, and results are cached.

Two sentences are equal if they have the same model, token ids, options and first target token.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeAlias, cast

from model.sequence import DecodingOptions
from service.errors import ServiceError
from service.items.base import WorkItem
from service.items.result import Result
from service.items.translation import TRANSLATE, TranslationItem
from service.metrics.definitions import Metrics
from service.scheduling.job import Job
from service.scheduling.scheduler import Scheduler
from service.scheduling.submission import Submission

Key: TypeAlias = tuple[object, ...]

_values = attrgetter(*[each.name for each in fields(DecodingOptions)])
"""Returns the values of all options as a tuple, which is hashed faster than DecodingOptions."""


@dataclass(eq=False, slots=True)
class Follower:
    """A sentence that waits for the result of an equal sentence.

    Attributes:
        stream: Stream that receives the result.
        index: Index of the sentence in the stream.
        item: The sentence.
        deadline: Deadline of the request, by time.perf_counter.
        client: Identity of the client.
        joined: Time at which the sentence began to wait, by time.perf_counter.
    """

    stream: Submission
    index: int
    item: TranslationItem
    deadline: float
    client: str = ""
    joined: float = field(default_factory=time.perf_counter)


@dataclass(eq=False, slots=True)
class Shared:
    """A sentence that is being computed, and the equal sentences that wait for its result.

    Attributes:
        key: Key of the sentences.
        has_attention: Whether the result has attention weights, which are too large to cache.
        followers: The sentences that wait.
    """

    key: Key
    has_attention: bool
    followers: list[Follower] = field(default_factory=list)


class SentenceSharing:
    """Submits items to the scheduler, except sentences that are cached or in progress.

    An interactive sentence and an equal bulk sentence do not wait for each other. If the request
    of a running sentence ends early, the first of the waiting sentences is submitted instead.

    Args:
        scheduler: Computes items.
        metrics: Counts the sentences that were not computed.
        max_entries: Largest number of cached results; 0 turns the cache off.
    """

    def __init__(self, scheduler: Scheduler, metrics: Metrics, max_entries: int) -> None:
        self.scheduler = scheduler
        self.metrics = metrics
        self.max_entries = max_entries
        self.running: dict[Key, Shared] = {}
        self.cache: OrderedDict[Key, Any] = OrderedDict()
        self.given_up: list[Shared] = []  # `replace` has not handled these yet
        scheduler.on_removed = self.forget

    def submit(
        self,
        items: Sequence[WorkItem],
        deadline: float,
        is_first: bool = True,
        client: str = "",
    ) -> Submission:
        """Submits items of one request. The arguments are those of `Scheduler.submit`.

        Raises:
            ServiceError: The items are refused.
        """
        if {item.kind for item in items} != {TRANSLATE}:
            return self.scheduler.submit(items, deadline, is_first, client)
        sentences = cast("Sequence[TranslationItem]", items)
        keys = [key_of(item) for item in sentences]
        if len(keys) == 1 and not self._has(keys[0]):  # most requests have one sentence
            part = self.scheduler.submit(items, deadline, is_first, client)
            Part(self, part, [self._begin(keys[0], sentences[0])])
            return part
        new = {key: index for index, key in reversed([*enumerate(keys)]) if not self._has(key)}
        if len(new) == len(items):
            part = self.scheduler.submit(items, deadline, is_first, client)
            Part(self, part, [self._begin(*each) for each in zip(keys, sentences, strict=True)])
            return part
        first_indices = sorted(new.values())
        computed = [sentences[index] for index in first_indices]
        own = self.scheduler.submit(computed, deadline, is_first, client) if new else None
        return self._join(sentences, keys, first_indices, own, deadline, client)

    def _join(
        self,
        items: Sequence[TranslationItem],
        keys: Sequence[Key],
        new: Sequence[int],
        part: Submission | None,
        deadline: float,
        client: str,
    ) -> Submission:
        """Returns a stream of all results of a request.

        Args:
            items: All sentences of the request.
            keys: The key of each sentence.
            new: Indices of the sentences to compute.
            part: The submission of the sentences to compute; None if there are no such sentences.
            deadline: Deadline of the request.
            client: Identity of the client.
        """
        stream = SharedStream(len(items))
        stream.start([], deadline - time.perf_counter())
        if part is not None:
            shared = [self._begin(keys[index], items[index]) for index in new]
            Part(self, part, shared, stream, new)
        for index in sorted({*range(len(items))} - {*new}):
            key, model = keys[index], items[index].model
            if (running := self.running.get(key)) is not None:
                stream.follow(running, Follower(stream, index, items[index], deadline, client))
                self._count(model, "running")
            else:
                self.cache.move_to_end(key[:-1])
                stream.finish(index, Result(self.cache[key[:-1]], 0.0, 0.0))
                self._count(model, "cached")
        return stream

    def forget(self, model: str) -> None:
        """Removes the cached results of a model that is being unloaded."""
        for key in [key for key in self.cache if key[0] == model]:
            del self.cache[key]

    def _has(self, key: Key) -> bool:
        return key in self.running or (self.max_entries > 0 and key[:-1] in self.cache)

    def _begin(self, key: Key, item: TranslationItem) -> Shared:
        shared = self.running[key] = Shared(key, item.options.return_attention)
        return shared

    def _count(self, model: str, where: str) -> None:
        self.metrics.series(self.metrics.shared_sentences, model, where).inc()

    def finish(self, shared: Shared, result: Result) -> None:
        """Gives a result to the waiting sentences; caches the result if it has no attention."""
        del self.running[shared.key]
        if self.max_entries and not shared.has_attention:
            self.cache[shared.key[:-1]] = result.value
            while len(self.cache) > self.max_entries:
                self.cache.popitem(last=False)
        now = time.perf_counter()
        for each in shared.followers:
            each.stream.finish(each.index, Result(result.value, 0.0, now - each.joined))

    def replace(self, shared: Shared) -> None:
        """Submits a waiting sentence in place of an equal sentence that was given up or failed.

        If the submission is refused, the requests of the waiting sentences fail, and give up more
        sentences. The outermost call handles all of them in a loop, because Python limits the
        number of nested calls.
        """
        self.given_up.append(shared)
        if len(self.given_up) > 1:
            return
        try:
            for each in self.given_up:
                self._replace(each)
        finally:
            self.given_up.clear()

    def _replace(self, shared: Shared) -> None:
        del self.running[shared.key]
        if not shared.followers:
            return
        first, *others = shared.followers
        try:
            part = self.scheduler.submit([first.item], first.deadline, False, first.client)
        except ServiceError as error:
            for each in [*shared.followers]:  # `fail` removes followers from the list
                each.stream.fail(error)
            return
        shared.followers[:] = others
        self.running[shared.key] = shared
        Part(self, part, [shared], first.stream, [first.index])


class SharedStream(Submission):
    """The results of a request in which some sentences are cached, in progress or repeated."""

    def __init__(self, total: int) -> None:
        super().__init__(total, lambda jobs: None)  # it has no jobs of its own
        self.parts: list[Submission] = []
        self.followed: list[tuple[Shared, Follower]] = []

    def follow(self, shared: Shared, follower: Follower) -> None:
        """Waits for the result of a running sentence."""
        shared.followers.append(follower)
        self.followed.append((shared, follower))

    def _give_up(self, jobs: Sequence[Job]) -> None:
        """Stops waiting, and gives up the sentences that are computed for this request."""
        for shared, follower in self.followed:
            if follower in shared.followers:
                shared.followers.remove(follower)
        for part in self.parts:
            part.close()


class Part:
    """Listens to a submission whose results other requests may use.

    Args:
        sharing: Receives the results.
        submission: Computes the sentences.
        shared: The sentences, in order.
        stream: Stream that receives the results; None if the request reads the submission itself.
        indices: Indices of the sentences in the stream.
    """

    def __init__(
        self,
        sharing: SentenceSharing,
        submission: Submission,
        shared: Sequence[Shared],
        stream: Submission | None = None,
        indices: Sequence[int] = (),
    ) -> None:
        self.sharing = sharing
        self.left = dict(enumerate(shared))
        self.stream = stream
        self.indices = indices
        submission.listener = self
        if isinstance(stream, SharedStream):
            stream.parts.append(submission)

    def finish(self, index: int, result: Result) -> None:
        """Takes the result of a sentence."""
        self.sharing.finish(self.left.pop(index), result)
        if self.stream is not None:
            self.stream.finish(self.indices[index], result)

    def end(self, error: Exception | None) -> None:
        """Handles the early end of the submission; `error` is None if its request was cancelled."""
        left, self.left = [*self.left.values()], {}
        if self.stream is not None and error is not None:
            self.stream.fail(error)
        for shared in left:
            self.sharing.replace(shared)


def key_of(item: TranslationItem) -> Key:
    """Returns the key of a sentence.

    The last value of the key is the lane. The keys of the cache leave out this value, because both
    lanes share the cached results.
    """
    return item.model, item.first_id, _values(item.options), tuple(item.source), item.is_bulk
