import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service.scheduling.queues import Queues

from model.inspection.query import AttentionJob
from model.sequence import DecodingOptions, Sequence
from service.metrics.definitions import Metrics
from service.scheduling.lanes import BULK_SHARE, LOOK_AHEAD, Job, Lane, ModelQueue
from service.workers.messages import AttentionTask

LOOP = asyncio.new_event_loop()  # never runs: a job only has to have a future


@pytest.fixture(scope="module", autouse=True)
def closed_loop() -> Iterator[None]:
    yield
    LOOP.close()


def job(sequence_id: int, length: int = 5, beam: int = 1, is_bulk: bool = False) -> Job:
    sequence = Sequence(sequence_id, [0] * length, DecodingOptions(beam_size=beam))
    return Job("en-pt", sequence, is_bulk, LOOP.create_future())


def lane_of(*jobs: Job) -> Lane:
    lane = Lane()
    for each in jobs:
        lane.add(each)
    return lane


def ids(jobs: list[Job]) -> list[int]:
    return [each.id for each in jobs]


def rows(jobs: list[Job]) -> int:
    return sum(each.rows for each in jobs)


def test_first_is_the_oldest_or_who_came_back() -> None:
    jobs = [job(1), job(2, length=9, beam=3), job(3)]
    lane = lane_of(*jobs)
    assert lane.take_first() is jobs[0]
    assert (len(lane), lane.tokens, lane.rows) == (2, 14, 4)
    lane.add(jobs[0], is_first=True)
    assert [lane.take_first() for _ in jobs] == jobs
    assert (len(lane), lane.tokens, lane.rows) == (0, 0, 0)


def test_attention_waits_in_a_lane_of_its_own_and_takes_no_rows() -> None:
    task = AttentionTask(1, AttentionJob([5, 6, 0], [7, 0], ()))
    asked = Job("en-pt", task, False, LOOP.create_future())
    queues = Queues(Metrics(["en-pt"]))
    queues.add("en-pt")
    queue = queues.rows["en-pt"]
    assert queues.lane(asked) is queues.attention["en-pt"]
    assert queues.lane(job(2)) is queue.interactive
    assert queues.lane(job(3, is_bulk=True)) is queue.bulk
    queues.attention["en-pt"].add(asked)
    assert (asked.id, asked.task, asked.tokens, asked.rows) == (1, "attention", 5, 0)
    assert (queue.rows, queue.next_rows) == (0, 0)
    assert queue.take(8) == []
    assert queues.jobs() == [asked]
    assert len(queues.attention["en-pt"]) == 1


JOBS = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 8)), min_size=1, max_size=40)


@given(JOBS, st.integers(0, 20))
def test_oldest_is_taken_or_nobody(shapes: list[tuple[int, int]], free: int) -> None:
    jobs = [job(number, *shape) for number, shape in enumerate(shapes)]
    lane = lane_of(*jobs)
    taken = lane.take(free)
    assert rows(taken) <= free
    assert bool(taken) == (jobs[0].rows <= free)
    assert not taken or taken[0] is jobs[0]
    left = [each for each in jobs if each not in taken]
    assert [*lane.jobs.values()] == left
    assert (lane.rows, lane.tokens) == (rows(left), sum(each.tokens for each in left))
    assert lane.next_rows == (left[0].rows if left else 0)


@given(JOBS, st.integers(8, 20))
def test_everyone_has_a_turn_before_as_many_as_came_before(
    shapes: list[tuple[int, int]], free: int
) -> None:
    lane = lane_of(*(job(number, *shape) for number, shape in enumerate(shapes)))
    turns = 0
    while len(lane):
        turns += 1
        lane.take(free)
        assert all(number >= turns for number in lane.jobs)


def test_company_of_the_oldest_is_of_like_length() -> None:
    lengths = [50, 3, 48, 90, 51, 4, 49, 5]
    lane = lane_of(*(job(number, length) for number, length in enumerate(lengths)))
    assert ids(lane.take(4)) == [0, 4, 6, 2]
    assert ids(lane.take(4)) == [1, 5, 7, 3]


def test_of_equal_length_the_older_goes_first() -> None:
    lane = lane_of(*(job(number) for number in range(6)))
    assert ids(lane.take(4)) == [0, 1, 2, 3]


def test_company_is_sought_among_the_next_in_line_only() -> None:
    lane = lane_of(job(0, 10), *(job(number, 99) for number in range(1, 50)), job(50, 10))
    assert 50 not in ids(lane.take(2))
    assert LOOK_AHEAD * 2 < 50


def test_wide_beam_waits_and_nobody_passes_it() -> None:
    lane = lane_of(job(0, beam=4), job(1), job(2))
    assert lane.take(3) == []
    assert len(lane) == 3
    assert ids(lane.take(4)) == [0]
    assert ids(lane.take(4)) == [1, 2]


def test_job_may_leave_before_its_turn() -> None:
    first, second = job(1), job(2, length=9, beam=3)
    lane = lane_of(first, second)
    assert lane.remove(first)
    assert not lane.remove(first)
    assert (len(lane), lane.tokens, lane.rows) == (1, 9, 3)
    assert lane.remove(second)
    assert (len(lane), lane.tokens, lane.rows, lane.oldest_age) == (0, 0, 0, 0.0)


def test_job_of_a_dead_worker_is_first_again_and_keeps_its_age() -> None:
    returned = job(1)
    lane = lane_of(job(2), job(3))
    returned.created -= 100
    lane.add(returned, is_first=True)
    assert lane.oldest_age >= 100
    assert ids(lane.take(1)) == [1]


def queue_of(num_interactive: int, num_bulk: int, beam: int = 1, bulk_beam: int = 1) -> ModelQueue:
    queue = ModelQueue()
    for number in range(num_interactive):
        queue.interactive.add(job(number, beam=beam))
    for number in range(num_bulk):
        queue.bulk.add(job(10_000 + number, beam=bulk_beam, is_bulk=True))
    return queue


def bulk(jobs: list[Job]) -> list[Job]:
    return [each for each in jobs if each.is_bulk]


def test_queue_adds_up_its_lanes() -> None:
    queue = queue_of(3, 2, beam=1, bulk_beam=4)
    assert (queue.rows, queue.next_rows) == (11, 4)
    assert (ModelQueue().next_rows, ModelQueue().take(5)) == (0, [])


def test_lane_that_waits_alone_gets_every_row() -> None:
    assert len(queue_of(20, 0).take(8)) == 8
    assert len(queue_of(0, 20).take(8)) == 8


def test_rows_that_the_interactive_lane_leaves_go_to_the_other() -> None:
    taken = queue_of(3, 20).take(8)
    assert (len(taken), len(bulk(taken))) == (8, 5)


def test_bulk_lane_leaves_what_it_may_not_have_until_its_turn_comes() -> None:
    queue = queue_of(0, 100)
    assert len(queue.take(8, spare=6)) == 6
    assert queue.take(2, spare=0) == []
    for number in range(BULK_SHARE - 1):
        queue.interactive.add(job(number))
        assert not bulk(queue.take(2, spare=0))
    assert len(bulk(queue.take(2, spare=0))) == 1  # who passed it is counted, if none waited
    assert queue.take(2, spare=0) == []


@given(st.lists(st.integers(1, 16), min_size=40, max_size=40))
def test_bulk_lane_gets_its_share_however_few_rows_become_free(free: list[int]) -> None:
    """A row at a time, which is how they become free, it once got all of them or none."""
    queue = queue_of(40 * 16, 40 * 16)
    taken = [each for rows_now in free for each in queue.take(rows_now)]
    assert len(taken) == sum(free)
    assert abs(len(bulk(taken)) - len(taken) / BULK_SHARE) <= 16 / BULK_SHARE + 1


def test_old_job_does_not_starve_the_interactive_lane() -> None:
    """Bulk sentences that had waited for a second once took every row that became free."""
    queue = queue_of(100, 100)
    for each in queue.bulk.jobs.values():
        each.created -= 60
    taken = [each for _ in range(50) for each in queue.take(1)]
    assert len(bulk(taken)) == 50 // BULK_SHARE


def test_share_is_not_saved_up_while_the_bulk_lane_is_empty() -> None:
    queue = queue_of(1000, 0)
    for _ in range(100):
        queue.take(5)
    queue.bulk.add(job(10_000, is_bulk=True))
    queue.bulk.add(job(10_001, is_bulk=True))
    assert not bulk(queue.take(2))


@pytest.mark.parametrize(("beam", "bulk_beam"), [(8, 1), (1, 8), (8, 8)])
def test_wide_beam_of_either_lane_has_its_turn(beam: int, bulk_beam: int) -> None:
    """Rows become free one at a time; what the one lane leaves, the other may not nibble away."""
    queue = queue_of(800, 200, beam, bulk_beam)
    free, taken = 0, []
    for _ in range(800):
        free += 1
        taken += (now := queue.take(free))
        free -= rows(now)
        assert free < 8
    of_bulk = rows(bulk(taken))
    assert rows(taken) + free == 800
    assert of_bulk == pytest.approx(800 / BULK_SHARE, abs=8)
