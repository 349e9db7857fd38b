"""Attention is folded for translators, and the page then requests none."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, POOL, Reader

pytestmark = pytest.mark.parametrize("remembered", [{}])

FOLD = "Look inside: where the model looks"


def test_attention_is_folded_at_first_and_not_requested(
    reader: Reader, page: Page, api: Api
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    reader.open().field.fill(KIDS)
    expect(reader.output).to_have_text(api.translate(KIDS, "auto")["translatedText"])
    expect(reader.button("Copy")).to_be_visible()
    expect(page.locator("#look")).to_be_hidden()
    assert "attention" not in asked
    page.get_by_text(FOLD).click()
    reader.until_shown()
    assert "attention" in asked


def until_remembered(page: Page, state: str) -> None:
    """Waits for the event of the fold, which the browser sends a moment after it has moved."""
    page.wait_for_function("state => localStorage.getItem('regard-look') === state", arg=state)


def test_fold_is_remembered(reader: Reader, page: Page) -> None:
    reader.open()
    page.get_by_text(FOLD).click()
    expect(page.locator("#look")).to_be_visible()
    until_remembered(page, "open")
    page.reload()
    expect(page.locator("#look")).to_be_visible()
    page.get_by_text(FOLD).click()
    expect(page.locator("#look")).to_be_hidden()
    until_remembered(page, "closed")
    page.reload()
    expect(reader.target).to_have_value("pt")
    expect(page.locator("#look")).to_be_hidden()


@pytest.mark.parametrize("view", [{"look": "yes"}, {"kind": "encoder"}, {"head": 3}])
def test_link_about_attention_opens_the_fold(
    reader: Reader, page: Page, view: dict[str, str]
) -> None:
    reader.read(POOL, **view)
    page.get_by_text(FOLD).press("Enter")
    expect(page.locator("#look")).to_be_hidden()


@pytest.mark.usefixtures("embedder")
def test_text_to_embed_has_no_fold(reader: Reader, page: Page) -> None:
    reader.open(task="embed", text=POOL).until_shown()
    expect(page.get_by_text(FOLD)).to_be_hidden()
