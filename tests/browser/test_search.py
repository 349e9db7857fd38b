"""The search for a head that links two words, and the grid of all heads."""

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, POOL, Reader

pytestmark = pytest.mark.browser


def test_heads_are_ranked_for_two_words(reader: Reader, page: Page, api: Api) -> None:
    reader.read(KIDS, kind="encoder")
    page.get_by_text("Which head links two words?").click()
    cells = page.locator("#search-grid [role=gridcell]")
    expect(cells).to_have_count(6 * 8)
    expect(page.locator("#search-grid canvas")).to_have_count(6 * 8)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("This word", exact=True).select_option("they")
    page.get_by_label("looks at this word").select_option("kids")
    labels = reader.labels("row")
    row, column = labels.index("they"), labels.index("kids")
    numbers = api.heads(KIDS, layers="all", kinds=["encoder"])[:, :, row, column]
    expect(page.locator("#search-words")).to_contain_text("“they” → “kids”")
    for layer, head in np.ndindex(numbers.shape):
        name = f"Layer {layer + 1}, head {head + 1}: "
        told = cells.nth(layer * 8 + head).get_attribute("aria-label") or ""
        assert told.startswith(name)
        assert float(told.removeprefix(name)) == pytest.approx(numbers[layer, head], abs=1.1e-4)
    ranked = page.locator("#search-ranked button").all_text_contents()
    best = np.sort(numbers.flatten())[::-1][: len(ranked)]
    assert [float(text.rsplit(": ", 1)[1]) for text in ranked] == pytest.approx(best, abs=1.1e-4)
    assert len([url for url in asked if url.endswith("/attention")]) <= 1  # for the parts of words


def test_choosing_a_ranked_head_shows_it(reader: Reader, page: Page) -> None:
    reader.read(POOL, search="yes", query=0, key=0)
    best = page.locator("#search-ranked button").first
    name, number = (best.text_content() or "").split(": ")
    best.click()
    place = name.replace("Layer", "layer")
    expect(page.get_by_role("heading", name=f"Cross-attention, {place}")).to_be_visible()
    expect(page.locator("#number-title")).to_contain_text(f": {number}")
    expect(page.locator("#search-ranked button").first).to_have_attribute("aria-pressed", "true")


def test_grid_is_used_by_keyboard(reader: Reader, page: Page) -> None:
    reader.read(POOL, search="yes", layer=1, head=2)
    cell = page.get_by_role("gridcell", name="Layer 2, head 3")
    expect(cell).to_have_attribute("aria-selected", "true")
    cell.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    target = page.get_by_role("gridcell", name="Layer 1, head 4")
    expect(target).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="layer 1, head 4")).to_be_visible()
    expect(target).to_have_attribute("aria-selected", "true")
    expect(target).to_be_focused()
    assert page.locator("#search-grid [tabindex='0']").count() == 1
    page.keyboard.press("End")
    expect(page.get_by_role("gridcell", name="Layer 1, head 8")).to_be_focused()


def test_pair_of_clicked_words_is_searched(reader: Reader, page: Page) -> None:
    reader.read(KIDS, search="yes")
    row, column = reader.labels("row").index("eles"), reader.labels("column").index("they")
    reader.cell(row, column).click()
    expect(page.get_by_label("This word", exact=True)).to_have_value(str(row))
    expect(page.get_by_label("looks at this word")).to_have_value(str(column))
    page.keyboard.press("Escape")
    expect(page.get_by_label("This word", exact=True)).to_have_value("")
    expect(page.locator("#search-best")).to_be_hidden()
