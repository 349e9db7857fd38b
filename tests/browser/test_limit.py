"""The counter of characters, and what happens to a text over the limit."""

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.reader import POOL, Reader

PASTE = """(text) => {
    const field = document.getElementById('text');
    field.focus();
    document.execCommand('insertText', false, text);
}"""


@pytest.fixture
def _short_limit(page: Page) -> None:
    def limit(route: Route) -> None:
        settings: dict[str, Any] = route.fetch().json()
        route.fulfill(json=settings | {"charLimit": 30})

    page.route("**/frontend/settings", limit)


def test_characters_are_counted_as_the_server_counts_them(reader: Reader, page: Page) -> None:
    reader.open()
    expect(page.locator("#counter")).to_have_text("0 of 50,000 characters")
    reader.field.fill("🦁🦁 and é")
    expect(page.locator("#counter")).to_have_text("8 of 50,000 characters")


@pytest.mark.usefixtures("_short_limit")
def test_text_over_the_limit_is_cut_and_nothing_is_lost(reader: Reader, page: Page) -> None:
    reader.open()
    page.evaluate(PASTE, "0123456789" * 2)
    page.evaluate(PASTE, "🦁" * 25)
    expect(reader.field).to_have_value("0123456789" * 2 + "🦁" * 10)
    note = page.locator("#limit-note")
    expect(note).to_contain_text("cut after 30 characters. 15 characters were left out.")
    expect(page.locator("#counter")).to_have_text("30 of 30 characters")
    reader.button("Copy the rest").click()
    expect(reader.button("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "🦁" * 15
    reader.field.fill(POOL)
    expect(note).to_be_hidden()


@pytest.mark.usefixtures("_short_limit")
def test_letter_over_the_limit_is_left_out_and_said(reader: Reader, page: Page) -> None:
    reader.open().field.fill("a" * 30)
    reader.field.press("End")
    reader.field.press("b")
    expect(reader.field).to_have_value("a" * 30)
    expect(page.locator("#limit-note")).to_contain_text("1 characters were left out")


@pytest.mark.usefixtures("_short_limit")
def test_text_of_a_link_is_cut_too(reader: Reader, page: Page) -> None:
    reader.open(text="The cat sat. " * 5, source="en")
    expect(reader.field).to_have_value(("The cat sat. " * 5)[:30])
    expect(page.locator("#limit-note")).to_contain_text("35 characters were left out")
    expect(reader.output).not_to_be_empty()


def test_two_megabytes_never_come_into_the_field(reader: Reader, page: Page) -> None:
    """A paste is cut before the browser lays it out, which would freeze the page."""
    reader.open()
    page.evaluate(
        """() => {
            const field = document.getElementById('text');
            window.lengths = [];
            for (const type of ['beforeinput', 'input']) {
                field.addEventListener(type, () => window.lengths.push(field.value.length));
            }
        }"""
    )
    page.evaluate("text => navigator.clipboard.writeText(text)", "lion " * 400_000)
    reader.field.focus()
    page.keyboard.press("Control+v")
    expect(page.locator("#limit-note")).to_contain_text("1,950,000 characters were left out")
    assert page.evaluate("lengths.at(-1)") == 50_000
    assert page.evaluate("Math.max(...lengths)") == 50_000


@pytest.mark.parametrize("remembered", [{}])
def test_long_document_scrolls_in_its_own_box(reader: Reader, page: Page) -> None:
    reader.open().field.fill("The cat sat on the mat. " * 500)
    expect(reader.button("Copy")).to_be_enabled()
    height, screen = page.evaluate("[document.documentElement.scrollHeight, innerHeight]")
    assert height < 3 * screen
