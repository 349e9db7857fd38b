"""The search for a head that links two words, and the map of all heads."""

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, POOL, Reader


def heads_map(page: Page) -> Locator:
    return page.locator("#search-map")


def test_heads_are_compared_for_two_words(reader: Reader, page: Page, api: Api) -> None:
    reader.read(KIDS, kind="encoder")
    page.get_by_text("Which head links two words?").click()
    expect(page.locator("#search-words")).to_have_text("Choose two words to compare all heads.")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("This word", exact=True).select_option("they")
    page.get_by_label("looks at this word").select_option("kids")
    labels = reader.labels("row")
    row, column = labels.index("they"), labels.index("kids")
    numbers = api.heads(KIDS, layers="all", kinds=["encoder"])[:, :, row, column]
    words = page.locator("#search-words")
    expect(words).to_contain_text("“they” → “kids”")
    best = [int(place) + 1 for place in np.unravel_index(numbers.argmax(), numbers.shape)]
    expect(words).to_contain_text(f"in layer {best[0]}, head {best[1]}.")
    largest = re.search(r"The largest is ([\d.]+)", words.text_content() or "")
    assert largest is not None
    assert float(largest[1]) == pytest.approx(numbers.max(), abs=1.1e-4)
    page.locator("#search details summary", has_text="As a table").first.click()
    expect(page.locator("#search td")).to_have_count(1 + numbers.size)
    cells = page.locator("#search td").all_text_contents()[1:]
    assert [float(cell) for cell in cells] == pytest.approx(numbers.flatten(), abs=1.1e-3)
    assert len([url for url in asked if url.endswith("/attention")]) <= 1  # for the parts of words


def test_map_of_heads_is_used_by_keyboard(reader: Reader, page: Page) -> None:
    reader.read(POOL, search="yes", layer=1, head=2, query=0, key=0)
    heads = heads_map(page)
    expect(page.locator("#search-map-readout")).to_contain_text("Layer 2, head 3: ")
    heads.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    readout = page.locator("#search-map-readout")
    expect(readout).to_contain_text("Layer 1, head 4: ")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="layer 1, head 4")).to_be_visible()
    expect(heads).to_be_focused()
    page.keyboard.press("End")
    expect(readout).to_contain_text("Layer 1, head 8: ")


def test_pair_of_clicked_words_is_searched(reader: Reader, page: Page) -> None:
    reader.read(KIDS, search="yes")
    row, column = reader.labels("row").index("eles"), reader.labels("column").index("they")
    reader.cell(row, column).click()
    expect(page.get_by_label("This word", exact=True)).to_have_value(str(row))
    expect(page.get_by_label("looks at this word")).to_have_value(str(column))
    page.keyboard.press("Escape")
    expect(page.get_by_label("This word", exact=True)).to_have_value("")
    expect(heads_map(page)).to_be_hidden()
