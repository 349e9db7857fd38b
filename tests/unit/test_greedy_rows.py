import numpy as np

from model.engine.engine import GreedyRows

EOS = 0


def new_rows(*limits: int) -> GreedyRows:
    rows = GreedyRows(max_rows=len(limits), max_tokens=max(limits), eos_id=EOS)
    rows.enter(0, limits)
    return rows


def append(rows: GreedyRows, *tokens: int) -> list[int]:
    return rows.append(np.arange(len(tokens)), np.array(tokens)[:, None])


def test_a_row_ends_with_eos_or_at_its_limit() -> None:
    rows = new_rows(2, 3, 3)
    assert append(rows, 7, 8, EOS) == [2]
    assert append(rows, 7, 9) == [0]
    assert append(rows, 7, EOS) == [0, 1]  # row 0 was not released: it goes on having ended
    assert [rows.target(row) for row in range(1, 3)] == [[8, 9, EOS], [EOS]]


def test_a_limit_of_one_takes_one_token() -> None:
    rows = new_rows(1)
    assert append(rows, 5) == [0]
    assert rows.target(0) == [5]


def test_tokens_go_where_their_rows_are_now_and_nowhere_once_they_are_gone() -> None:
    rows = new_rows(5, 5, 5)
    rows.append(np.array([2, -1, 0]), np.array([[7], [8], [9]]))
    assert [rows.target(row) for row in range(3)] == [[9], [], [7]]


def test_a_row_that_went_as_the_last_one_changes_nothing_in_the_last_row() -> None:
    """Numpy reads -1 as the last element."""
    rows = new_rows(5, 5)
    assert rows.append(np.array([0, -1]), np.array([[7], [EOS]])) == []
    assert rows.target(1) == []


def test_rows_whose_tokens_are_chosen_elsewhere_are_left_alone() -> None:
    rows = new_rows(5, 0, 5)
    assert append(rows, 7, EOS, EOS) == [2]
    assert rows.target(1) == []


def test_a_moved_row_goes_on_where_it_was() -> None:
    rows = new_rows(4, 2, 3)
    append(rows, 5, 6, 7)
    rows.move([2], [0])
    assert rows.append(np.array([0]), np.array([[8]])) == []
    assert rows.append(np.array([0]), np.array([[9]])) == [0]
    assert rows.target(0) == [7, 8, 9]


def test_a_newcomer_starts_from_nothing() -> None:
    rows = new_rows(2, 2)
    append(rows, 5, 6)
    rows.enter(0, [2])
    assert rows.target(0) == []
    assert append(rows, 7, 8) == [1]


def test_several_tokens_at_once_go_up_to_the_end_of_each_row() -> None:
    rows = new_rows(6, 2, 6, 6)
    append(rows, 3, 3, 3, 3)
    assert rows.remaining(4).tolist() == [5, 1, 5, 5]
    best = np.array([[5, 6, 7], [5, -1, -1], [5, EOS, -1], [8, 8, 8]])
    assert rows.append(np.array([0, 1, 2, -1]), best) == [1, 2]
    assert [rows.target(row) for row in range(4)] == [[3, 5, 6, 7], [3, 5], [3, 5, EOS], [3]]


def test_rows_of_a_search_have_no_tokens_left() -> None:
    rows = new_rows(0, 3)
    assert rows.remaining(2).tolist() == [0, 3]


def test_a_row_that_was_not_decoded_stays_as_it_is() -> None:
    rows = new_rows(3, 0, 3)
    assert append(rows, -1, 8, 9) == []
    assert rows.remaining(3).tolist() == [3, 0, 2]
