"""One selection: the words of the texts, the map, the heads and the numbers show the same."""

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, POOL, TWO, Reader

pytestmark = pytest.mark.browser

WORDS = "The badminton lions slept."  # of several tokens each


def parts(page: Page) -> dict[str, list[float]]:
    expect(page.locator("#number-parts tbody tr")).not_to_have_count(0)
    rows = page.locator("#number-parts :is(tbody, tfoot) tr").all()
    texts = [row.locator("th, td:not([aria-hidden])").all_text_contents() for row in rows]
    return {name: [float(number) for number in numbers] for name, *numbers in texts}


def test_cell_of_a_mean_opens_the_heads_of_the_mean(reader: Reader, page: Page, api: Api) -> None:
    """The number that is clicked is the number that is explained, and the view stays."""
    reader.read(POOL, head="mean")
    heads = api.heads(POOL, layers=[1])[0, :, 2, 1]
    shown = reader.number(2, 1)
    reader.cell(2, 1).click()
    expect(page.locator("#number-title")).to_be_focused()
    expect(page.locator("#number-title")).to_contain_text(f": {shown:.4f}")
    found = parts(page)
    assert [found[f"Head {n + 1}"][0] for n in range(8)] == pytest.approx(heads, abs=1.1e-4)
    assert found["sum"][0] == pytest.approx(heads.sum(), abs=2e-4)
    assert found["sum ÷ 8"][0] == pytest.approx(shown, abs=1.1e-4)
    assert reader.chosen("heads") == "mean"
    expect(reader.steps).to_be_hidden()
    expect(page.locator("#number-words")).to_contain_text("mean of the 8 heads of layer 2")


def test_head_of_a_mean_opens_the_computation_of_its_number(
    reader: Reader, page: Page, api: Api
) -> None:
    reader.read(POOL, head="mean", level="token")
    reader.cell(2, 1).click()
    number = parts(page)["Head 4"][0]
    reader.button("Head 4").click()
    expect(page.locator("#steps-place")).to_contain_text("layer 2, head 4")
    share = page.locator("#steps-table tbody tr").nth(1).locator("td.share")
    expect(share).to_have_text(f"{number:.3f}")
    expect(page.locator("#number-title")).to_contain_text(f": {number:.4f}")


def test_cell_of_all_layers_opens_the_layers(reader: Reader, page: Page, api: Api) -> None:
    reader.read(POOL, layer="all")
    shown = reader.number(1, 0)
    reader.cell(1, 0).click()
    means = api.heads(POOL, layers="all")[:, :, 1, 0].mean(axis=1)
    found = parts(page)
    assert [found[f"Layer {n + 1}"][0] for n in range(2)] == pytest.approx(means, abs=1.1e-4)
    assert found["sum ÷ 2"][0] == pytest.approx(shown, abs=1.1e-4)
    reader.button("Layer 2").click()
    expect(page.get_by_role("heading", name="layer 2, mean of its 8 heads")).to_be_visible()
    expect(page.locator("#number-title")).to_contain_text(f": {means[1]:.4f}")
    reader.button("Head 1").wait_for()


def test_cell_of_a_rollout_opens_its_layers(reader: Reader, page: Page, api: Api) -> None:
    reader.read(WORDS, kind="encoder", layer="rollout")
    shown = reader.number(2, 1)
    reader.cell(2, 1).click()
    expect(page.locator("#number-words")).to_contain_text("half of a word’s attention stays")
    encoder: dict[str, Any] = {"kinds": ["encoder"], "level": "word"}
    means = api.heads(WORDS, layers="all", **encoder)[:, :, 2, 1].mean(axis=1)
    found = parts(page)
    for layer in range(6):
        layers = list(range(layer + 1))
        item = api.attention(WORDS, layers=layers, reduce="rollout", **encoder)
        rolled = item["attentions"][0]["data"][0][0][2][1]
        expected = [means[layer], rolled]
        assert found[f"Layer {layer + 1}"] == pytest.approx(expected, abs=1.1e-4)
    assert found["Layer 6"][1] == pytest.approx(shown, abs=1.1e-4)


@pytest.mark.parametrize(("row", "column"), [(2, 1), (0, 1), (1, 0)])
def test_number_of_words_opens_their_tokens(
    reader: Reader, page: Page, api: Api, row: int, column: int
) -> None:
    reader.read(WORDS, kind="encoder", layer=0, head=2)
    ids = api.attention(WORDS, level="word")["source"]["ids"]
    first, counts = np.cumsum([0, *map(len, ids)]), [len(tokens) for tokens in ids]
    assert max(counts[row], counts[column]) > 1
    plane = api.heads(WORDS, kinds=["encoder"], layers=[0], heads=[2], level="token")[0, 0]
    block = plane[first[row] : first[row + 1], first[column] : first[column + 1]]
    shown = reader.number(row, column)
    reader.cell(row, column).click()
    found = [numbers[0] for numbers in parts(page).values()]
    own = block.sum(axis=1) if counts[row] > 1 else block[0]
    assert found[: len(own)] == pytest.approx(own, abs=1.1e-4)
    assert found[-1] == pytest.approx(shown, abs=1.1e-4)


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
    expect(page.locator("#number-title")).to_have_text(re.compile("“eles” → “they”: "))
    pin = reader.map.locator(".marker.pin")
    for name in ("x", "y"):
        assert pin.get_attribute(name) == reader.cell(row, column).get_attribute(name)
    assert page.locator(".pinned").all_text_contents() == ["they", "eles"]
    reader.button("Unpin").click()
    expect(page.locator("#number")).to_be_hidden()
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


def test_link_restores_the_pinned_number(reader: Reader, page: Page) -> None:
    reader.read(POOL, head="mean").cell(2, 1).click()
    title = page.locator("#number-title").text_content() or ""
    reader.go(reader.copied_link())
    expect(page.locator("#number-title")).to_have_text(title)
