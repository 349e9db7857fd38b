"""The toy of Understand: attention of twelve numbers, computed in the browser."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect

from tests.browser.reader import PHONE, Reader, box_of, number

Matrix = NDArray[np.float64]

FIRST = np.array([[0.5, 0.1, 0.1, 0.2], [0.1, 0.5, 0.2, 0.1], [0.5, 0.1, 0.2, 0.1]])
SCORES = [[0.31, 0.14, 0.3], [0.14, 0.31, 0.15], [0.3, 0.15, 0.31]]
OUTPUT = [[0.38, 0.22, 0.16, 0.14], [0.35, 0.25, 0.17, 0.13], [0.38, 0.22, 0.17, 0.13]]


def opened(reader: Reader, **view: Any) -> None:
    reader.open(way="understand", **view).unfold("#toy details")


def computed(matrix: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    scores = matrix @ matrix.T
    powers = np.exp(scores)
    weights = powers / powers.sum(axis=1, keepdims=True)
    return scores, weights, weights @ matrix


def shown(page: Page, name: str) -> Matrix:
    rows = page.locator(f"#toy [data-matrix={name}] tbody tr").all()
    texts = [row.locator("td").all_text_contents() for row in rows]
    return np.array([[*map(number, row)] for row in texts])


def cell(page: Page, word: str, index: int) -> Locator:
    return page.get_by_label(f"{word}, number {index}", exact=True)


def assert_follows(page: Page, matrix: Matrix) -> None:
    for name, wanted in zip(("scores", "weights", "output"), computed(matrix), strict=True):
        np.testing.assert_allclose(shown(page, name), wanted, atol=5.1e-3)


def test_toy_starts_with_the_numbers_of_the_explanation(reader: Reader, page: Page) -> None:
    """A text that explains attention with these numbers prints the same results."""
    opened(reader)
    expect(page.locator("#toy [data-matrix=output] tbody tr")).to_have_count(3)
    np.testing.assert_array_equal(shown(page, "scores"), SCORES)
    np.testing.assert_array_equal(shown(page, "output"), OUTPUT)
    assert_follows(page, FIRST)
    steps = page.locator("#toy")
    expect(steps).to_contain_text("0.5 × 0.5 + 0.1 × 0.1 + 0.1 × 0.2 + 0.2 × 0.1 = 0.30")
    expect(steps).to_contain_text("The number of “pool” for sport went from 0.50 to 0.38: a mix")


def test_toy_follows_what_is_typed(reader: Reader, page: Page) -> None:
    opened(reader)
    cell(page, "pool", 1).fill("-2,5")  # with a decimal comma
    cell(page, "badminton", 3).fill(".25")
    changed = FIRST.copy()
    changed[0, 0], changed[2, 2] = -2.5, 0.25
    assert_follows(page, changed)
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("1")
    changed[2, 1] = 1
    assert_follows(page, changed)
    reader.button("Back to the first numbers").click()
    expect(cell(page, "pool", 1)).to_have_value("0.5")
    assert_follows(page, FIRST)


def test_bad_number_is_explained_below_its_row(reader: Reader, page: Page) -> None:
    opened(reader)
    warning = page.locator("#toy-warning-1")
    for text in ("", "a", "1.2.3", "11", "1e3", "--1"):
        cell(page, "beats", 2).fill(text)
        expect(warning).to_contain_text("Write a number from −10 to 10")
        expect(cell(page, "beats", 2)).to_have_attribute("aria-invalid", "true")
        assert_follows(page, FIRST)  # still the figures of the last valid number
        cell(page, "beats", 2).fill("0.5")
        expect(warning).to_have_text("")


def test_link_holds_the_numbers(reader: Reader, page: Page) -> None:
    opened(reader)
    cell(page, "beats", 4).fill("3")
    reader.go(reader.copied_link())  # it opens the fold
    expect(cell(page, "beats", 4)).to_be_visible()
    expect(cell(page, "beats", 4)).to_have_value("3")
    changed = FIRST.copy()
    changed[1, 3] = 3
    assert_follows(page, changed)


@pytest.mark.parametrize("toy", ["1 2 3", "x", "1 2 3 4 5 6 7 8 9 10 11 12"])
def test_damaged_numbers_of_a_link_are_left_out(reader: Reader, page: Page, toy: str) -> None:
    opened(reader, toy=toy)
    expect(cell(page, "pool", 1)).to_have_value("0.5")


@pytest.mark.parametrize("options", [PHONE])
def test_cells_are_large_enough_for_a_finger(reader: Reader, page: Page) -> None:
    opened(reader)
    box = box_of(cell(page, "pool", 1))
    assert min(box["width"], box["height"]) >= 40
    assert page.evaluate("document.documentElement.scrollWidth") == 375
