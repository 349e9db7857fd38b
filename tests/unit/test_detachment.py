"""What `regard bench detachment` computes from scores."""

import pytest

from benchmarks.bench.correctness import area_under_curve, shifted


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
