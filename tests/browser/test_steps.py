"""The computation of one token, opened by mouse or by keyboard alone."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, PHONE, POOL, Reader, number, percent


def steps_of(api: Api, text: str, **fields: Any) -> Any:
    return api.post("/attention/steps", text=text, source="en", target="pt", **fields)


def assert_shows(reader: Reader, reply: Any) -> None:
    table = reader.page.locator("#steps-table")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(len(reply["rows"]))
    for shown, row in zip(rows.all(), reply["rows"], strict=True):
        score, scaled, length = (
            number(shown.locator("td").nth(place).text_content()) for place in (0, 1, 4)
        )
        assert (score, scaled) == pytest.approx((row["score"], row["scaled"]), abs=6e-3)
        assert length == pytest.approx(row["value_norm"], abs=6e-4)
        expect(shown.locator(".bar")).to_have_text(percent(row["weight"]))
    expect(table.locator("tfoot")).to_contain_text("100 %")


def test_steps_open_from_a_cell(reader: Reader, page: Page, api: Api) -> None:
    reader.read(POOL, layer=1, head=3)
    reader.cell(1, 0).click()
    expect(reader.steps).to_be_visible()
    expect(page.locator("#steps-title")).to_be_focused()
    token = sum(len(ids) for ids in api.attention(POOL, level="word")["target"]["ids"][:1])
    reply = steps_of(api, POOL, kind="cross", layer=1, head=3, query=token)
    assert_shows(reader, reply)
    expect(page.locator("#steps-place")).to_contain_text("Cross-attention, layer 2, head 4")
    expect(reader.steps.locator("math")).to_be_visible()
    plain = page.locator("#plain li")
    expect(plain).to_have_count(5)
    best = max(reply["rows"], key=lambda row: row["weight"])
    expect(plain.nth(2)).to_contain_text(f"gets {round(100 * best['weight'])} %")


def test_steps_are_reached_by_keyboard_alone(reader: Reader, page: Page, api: Api) -> None:
    reader.open()
    keyboard = page.keyboard

    def tab_to(selector: str) -> None:
        for _ in range(60):
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
            keyboard.press("Tab")
        raise AssertionError(f"{selector} is not reached")

    tab_to("#text")
    keyboard.type(POOL)
    reader.until_shown()
    tab_to("#kind input")
    keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="Encoder, layer")).to_be_visible()
    tab_to("#layer input")
    for _ in range(2):
        keyboard.press("ArrowLeft")  # from 5
    expect(page.get_by_role("heading", name="Encoder, layer 4")).to_be_visible()
    tab_to("#heads input")
    keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="Encoder, layer 4, head 1")).to_be_visible()
    tab_to("#map")
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    expect(page.locator("#steps-title")).to_be_focused()
    token = len(api.attention(POOL, kinds=["encoder"], level="word")["source"]["ids"][0])
    assert_shows(reader, steps_of(api, POOL, kind="encoder", layer=3, head=0, query=token))
    keyboard.press("Escape")
    expect(reader.steps).to_be_hidden()
    expect(reader.map).to_be_focused()


def test_button_opens_the_steps_of_the_row(reader: Reader, page: Page) -> None:
    reader.read(POOL)
    reader.cell(1, 1).hover()
    word = reader.labels("row")[1]
    reader.button(f"How is the row of “{word}” computed?").click()
    expect(page.locator("#steps-title")).to_be_focused()


def test_steps_follow_the_head_and_the_token(reader: Reader, page: Page, api: Api) -> None:
    reader.read(POOL, layer=1, head=0, query=0, level="token")
    assert_shows(reader, steps_of(api, POOL, kind="cross", layer=1, head=0, query=0))
    expect(reader.button("Previous token")).to_be_disabled()
    reader.choose("heads", "4")
    expect(page.locator("#steps-place")).to_contain_text("head 5")
    assert_shows(reader, steps_of(api, POOL, kind="cross", layer=1, head=4, query=0))
    rows = reader.labels("row")
    for query in range(1, len(rows)):
        reader.button("Next token").click()
        told = rows[query].removeprefix("▁")
        expect(page.locator("#steps-title")).to_have_text(f"Step by step: “{told}”")
        expect(reader.map.locator("text[font-weight='bold'][data-label^='row-']")).to_have_text(
            rows[query]
        )
    expect(reader.button("Next token")).to_be_disabled()
    reader.choose("heads", "mean")  # which has no computation of its own
    expect(reader.steps).to_be_hidden()


def test_steps_show_the_vectors_on_request(reader: Reader, page: Page) -> None:
    reader.read(POOL, layer=1, head=0, query=1)
    headers = page.locator("#steps-table thead th")
    expect(headers).to_have_count(6)
    page.get_by_label("Show the vectors q, k and v").check()
    expect(headers).to_have_count(9)
    tokens = page.locator("#steps-table tbody tr").count()
    for name, count in (("q", 1), ("k of", tokens), ("v of", tokens)):
        strips = page.locator(f"#steps-table tbody [aria-label^='{name}']")
        expect(strips).to_have_count(count)
    expect(strips.first).to_have_attribute("title", re.compile(r"v of .*: 32 numbers from .* to "))


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_sum_is_seen_without_scrolling_the_table(reader: Reader, page: Page) -> None:
    """However many tokens the text has, the last row says what they add up to; also on a phone."""
    reader.read(" ".join([KIDS] * 4).replace(".", ","), layer=1, head=3, query=2)
    expect(page.locator("#steps-table tbody tr")).not_to_have_count(0)
    expect(page.locator("#steps-table tfoot")).to_contain_text("= z")
    shown = page.evaluate(
        """() => {
            const pane = document.querySelector('#steps .scroll').getBoundingClientRect();
            const cells = [...document.querySelector('#steps-table tfoot tr').cells];
            const headers = [...document.querySelectorAll('#steps-table thead th')];
            return [...cells, ...headers].every((cell) => {
                const box = cell.getBoundingClientRect();
                return box.bottom <= pane.bottom + 1 && box.right <= pane.right + 1;
            });
        }"""
    )
    assert shown


def test_row_of_the_pinned_word_is_marked(reader: Reader, page: Page) -> None:
    reader.read(POOL, level="token", query=1, key=2)
    marked = page.locator("#steps-table .pinned-row th")
    expect(marked).to_have_text(reader.labels("column")[2])
    reader.cell(1, 0).click()
    expect(marked).to_have_text(reader.labels("column")[0])


@pytest.mark.parametrize("options", [PHONE | {"has_touch": True}])
def test_touch_shows_first_and_opens_then(reader: Reader) -> None:
    """A finger cannot hover."""
    reader.read(POOL)
    reader.cell(1, 1).tap()
    expect(reader.readout).to_contain_text("looks at")
    expect(reader.steps).to_be_hidden()
    reader.cell(1, 1).tap()
    expect(reader.steps).to_be_visible()
