"""The detachment score, and what `regard bench detachment` computes from it."""

import numpy as np
import pytest

from benchmarks.bench.correctness import area_under_curve, shifted
from service.tasks.alignment.detachment import detachment


def test_equal_attention_is_not_detached() -> None:
    assert detachment(np.full((3, 4), 0.25, np.float32)) == 0.0


def test_attention_to_every_token_in_turn_is_not_detached() -> None:
    assert detachment(np.eye(5, dtype=np.float32)) == pytest.approx(0.0)


def test_attention_to_one_token_is_detached() -> None:
    weights = np.zeros((3, 4), np.float32)
    weights[:, 3] = 1.0
    assert detachment(weights) == pytest.approx(1 - 1 / 4)


def test_score_is_half_the_sum_of_the_differences() -> None:
    weights = np.array([[0.5, 0.5, 0.0], [0.7, 0.3, 0.0]], np.float32)
    assert detachment(weights) == pytest.approx((0.6 - 1 / 3 + 0.4 - 1 / 3 + 1 / 3) / 2)


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
