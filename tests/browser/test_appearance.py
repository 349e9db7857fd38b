"""Light and dark, narrow and wide, by ear and by keyboard; and the pictures of the README."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Watch
from tests.browser.pictures import keep
from tests.browser.reader import KIDS, PHONE, POOL, Reader, box_of

MIN_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3
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
def test_nothing_moves_for_those_who_ask_for_calm(reader: Reader, page: Page) -> None:
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


def write(name: str, page: Page, **options: Any) -> None:
    image = page.screenshot(animations="disabled", **options)
    assert image[:4] == b"\x89PNG"
    keep(name, image)


def around(part: Locator) -> dict[str, float]:
    box = part.evaluate(
        """e => {
            const box = e.getBoundingClientRect();
            return { x: 0, y: box.y + scrollY - 24, width: innerWidth, height: box.height + 48 };
        }"""
    )
    return {name: float(value) for name, value in box.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1180, "height": 1460}}])
def test_pictures_of_the_readme(
    reader: Reader, page: Page, scheme: Literal["light", "dark"]
) -> None:
    """REGARD_WRITE_IMAGES=1 python -m pytest tests/browser -k pictures."""
    page.emulate_media(color_scheme=scheme)
    reader.read(KIDS, layer=1, head=0)
    reader.cell(3, 3).hover()
    reader.output.get_by_role("button").nth(6).press("Enter")
    reader.candidates.get_by_role("button", name="Close").click()
    page.evaluate("document.activeElement.blur()")
    write(f"page-{scheme}.png", page)
    reader.cell(3, 3).click()
    expect(page.locator("#steps-table tbody tr")).not_to_have_count(0)
    expect(reader.steps).to_be_visible()
    write(f"steps-{scheme}.png", page, full_page=True, clip=around(reader.steps))


@pytest.mark.usefixtures("embedder")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1180, "height": 1460}}])
def test_picture_of_a_text_that_is_embedded(
    reader: Reader, page: Page, scheme: Literal["light", "dark"]
) -> None:
    """In head 1 of layer 3 of all-MiniLM-L6-v2 a pronoun looks at whom it means."""
    page.emulate_media(color_scheme=scheme)
    reader.open(task="embed", text=KIDS, layer=3, head=1).until_shown()
    rows, columns = reader.labels("row"), reader.labels("column")
    reader.cell(rows.index("they"), columns.index("kids")).hover()
    expect(reader.readout).to_contain_text("“they”")
    expect(reader.readout).to_contain_text("“kids”")
    page.evaluate("document.activeElement.blur()")
    write(f"embed-{scheme}.png", page, full_page=True, clip=around(page.locator("#look")))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1000, "height": 940}}])
def test_picture_of_the_story(reader: Reader, page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    reader.open(way="understand", step="position")
    expect(page.locator(".drawing svg")).to_be_visible()
    expect(page.locator("[data-chapter=position] .waves")).to_be_in_viewport()
    write(f"story-{scheme}.png", page)


def first(reader: Reader) -> Locator:
    reader.open()
    return reader.page.locator("main")


def candidates(reader: Reader) -> Locator:
    reader.read(KIDS)
    reader.page.locator("#look-fold > summary").click()  # it has the likeliest tokens itself
    reader.word("eles").click()
    expect(reader.candidates.locator("li")).to_have_count(5)
    return reader.page.locator("body")


def cross(reader: Reader) -> Locator:
    reader.open(way="understand", step="decoder")
    expect(reader.page.locator(".drawing svg")).to_be_visible()
    return reader.page.locator(".story")


def owntest(reader: Reader) -> Locator:
    reader.open(way="understand")
    reader.unfold("#owntest")
    reader.button("Try 24 pairs of ours").click()
    expect(reader.page.locator("#owntest li")).to_have_count(2)
    return reader.page.locator("#owntest")


@pytest.mark.usefixtures("embedder")
@pytest.mark.parametrize("state", [first, candidates, cross, owntest])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1000, "height": 1000}}])
def test_pictures_of_more_states(
    reader: Reader, page: Page, state: Callable[[Reader], Locator]
) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    clip = around(state(reader))
    write(f"{state.__name__}.png", page, full_page=True, clip=clip)
