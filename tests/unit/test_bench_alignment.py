"""What `regard bench alignment` and `regard bench detachment` count."""

from typing import Any

import pytest

from benchmarks.bench.correctness import area_under_curve, judged, shifted

TEXT = "Ana paid 12 euros to a bank in Paris"
TRANSLATION = "A Ana pagou 12 euros a um banco em Paris"


def spans(text: str) -> list[list[int]]:
    """[start, end) of each word."""
    found, at = [], 0
    for word in text.split(" "):
        found.append([at, at + len(word)])
        at += len(word) + 1
    return found


def aligned(*pairs: tuple[int, int]) -> dict[str, Any]:
    """An alignment as the server returns it."""
    return {
        "source_words": spans(TEXT),
        "target_words": spans(TRANSLATION),
        "pairs": [[source, target, 1.0] for source, target in pairs],
    }


def test_numerals_words_and_false_friends_are_told_apart() -> None:
    alignment = aligned((0, 1), (2, 3), (8, 4))
    assert judged(TEXT, TRANSLATION, [alignment], {"a"}) == [
        ("word", True),  # Ana
        ("numeral", True),
        ("word", False),  # euros, aligned to Paris
        ("false friend", False),  # a
        ("word", False),  # Paris
    ]


def test_a_word_that_occurs_twice_on_a_side_is_left_out() -> None:
    text = "Ana saw Ana"
    alignment = {"source_words": spans(text), "target_words": spans("Ana"), "pairs": [[0, 0, 1.0]]}
    assert judged(text, "Ana", [alignment], set()) == []


@pytest.mark.parametrize("count", [2, 3, 10, 101])
def test_no_line_keeps_its_translation(count: int) -> None:
    lines = [str(number) for number in range(count)]
    found = shifted(lines)
    assert sorted(found) == sorted(lines)
    assert all(one != other for one, other in zip(found, lines, strict=True))


@pytest.mark.parametrize(
    ("lower", "higher", "area"),
    [([1, 2], [3, 4], 1.0), ([3, 4], [1, 2], 0.0), ([1, 2], [1, 2], 0.5), ([1, 3], [2, 4], 0.75)],
)
def test_area_is_the_share_of_ordered_pairs(
    lower: list[float], higher: list[float], area: float
) -> None:
    assert area_under_curve(lower, higher) == area
