"""Terms explain themselves where they stand, by mouse, touch and keyboard."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.reader import KIDS, PHONE, POOL, Reader, box_of


def test_term_opens_its_meaning_and_closes_it(reader: Reader, page: Page) -> None:
    reader.read(POOL)
    term = page.locator("#terms").get_by_role("button", name="head", exact=True)
    expect(term).to_have_attribute("aria-expanded", "false")
    term.click()
    meaning = page.locator(".meaning:popover-open")
    expect(meaning).to_contain_text("A layer has several heads.")
    expect(term).to_have_attribute("aria-expanded", "true")
    expect(term).to_have_accessible_description(meaning.text_content() or "")
    term.click()
    expect(meaning).to_have_count(0)


def test_escape_closes_the_meaning_and_nothing_else(reader: Reader, page: Page) -> None:
    reader.read(POOL, query=1, key=1)
    expect(reader.steps).to_be_visible()
    page.locator("#plain .term").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".meaning:popover-open")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".meaning:popover-open")).to_have_count(0)
    expect(reader.steps).to_be_visible()
    page.keyboard.press("Escape")
    expect(reader.steps).to_be_hidden()


@pytest.mark.parametrize("options", [{"viewport": {"width": 1280, "height": 720}}, PHONE])
def test_meaning_stands_below_its_term_and_moves_nothing(reader: Reader, page: Page) -> None:
    """It pushed the rest of the page down by its own height."""
    reader.open(way="understand", step="softmax")
    step = page.locator("[data-chapter=softmax]")
    expect(step.locator("h3")).to_be_focused()
    terms, height = step.locator(".content > p .term"), "e => e.offsetHeight"
    before = step.evaluate(height)
    assert terms.count() > 1
    for term in terms.all():
        term.click()
        meaning = page.locator(".meaning:popover-open")
        expect(meaning).to_be_in_viewport(ratio=1)
        place = box_of(term)
        assert 0 < box_of(meaning)["y"] - place["y"] - place["height"] < 12
        assert step.evaluate(height) == before
        page.keyboard.press("Escape")
        expect(meaning).to_have_count(0)


@pytest.mark.parametrize("options", [PHONE])
def test_meaning_stays_inside_a_phone(reader: Reader, page: Page) -> None:
    reader.read(KIDS, query=3, level="token")
    expect(page.locator("#plain .term").first).to_be_visible()
    expect(page.locator("#likely-entropy .term").first).to_be_visible()
    terms = page.locator(".term:visible")
    assert terms.count() > 8
    for term in terms.all():
        term.click()
        box = box_of(page.locator(".meaning:popover-open"))
        assert 0 <= box["x"] <= 375 - box["width"]
        page.keyboard.press("Escape")


@pytest.mark.parametrize(
    ("view", "names"),
    [
        ({"level": "token"}, ["layer", "head", "token", "the sign ▁", "⟨end⟩"]),
        ({"kind": "encoder", "layer": "rollout"}, ["layer", "head", "rollout", "⟨end⟩"]),
        ({"norm": "value_norms"}, ["layer", "head", "weights × values", "⟨end⟩"]),
    ],
)
def test_map_explains_the_terms_that_it_shows(
    reader: Reader, page: Page, view: dict[str, Any], names: list[str]
) -> None:
    reader.read(POOL, **view)
    expect(page.locator("#terms .term")).to_have_text(names)
