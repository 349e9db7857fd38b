"""One selection: the words of the texts, the map, the heads and the numbers show the same."""

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, POOL, TWO, Reader


def test_cell_of_a_mean_opens_all_heads(reader: Reader, page: Page, api: Api) -> None:
    """The pair that is clicked is the pair that is shown for all heads, and the view stays."""
    reader.read(POOL, head="mean")
    numbers = api.heads(POOL, layers="all")[:, :, 2, 1]
    reader.cell(2, 1).click()
    heads = page.locator("#search-map")
    expect(heads).to_be_focused()
    expect(heads.locator("rect[data-row]")).to_have_count(numbers.size)
    assert reader.chosen("heads") == "mean"
    expect(reader.steps).to_be_hidden()
    heads.locator("rect[data-row='1'][data-column='3']").click()
    expect(page.locator("#steps-place")).to_contain_text("layer 2, head 4")
    expect(page.locator("#search-map-readout")).to_contain_text(f"{numbers[1, 3]:.4f}")


@pytest.mark.parametrize("layer", ["all", "rollout"])
def test_cell_of_all_layers_opens_all_heads(reader: Reader, page: Page, layer: str) -> None:
    reader.read(POOL, kind="encoder", layer=layer)
    reader.cell(1, 0).click()
    expect(page.locator("#search-map rect[data-row]")).to_have_count(48)
    expect(page.locator("#search-words")).to_contain_text("“beats” → “pool”")


def test_word_of_the_translation_moves_the_map(reader: Reader, page: Page) -> None:
    reader.read()
    row = reader.labels("row").index("eles")
    reader.word("eles").hover()
    outline = reader.map.locator(".marker.row")
    expect(outline).not_to_have_attribute("stroke", "none")
    assert outline.get_attribute("y") == reader.cell(row, 0).get_attribute("y")
    reader.word("eles").click()
    expect(reader.readout).to_contain_text("“eles”")
    expect(page.locator("#steps-title")).to_have_text("Step by step: “eles”")
    page.keyboard.press("Escape")
    expect(reader.steps).to_be_hidden()
    expect(reader.word("eles")).to_have_attribute("aria-pressed", "false")


def test_cells_light_the_words_of_both_texts(reader: Reader, page: Page) -> None:
    reader.read()
    row, column = reader.labels("row").index("eles"), reader.labels("column").index("they")
    reader.cell(row, column).hover()
    assert reader.lit("mirror") == ["they"]
    assert page.locator("#output .here").all_text_contents() == ["eles"]
    reader.page.get_by_role("heading", name="Regard").hover()
    assert reader.lit("mirror") == []


def test_two_words_that_are_clicked_pin_their_number(reader: Reader, page: Page) -> None:
    reader.read(head="mean")
    reader.word("eles").click()
    page.mouse.click(*reader.point_at(page.locator("#mirror span", has_text="they")))
    row, column = reader.labels("row").index("eles"), reader.labels("column").index("they")
    pin = reader.map.locator(".marker.pin")
    for name in ("x", "y"):
        assert pin.get_attribute(name) == reader.cell(row, column).get_attribute(name)
    assert page.locator(".pinned").all_text_contents() == ["they", "eles"]
    page.keyboard.press("Escape")
    expect(page.locator(".pinned")).to_have_count(0)


def test_word_of_the_text_looks_at_words_of_the_text(reader: Reader, page: Page, api: Api) -> None:
    """In the encoder both sides of the map are the text."""
    reader.read(kind="encoder", layer=2, head=1)
    plane = api.heads(KIDS, kinds=["encoder"], layers=[2], heads=[1])[0, 0]
    names = [label for label in reader.labels("row") if not label.startswith("⟨")]
    row = names.index("they")
    reader.point_at(page.locator("#mirror span", has_text="they"))
    weights = plane[row][: len(names)]
    assert reader.lit("mirror") == [n for n, w in zip(names, weights, strict=True) if w >= 0.05]
    told = page.locator("#pairs")
    best = int(np.argmax(weights))
    expect(told).to_contain_text(f"looks at “{names[best]}” {round(100 * weights[best])} %")
    expect(told).to_contain_text("Encoder, layer 3, head 2")


def test_word_that_the_map_does_not_have_is_aligned_and_says_so(
    reader: Reader, page: Page, api: Api
) -> None:
    reader.read(TWO, kind="encoder")
    reader.output.get_by_role("button").first.hover()
    aligner = api.model()["alignment"]
    place = f"layer {aligner['layer'] + 1}, head {aligner['head'] + 1}"
    told = page.locator("#pairs")
    expect(told).to_contain_text(f"the head that aligns words: Cross-attention, {place}")
    reader.output.get_by_role("button").first.click()
    expect(page.get_by_role("heading", name=f"Cross-attention, {place}")).to_be_visible()


def test_words_of_the_second_sentence_are_those_of_its_map(reader: Reader, page: Page) -> None:
    reader.read(TWO, sentence=1)
    words = reader.output.get_by_role("button")
    last = [label for label in reader.labels("row") if not label.startswith("⟨")][0]
    words.filter(has_text=last).last.hover()
    expect(page.locator("#pairs")).not_to_contain_text("aligns words")


def test_link_restores_the_pinned_pair(reader: Reader, page: Page) -> None:
    reader.read(POOL, head="mean").cell(2, 1).click()
    words = page.locator("#search-words")
    expect(words).to_contain_text("→")
    text = words.text_content() or ""
    reader.go(reader.copied_link())
    expect(words).to_have_text(text)
