"""Translates the items of one model in a worker."""

from collections import deque
from collections.abc import Collection, Iterable

import torch

from model.engine.engine import Engine
from model.sequence import BatchStats, Sequence
from service.items import Done, TranslationItem
from service.workers.executors.base import Backlog, Executor, TokenBudget, take_all


class TranslationExecutor(Executor[TranslationItem]):
    """Decodes items in the batch of an engine; items join at the next step and leave one by one.

    Items that arrive between two steps are encoded together, because encoding each item alone takes
    an eighth longer. While a part of a failed batch is decoded again, no other items enter the
    engine. On a CPU with float32 or native int8, a part that is decoded again gives the same
    tokens. In all other cases, a token may change if two tokens have nearly the same score.
    """

    noun = "sequence"

    def __init__(self, engine: Engine, device: torch.device) -> None:
        super().__init__(device)
        self.engine = engine
        self.backlog: Backlog[TranslationItem] = Backlog()
        self.bulk: set[int] = set()
        self.budget = TokenBudget()
        self.is_search_step = False

    def __len__(self) -> int:
        return len(self.backlog)

    def __bool__(self) -> bool:
        return bool(self.backlog)

    @property
    def num_running(self) -> int:
        return len(self.backlog.running)

    @property
    def num_rows(self) -> int:
        return self.engine.num_rows

    @property
    def tokens_per_call(self) -> int:
        return self.engine.tokens_per_step

    @property
    def has_stats(self) -> bool:
        return bool(self.engine.stats)

    def add(self, items: Iterable[TranslationItem]) -> None:
        for item in items:
            self.backlog.waiting.append(item)
            if item.is_bulk:
                self.bulk.add(item.id)

    def abort(self, ids: Collection[int]) -> None:
        self.backlog.abort(ids)
        for item_id in ids:
            if self.backlog.running.pop(item_id, None) is not None:
                self.engine.abort(item_id)
        self.backlog.given_up.clear()
        self.bulk.difference_update(ids)

    def step(self, low_latency: bool = False) -> list[Done]:
        backlog = self.backlog
        searches_first, self.is_search_step = not self.is_search_step, False
        if backlog.is_retry and not backlog.running:
            backlog.end()
        if backlog.retries and not backlog.running:
            self._admit(backlog.begin(take_all))
        elif backlog.waiting and not backlog.is_retry:
            items, self.is_search_step = self._next_items(searches_first)
            backlog.running.update((item.id, item) for item in items)
            self._admit(items)
        self.engine.low_latency = low_latency or bool(self.bulk)
        done = []
        for finished in self.engine.step(self.is_search_step):
            if backlog.running.pop(finished.id, None) is not None:
                self.bulk.discard(finished.id)
                done.append(Done(finished.id, finished.hypotheses))
        return done

    def _next_items(self, searches_first: bool) -> tuple[list[TranslationItem], bool]:
        """Takes waiting items, and returns whether they are searches that other items wait for.

        A search is an item that needs log-probabilities, usually for a beam search. If a guard has
        rejected a translation, the server sends the sentence again as a search. The request has
        then already waited for one translation. Waiting searches, except bulk items, are therefore
        encoded and decoded alone, before all other items. The next step is then for all items, so
        that no item waits for more than one such step.
        """
        waiting, running, free = self.backlog.waiting, self.backlog.running, self.engine.free_rows
        if searches_first and self.engine.searches_apart:
            searches = deque(
                item for item in waiting if item.options.needs_log_probs and not item.is_bulk
            )
            items = self.budget.take(searches, running.values(), free)
            if items:
                taken = {item.id for item in items}
                self.backlog.waiting = deque(item for item in waiting if item.id not in taken)
                return items, True
        return self.budget.take(waiting, running.values(), free), False

    def _admit(self, items: list[TranslationItem]) -> None:
        self.engine.admit(
            [Sequence(item.id, item.source, item.options, item.first_id) for item in items]
        )

    def shrink(self) -> None:
        self.budget.shrink(self.backlog.running.values())

    def isolate(self) -> list[TranslationItem]:
        self.engine.clear()
        at_fault = self.backlog.isolate()
        self.bulk.difference_update(item.id for item in at_fault)
        return at_fault

    def drain_stats(self) -> list[BatchStats]:
        return self.engine.drain_stats()
