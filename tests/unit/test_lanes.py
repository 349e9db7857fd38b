"""The order in which lanes give their items: by arrival, length, and the share of each lane."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.inspection.query import AttentionJob
from model.sequence import DecodingOptions
from service.items import (
    BUCKET_TOKENS,
    NUM_BUCKETS,
    AttentionItem,
    EmbeddingItem,
    TranslationItem,
    WorkItem,
)
from service.scheduling.lanes import BULK_SHARE, LOOK_AHEAD, Lane, LanePair, Queue
from service.scheduling.policies import Policy
from service.tasks.table import TASKS


def measured(item: WorkItem, number: int) -> WorkItem:
    """Returns an item as the scheduler prepares it for its queue."""
    item.id, item.client, item.created = number, "", time.perf_counter()
    item.tokens, item.rows = item.num_tokens, item.num_rows
    item.work = item.tokens * item.rows
    TASKS[item.kind].policy.measure(item)
    return item


def sentence(number: int, length: int = 5, beam: int = 1, is_bulk: bool = False) -> WorkItem:
    options = DecodingOptions(beam_size=beam)
    return measured(TranslationItem("en-pt", [0] * length, options, is_bulk=is_bulk), number)


def attention_item(number: int, is_bulk: bool = False) -> WorkItem:
    return measured(AttentionItem("en-pt", AttentionJob([5, 6, 0], [7, 0], ()), is_bulk), number)


def text_item(number: int, length: int = 5, is_bulk: bool = False) -> WorkItem:
    return measured(EmbeddingItem("tiny", [0] * length, is_bulk=is_bulk), number)


def lane_of(*items: WorkItem) -> Lane:
    lane = Lane()
    for each in items:
        lane.add(each)
    return lane


def ids(items: list[WorkItem]) -> list[int]:
    return [each.id for each in items]


def rows(items: list[WorkItem]) -> int:
    return sum(each.rows for each in items)


@pytest.mark.parametrize(
    ("make", "kind", "tokens", "cost"),
    [
        (sentence, "translate", 5, 1),
        (attention_item, "attention", 5, 1),
        (text_item, "embed", 5, 5),
    ],
)
def test_item_of_each_kind_waits_in_the_lane_that_its_item_names(
    make: Callable[..., WorkItem], kind: str, tokens: int, cost: int
) -> None:
    policy: Policy = TASKS[kind].policy
    queue = Queue(policy.num_buckets)
    interactive, bulk = make(1), make(2, is_bulk=True)
    for each in (interactive, bulk):
        assert (each.kind, each.tokens, each.rows, each.cost) == (kind, tokens, 1, cost)
        queue.lane(each).add(each)
    (pair, *others) = queue.buckets
    assert not any(map(len, others))
    assert [*pair.interactive] == [interactive]
    assert [*pair.bulk] == [bulk]
    assert [*queue.items()] == [interactive, bulk]
    assert queue.lane(bulk).remove(bulk)
    assert [*queue.items()] == [interactive]


def test_queue_has_the_age_of_its_oldest_item() -> None:
    queue = Queue(NUM_BUCKETS)
    short, long = text_item(1), text_item(2, length=BUCKET_TOKENS[-1] + 1)
    assert queue.oldest_age == 0.0
    for each in (short, long):
        queue.lane(each).add(each)
    long.created -= 100
    assert [len(pair) for pair in queue.buckets] == [1, *[0] * (NUM_BUCKETS - 2), 1]
    assert queue.oldest_age >= 100
    assert [*queue.items()] == [short, long]


ITEMS = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 8)), min_size=1, max_size=40)


@given(ITEMS, st.integers(0, 20))
def test_oldest_item_is_taken_or_none(shapes: list[tuple[int, int]], free: int) -> None:
    items = [sentence(number, *shape) for number, shape in enumerate(shapes)]
    lane = lane_of(*items)
    taken = lane.take(free)
    assert rows(taken) <= free
    assert bool(taken) == (items[0].rows <= free)
    assert not taken or taken[0] is items[0]
    left = [each for each in items if each.id not in ids(taken)]
    assert [*lane] == left
    assert (lane.rows, lane.tokens) == (rows(left), sum(each.tokens for each in left))
    assert lane.next_rows == (left[0].rows if left else 0)


@given(ITEMS, st.integers(8, 20))
def test_item_with_n_items_before_it_waits_for_at_most_n_turns(
    shapes: list[tuple[int, int]], free: int
) -> None:
    lane = lane_of(*(sentence(number, *shape) for number, shape in enumerate(shapes)))
    turns = 0
    while len(lane):
        turns += 1
        lane.take(free)
        assert all(number >= turns for number in (item.id for item in lane))


def test_items_nearest_in_length_are_taken_with_the_oldest() -> None:
    lengths = [50, 3, 48, 90, 51, 4, 49, 5]
    lane = lane_of(*(sentence(number, length) for number, length in enumerate(lengths)))
    assert ids(lane.take(4)) == [0, 4, 6, 2]
    assert ids(lane.take(3)) == [1, 5, 7]


def test_items_of_similar_length_are_sought_among_the_oldest_only() -> None:
    lane = lane_of(
        sentence(0, 10), *(sentence(number, 99) for number in range(1, 50)), sentence(50, 10)
    )
    assert 50 not in ids(lane.take(2))
    assert LOOK_AHEAD * 2 < 50


def test_item_of_a_dead_worker_is_first_again_and_keeps_its_age() -> None:
    lane = lane_of(*of_client("many", 2, 1), *of_client("one", 1, 200))
    (first,) = lane.take(1)
    first.created -= 100
    lane.add(first, is_first=True)
    assert lane.oldest_age >= 100
    assert [each.id for each in lane] == [1, 200, 2]


def pair_of(num_interactive: int, num_bulk: int, beam: int = 1, bulk_beam: int = 1) -> LanePair:
    pair = LanePair()
    for number in range(num_interactive):
        pair.interactive.add(sentence(number, beam=beam))
    for number in range(num_bulk):
        pair.bulk.add(sentence(10_000 + number, beam=bulk_beam, is_bulk=True))
    return pair


def bulk(items: list[WorkItem]) -> list[WorkItem]:
    return [each for each in items if each.is_bulk]


def test_bulk_lane_gets_the_rows_that_the_interactive_lane_leaves() -> None:
    taken = pair_of(3, 20).take(8)
    assert (len(taken), len(bulk(taken))) == (8, 5)


def test_bulk_lane_leaves_the_kept_rows_free_until_its_turn_comes() -> None:
    pair = pair_of(0, 100)
    assert len(pair.take(8, spare=6)) == 6
    assert pair.take(2, spare=0) == []
    for number in range(BULK_SHARE - 1):
        pair.interactive.add(sentence(number))
        assert not bulk(pair.take(2, spare=0))
    # The debt counts the rows of the interactive lane, although no item of it waits any more.
    assert len(bulk(pair.take(2, spare=0))) == 1
    assert pair.take(2, spare=0) == []


@given(st.lists(st.integers(1, 16), min_size=40, max_size=40))
def test_bulk_lane_gets_its_share_however_few_rows_become_free(free: list[int]) -> None:
    """Guards a fault: with one free row at a time, the bulk lane got all of the rows or none."""
    pair = pair_of(40 * 16, 40 * 16)
    taken = [each for rows_now in free for each in pair.take(rows_now)]
    assert len(taken) == sum(free)
    assert abs(len(bulk(taken)) - len(taken) / BULK_SHARE) <= 16 / BULK_SHARE + 1


@pytest.mark.parametrize(("beam", "bulk_beam"), [(8, 1), (1, 8), (8, 8)])
def test_wide_beam_of_either_lane_has_its_turn(beam: int, bulk_beam: int) -> None:
    """Rows become free one at a time; one lane does not take the rows that another one saves."""
    pair = pair_of(800, 200, beam, bulk_beam)
    free, taken = 0, []
    for _ in range(800):
        free += 1
        taken += (now := pair.take(free))
        free -= rows(now)
        assert free < 8
    of_bulk = rows(bulk(taken))
    assert rows(taken) + free == 800
    assert of_bulk == pytest.approx(800 / BULK_SHARE, abs=8)


def test_share_is_not_saved_up_while_the_bulk_lane_is_empty() -> None:
    pair = pair_of(20, 1)
    for _ in range(BULK_SHARE - 2):
        assert not bulk(pair.take(1))
    (waiting,) = pair.bulk
    pair.bulk.remove(waiting)
    pair.take(1)
    pair.bulk.add(waiting)
    for _ in range(BULK_SHARE - 1):
        assert not bulk(pair.take(1))
    assert pair.take(1) == [waiting]


def of_client(client: str, count: int, first: int) -> list[WorkItem]:
    found = [sentence(number) for number in range(first, first + count)]
    for each in found:
        each.client = client
    return found


def test_clients_take_turns() -> None:
    lane = lane_of(*of_client("many", 100, 1), *of_client("one", 1, 200), *of_client("two", 2, 300))
    taken = [each.id for _ in range(6) for each in lane.take(1)]
    assert taken == [1, 200, 300, 2, 301, 3]
    assert len(lane) == 97
    assert {*lane.clients} == {"many"}


def test_client_waits_for_others_only_up_to_its_own_work() -> None:
    lane = lane_of(*of_client("many", 100, 1), *of_client("one", 1, 200))
    assert lane.work_before("new", 5) == 5 + 5
    assert lane.work_before("one", 10) == 5 + 15
    assert lane.work_before("many", 5) == 500 + 5
