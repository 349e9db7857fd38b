"""What a visitor sees first: the field, one line about the page, and a sentence with its arcs."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, Reader, box_of

pytestmark = pytest.mark.parametrize("remembered", [{}])


def test_sentence_is_shown_with_its_arcs_until_the_first_key(
    reader: Reader, page: Page, api: Api
) -> None:
    reader.open()
    sample, found = page.locator("#sample"), api.translate(KIDS)
    expect(sample.locator("[lang=en]")).to_have_text(KIDS)
    expect(sample.locator("[lang=pt]")).to_have_text(found["translatedText"])
    pairs = found["alignment"][0]["pairs"]
    arcs = sample.locator("path")
    expect(arcs).to_have_count(len(pairs))
    widths = arcs.evaluate_all("all => all.map((arc) => Number(arc.getAttribute('stroke-width')))")
    assert widths == pytest.approx([1 + 3 * weight for _, _, weight in pairs])
    word = sample.locator("[lang=pt] span").nth(1)
    word.hover()
    away = arcs.evaluate_all("all => all.map((arc) => arc.classList.contains('away'))")
    assert away == [target != 1 for _, target, _ in pairs]
    expect(sample).to_contain_text("A translator that shows its work")
    reader.type("A")
    expect(sample).to_be_hidden()
    reader.button("Clear").click()
    expect(sample).to_be_visible()


def test_arcs_end_at_their_words(reader: Reader, page: Page, api: Api) -> None:
    reader.open()
    pairs = api.translate(KIDS)["alignment"][0]["pairs"]
    drawing, arcs = page.locator("#sample svg"), page.locator("#sample path")
    expect(arcs).to_have_count(len(pairs))
    for arc, pair in zip(arcs.all(), pairs, strict=True):
        numbers = re.findall(r"[\d.]+", arc.get_attribute("d") or "")
        for lang, index, x in (("en", pair[0], numbers[0]), ("pt", pair[1], numbers[-2])):
            word = box_of(page.locator(f"#sample [lang={lang}] span").nth(index))
            middle = word["x"] + word["width"] / 2 - box_of(drawing)["x"]
            assert float(x) == pytest.approx(middle, abs=1)


def test_field_has_the_focus(reader: Reader, page: Page) -> None:
    """It was the twelfth stop of the Tab key."""
    reader.open()
    expect(reader.field).to_be_focused()
    page.keyboard.type("The cat")
    expect(reader.field).to_have_value("The cat")
    page.goto("about:blank")
    page.goto("/#way=documents")
    expect(page.locator("#documents .drop")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 844}}])
@pytest.mark.parametrize("locale", ["en-GB", "pt-BR"])
def test_phone_has_the_field_in_its_upper_third(page: Page, locale: str, reader: Reader) -> None:
    reader.open()
    if locale == "pt-BR":
        reader.choose("language", "pt")
    expect(page.locator("#way input")).to_have_count(4)
    assert box_of(page.locator("#text"))["y"] < 844 / 3
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    tops = {box_of(each)["y"] for each in page.locator("#way .option").all()}
    assert len(tops) == 1
    expect(page.locator("#sample [lang=pt] span").last).to_be_in_viewport(ratio=1)


def test_theme_and_language_stand_behind_icons(reader: Reader, page: Page) -> None:
    reader.open()
    for name, group in (("Colours", "#theme"), ("Language of the page", "#language")):
        expect(page.locator(group)).to_be_hidden()
        reader.button(name).click()
        expect(page.locator(group)).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(group)).to_be_hidden()
