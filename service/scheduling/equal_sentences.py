"""Computes equal items once: items in progress are shared, and results are cached.

Items with the same `WorkItem.key` are equal. An interactive item and an equal bulk item do not wait
for each other, but both take cached results.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.items import Result, WorkItem
from service.metrics.definitions import Metrics

Key = tuple[object, ...]


@dataclass(eq=False)
class SentenceSharing:
    """The items in progress, and a bounded cache of results."""

    metrics: Metrics
    max_entries: int  # of `cache`; 0 turns the cache off
    # Equal items of one lane. The first of them is computed, the others wait for it. The requests
    # of some of the others may have ended.
    running: dict[tuple[Key, bool], deque[WorkItem]] = field(default_factory=dict)
    cache: OrderedDict[Key, Any] = field(default_factory=OrderedDict)

    def divide(self, items: Sequence[WorkItem]) -> tuple[list[WorkItem], list[WorkItem]]:
        """Returns the items to compute, and the known items: cached, in progress or repeated."""
        new, known = [], []
        keys = set()
        for item in items:
            key = item.key
            if key is None:
                item.shared = None
                new.append(item)
                continue
            shared = item.shared = (key, item.is_bulk)
            if shared in self.running or key in self.cache or shared in keys:
                known.append(item)
            else:
                keys.add(shared)
                new.append(item)
        return new, known

    def begin(self, new: Sequence[WorkItem], known: Sequence[WorkItem]) -> None:
        for item in new:
            if item.shared is not None:
                self.running[item.shared] = deque([item])
        for item in known:
            assert item.shared is not None
            group = self.running.get(item.shared)
            if group is not None:
                group.append(item)
            else:
                key, _ = item.shared
                self.cache.move_to_end(key)
                item.receiver.add([(item.index, Result(self.cache[key], 0.0, 0.0))])
            state = "cached" if group is None else "running"
            self.metrics.counts[self.metrics.shared_sentences, item.model, state] += 1

    def finish(self, item: WorkItem, value: Any) -> None:
        """Gives the value of a computed item to the items that wait for it, and caches it."""
        assert item.shared is not None
        _, *others = self.running.pop(item.shared)
        if self.max_entries and item.is_small:
            self.cache[item.shared[0]] = value
            if len(self.cache) > self.max_entries:
                self.cache.popitem(last=False)
        if others:
            now = time.perf_counter()
            for each in others:
                each.receiver.add([(each.index, Result(value, 0.0, now - each.created))])

    def withdraw(self, item: WorkItem) -> WorkItem | None:
        """Forgets an item whose request has ended early.

        Returns the item that takes its place, if others wait for it.
        """
        shared = item.shared
        if shared is None or not (group := self.running.get(shared)) or group[0] is not item:
            return None
        while group and group[0].receiver.is_closed:
            group.popleft()
        if group:
            return group[0]
        del self.running[shared]
        return None

    def forget(self, model: str) -> list[WorkItem]:
        """Drops the results of a model; returns its items in progress, and the items that wait."""
        for key in [key for key in self.cache if key[0] == model]:
            del self.cache[key]
        left = [shared for shared in self.running if shared[0][0] == model]
        return [item for shared in left for item in self.running.pop(shared)]
