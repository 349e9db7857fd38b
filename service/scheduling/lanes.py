"""Queues of waiting items.

A queue has one or more length buckets, which separate short texts from long texts. Each bucket has
two lanes: one for interactive items and one for bulk items. Work is counted in row-tokens: the
number of an item's tokens times the number of rows that it takes in a model's batch.
"""

import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from service.items import WorkItem
from service.scheduling.forecast import Margin, Pace

LANES = ("interactive", "bulk")

LOOK_AHEAD = 4
"""For n free rows, items of similar length are chosen from the next LOOK_AHEAD * n items."""

BULK_SHARE = 5
"""While items wait in both lanes, the bulk lane gets one of every BULK_SHARE rows."""


class Lane:
    """Holds waiting items. Clients take turns; the items of a client are in order of arrival."""

    def __init__(self) -> None:
        self.last_arrival = -math.inf  # time of the newest item's submission, by perf_counter
        # Items of each client by id, in order of arrival. The clients are in order of their turns.
        self.clients: OrderedDict[str, OrderedDict[int, WorkItem]] = OrderedDict()
        self.work: dict[str, int] = {}  # waiting work of each client
        self.num_items = 0
        self.tokens = 0
        self.rows = 0

    def __len__(self) -> int:
        return self.num_items

    def __iter__(self) -> Iterator[WorkItem]:
        columns = [each.values() for each in self.clients.values()]
        turns = itertools.chain.from_iterable(itertools.zip_longest(*columns))
        return (item for item in turns if item is not None)

    @property
    def oldest_age(self) -> float:
        """Seconds that the oldest item has waited; 0 in an empty lane."""
        if not self.clients:
            return 0.0
        firsts = [next(iter(each.values())) for each in self.clients.values()]
        return time.perf_counter() - min(first.created for first in firsts)

    @property
    def next_rows(self) -> int:
        for client in self.clients.values():
            for item in client.values():
                return item.rows
        return 0

    def add(self, item: WorkItem, is_first: bool = False) -> None:
        """Adds an item as the last of its client, or first of all if its worker has died."""
        client = self.clients.get(item.client)
        if client is None:
            client = self.clients[item.client] = OrderedDict()
            self.work[item.client] = 0
        client[item.id] = item
        self.work[item.client] += item.work
        if is_first:
            client.move_to_end(item.id, last=False)
            self.clients.move_to_end(item.client, last=False)
        self.last_arrival = max(self.last_arrival, item.created)
        self.num_items += 1
        self.tokens += item.tokens
        self.rows += item.rows

    def remove(self, item: WorkItem) -> bool:
        """Removes an item; returns False if the item does not wait in this lane."""
        client = self.clients.get(item.client)
        if client is None or client.get(item.id) is not item:
            return False
        del client[item.id]
        self.work[item.client] -= item.work
        if not client:
            del self.clients[item.client], self.work[item.client]
        self.num_items -= 1
        self.tokens -= item.tokens
        self.rows -= item.rows
        return True

    def work_before(self, client: str, new: float) -> float:
        """Returns the waiting work, in row-tokens, ahead of the last new item of a client.

        Clients take turns. The work of each other client therefore counts only up to the amount of
        this client's work, `new` work included.
        """
        own = self.work.get(client, 0)
        others = [work for name, work in self.work.items() if name != client]
        return own + sum([min(work, own + new) for work in others])

    def take(self, rows: int) -> list[WorkItem]:
        """Removes and returns the next item, and items of similar length that fit into the rows.

        The items take at most `rows` rows together. If all items of the lane fit, all are returned.
        If the next item alone takes more rows, no item is returned, because no other item may
        overtake the next item.
        """
        if self.rows <= rows:
            clients = [*self.clients.values()]
            taken = [*clients[0].values()] if len(clients) == 1 else [*self.__iter__()]
            self.clients.clear()
            self.work.clear()
            self.num_items = self.tokens = self.rows = 0
            return taken
        window = list(itertools.islice(self.__iter__(), LOOK_AHEAD * rows))
        if not window:
            return []
        anchor = window[0].tokens
        taken = []
        for item in sorted(window, key=lambda item: abs(item.tokens - anchor)):  # the next is first
            if item.rows > rows:
                break
            rows -= item.rows
            taken.append(item)
        for item in taken:
            self.remove(item)
            if len(self.clients) > 1 and item.client in self.clients:
                self.clients.move_to_end(item.client)
        return taken


class LanePair:
    """The interactive and the bulk lane of one length bucket."""

    def __init__(self) -> None:
        self.interactive = Lane()
        self.bulk = Lane()
        # Rows of interactive items that were taken while bulk items waited. When the debt reaches
        # BULK_SHARE - 1, the bulk lane may take one row, which lowers the debt by BULK_SHARE - 1.
        self.debt = 0

    def __len__(self) -> int:
        return self.interactive.num_items + self.bulk.num_items

    @property
    def rows(self) -> int:
        return self.interactive.rows + self.bulk.rows

    @property
    def next_rows(self) -> int:
        return max(self.interactive.next_rows, self.bulk.next_rows)

    def take(self, rows: int, spare: int | None = None) -> list[WorkItem]:
        """Removes and returns items that take at most `rows` rows together.

        The bulk lane may take its share of the rows, which `debt` carries from call to call. If
        interactive items leave more rows free, it may take at most `spare` of them instead. If it
        has earned the rows of its next item, but fewer are free, they stay empty until it fits.
        """
        if not self.bulk.num_items:
            self.debt = 0
            return self.interactive.take(rows)
        free = rows - self.interactive.rows
        allowed = max(self.debt // (BULK_SHARE - 1), free if spare is None else min(free, spare))
        if allowed >= self.bulk.next_rows > rows:
            return []
        bulk = self.bulk.take(min(rows, allowed))
        bulk_rows = sum(item.rows for item in bulk)
        interactive = self.interactive.take(rows - bulk_rows)
        if self.bulk.num_items:
            taken_rows = sum(item.rows for item in interactive)
            self.debt = max(0, self.debt + taken_rows - (BULK_SHARE - 1) * bulk_rows)
        return bulk + interactive


class Queue:
    """The waiting items of one task kind and one model."""

    def __init__(self, num_buckets: int = 1) -> None:
        self.buckets = [LanePair() for _ in range(num_buckets)]
        self.interactive = [pair.interactive for pair in self.buckets]
        self.bulk = [pair.bulk for pair in self.buckets]
        self.lanes = [*self.interactive, *self.bulk]
        # Rows in use by the dispatched items, summed over all workers. If the policy of the kind
        # does not count rows: the tokens of these items.
        self.occupancy = 0
        self.pace = Pace()  # measured rate of the workers
        self.margin = Margin()  # measured errors of predicted times

    def __bool__(self) -> bool:
        for lane in self.lanes:  # a loop is faster than any() with a generator
            if lane.num_items:
                return True
        return False

    @property
    def oldest_age(self) -> float:
        return max(lane.oldest_age for lane in self.lanes)

    def lane(self, item: WorkItem) -> Lane:
        pair = self.buckets[item.bucket]
        return pair.bulk if item.is_bulk else pair.interactive

    def work_before(self, items: Sequence[WorkItem]) -> float:
        """Returns the waiting work that is dispatched before the last new item, in row-tokens.

        Items in buckets of longer texts than the new items do not count. Later interactive items
        may overtake a new bulk item. They are not known yet, so their work does not count.
        """
        client, is_bulk = items[0].client, items[0].is_bulk
        new = last = 0
        for item in items:
            new += item.work
            last = max(last, item.bucket)
        interactive = bulk = 0.0
        for pair in self.buckets[: last + 1]:
            if pair.interactive.num_items:
                interactive += pair.interactive.work_before(client, new)
            if pair.bulk.num_items:
                bulk += pair.bulk.work_before(client, new)
        return interactive + (bulk if is_bulk else min(bulk, interactive / (BULK_SHARE - 1)))

    def items(self) -> Iterator[WorkItem]:
        for lane in self.lanes:
            yield from lane
