"""Light and dark, narrow and wide, by ear and by keyboard."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.reader import KIDS, PHONE, POOL, Reader, box_of

WHOLE: dict[str, Any] = {"layer": 1, "head": 0, "query": 2, "vectors": "yes", "others": "yes"}


def theme(page: Page) -> str:
    name: str = page.evaluate("document.documentElement.dataset.theme")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (name == "dark") == (sum(map(int, paper.removeprefix("rgb(")[:-1].split(","))) < 384)
    return name


@pytest.mark.parametrize("options", [{"color_scheme": "light"}, {"color_scheme": "dark"}])
def test_theme_is_that_of_the_system(reader: Reader, page: Page, options: dict[str, str]) -> None:
    reader.open()
    assert theme(page) == options["color_scheme"]
    assert page.locator("#theme input:checked").input_value() == "auto"


@pytest.mark.parametrize("options", [{"color_scheme": "light"}])
def test_theme_follows_the_system_while_the_page_is_open(reader: Reader, page: Page) -> None:
    """Drawings too: they have colours of their own."""
    reader.read(POOL)
    before = reader.cell(0, 0).get_attribute("fill")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert reader.cell(0, 0).get_attribute("fill") != before


@pytest.mark.parametrize("options", [{"color_scheme": "light"}])
def test_theme_is_chosen_and_remembered(reader: Reader, page: Page) -> None:
    reader.open().choose("theme", "dark")
    assert theme(page) == "dark"
    page.reload()
    assert theme(page) == "dark"
    assert page.locator("#theme input:checked").input_value() == "dark"
    reader.choose("theme", "auto")
    assert theme(page) == "light"


@pytest.mark.parametrize("options", [PHONE])
@pytest.mark.parametrize("text", [KIDS, "x" * 100, f"The {'🦁' * 40} slept."])
def test_phone_scrolls_in_one_direction_only(reader: Reader, page: Page, text: str) -> None:
    reader.read(text, **WHOLE)
    expect(reader.steps).to_be_visible()
    reader.unfold_all()
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    field, translation = box_of(reader.field), box_of(reader.output)
    assert translation["y"] >= field["y"] + field["height"]


@pytest.mark.parametrize("options", [{"reduced_motion": "reduce"}])
def test_nothing_moves_with_reduced_motion(reader: Reader, page: Page) -> None:
    reader.read(KIDS, **WHOLE)
    moving = page.evaluate(
        """() => [...document.querySelectorAll('*')].filter((node) => {
            const style = getComputedStyle(node);
            return style.animationName !== 'none'
                || (style.transitionDuration !== '0s' && style.transitionProperty !== 'none');
        }).length"""
    )
    assert moving == 0


def test_page_has_landmarks_and_one_order_of_headings(reader: Reader, page: Page) -> None:
    reader.read(KIDS, **WHOLE)
    expect(reader.steps).to_be_visible()
    for role in ("banner", "main", "contentinfo", "navigation"):
        expect(page.get_by_role(role)).to_have_count(1)
    for name in ("Translation", "Where the model looks", "Step by step"):
        expect(page.get_by_role("region", name=name)).to_be_visible()
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(e => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_result_and_heat_map_are_announced(reader: Reader, page: Page) -> None:
    reader.read(POOL)
    said = page.locator("#said")
    expect(said).to_have_attribute("role", "status")
    expect(said).to_have_text(f"Portuguese: {reader.output.text_content()}")
    assert reader.output.get_attribute("lang") == "pt"
    assert reader.field.get_attribute("lang") == "en"
    rows, columns = len(reader.labels("row")), len(reader.labels("column"))
    name = f"Cross-attention, layer 2, head 1: {rows} rows, {columns} columns"
    expect(page.get_by_role("application", name=name)).to_be_visible()


def test_focus_is_seen_wherever_it_is(reader: Reader, page: Page) -> None:
    reader.read(POOL)
    look = """() => {
        const node = document.activeElement;
        const shown = [node, node.nextElementSibling, node.closest('.field')].filter(Boolean);
        const styles = shown.flatMap((e) => [getComputedStyle(e), getComputedStyle(e, '::before')]);
        const isBar = (s) => s.content === '""' && s.width === '2px';
        return styles.some((s) => s.outlineStyle !== 'none' || isBar(s));
    }"""
    page.locator("body").focus()
    for _ in range(25):
        page.keyboard.press("Tab")
        assert page.evaluate(look), page.evaluate("document.activeElement.outerHTML")


def test_policy_lets_nothing_else_in(reader: Reader, page: Page, watch: Watch) -> None:
    """The policy is on: a script of the page's own making does not run."""
    watch.allow("Content Security Policy")
    reader.open()
    ran = page.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = 'window.ran = true';
            document.body.append(script);
            return window.ran === true;
        }"""
    )
    assert not ran
    assert [fault for fault in watch.faults if "Content Security Policy" in fault]
