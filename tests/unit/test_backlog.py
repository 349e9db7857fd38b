"""The items of an executor: those that wait, the batch, and the parts of failed batches."""

import random
from collections import deque

import pytest

from service.items import EmbeddingItem
from service.workers.executors import Backlog

Items = list[EmbeddingItem]


def items(*ids: int) -> Items:
    return [EmbeddingItem("tiny", [5], id=number) for number in ids]


def ids(found: Items) -> list[int]:
    return [item.id for item in found]


def take_all(waiting: deque[EmbeddingItem]) -> Items:
    found = list(waiting)
    waiting.clear()
    return found


def filled(*numbers: int) -> Backlog[EmbeddingItem]:
    backlog: Backlog[EmbeddingItem] = Backlog()
    backlog.waiting.extend(items(*numbers))
    return backlog


def failed(*numbers: int) -> Backlog[EmbeddingItem]:
    backlog = filled(*numbers)
    backlog.begin(take_all)
    assert backlog.isolate() == []
    return backlog


def parts(backlog: Backlog[EmbeddingItem]) -> list[list[int]]:
    return [ids(part) for part in backlog.retries]


def compute(backlog: Backlog[EmbeddingItem], faults: set[int]) -> tuple[list[int], list[int], int]:
    """Computes all batches; a batch with one of `faults` fails.

    Returns:
        Ids of the computed items and of the failed items, and the number of batches.
    """
    done: list[int] = []
    at_fault: list[int] = []
    num_batches = 0
    while len(backlog):
        num_batches += 1
        batch = ids(backlog.begin(take_all))
        if faults.isdisjoint(batch):
            done += batch
            backlog.end()
        else:
            at_fault += ids(backlog.isolate())
    return done, at_fault, num_batches


@pytest.mark.parametrize("num_faults", [0, 1, 2, 5, 16])
def test_all_items_at_fault_are_found_and_the_others_computed(num_faults: int) -> None:
    numbers = [*range(1, 17)]
    faults = set(random.Random(num_faults).sample(numbers, num_faults))
    done, at_fault, num_batches = compute(filled(*numbers), faults)
    assert (done, at_fault) == (sorted({*numbers} - faults), sorted(faults))
    assert num_batches <= min(2 * 16 - 1, 1 + 2 * 4 * num_faults)  # four halvings of 16 items


def test_batch_is_given_up_once_all_of_its_items_are_aborted() -> None:
    backlog = filled(1, 2, 3)
    given_up = [backlog.is_given_up]
    backlog.begin(lambda waiting: [waiting.popleft(), waiting.popleft()])
    for item_id in (3, 1, 2):
        given_up.append(backlog.is_given_up)
        backlog.abort([item_id])
    given_up.append(backlog.is_given_up)
    backlog.end()
    given_up.append(backlog.is_given_up)
    assert given_up == [False, False, False, False, True, False]
    assert not len(backlog)


def test_item_that_is_left_of_a_failed_batch_is_not_at_fault() -> None:
    """Of two items, the aborted one may have been at fault."""
    backlog = filled(1, 2)
    backlog.begin(take_all)
    backlog.abort([1])
    assert backlog.isolate() == []
    assert parts(backlog) == [[2]]


def test_oldest_item_may_wait_be_computed_or_be_a_part_of_a_failed_batch() -> None:
    backlog = filled(4)
    assert backlog.oldest == 4
    backlog.retries.extend([items(3), items(2)])
    assert backlog.oldest == 2
    backlog.retries.appendleft(items(1))
    backlog.begin(take_all)
    assert backlog.oldest == 1
