"""Words light those they belong to, on either side."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, TWO, Reader


def pairs_of(api: Api, text: str) -> list[tuple[str, str, list[int]]]:
    reply: Any = api.translate(text)
    found = []
    for sentence in reply["alignment"]:
        for s, t, _ in sentence["pairs"]:
            (a, b), (c, d) = sentence["source_words"][s], sentence["target_words"][t]
            found.append((reply["translatedText"][c:d], text[a:b], [a, b]))
    return found


@pytest.mark.parametrize("text", [KIDS, TWO, "The lions left.\n🦁🦁\nThe cat slept."])
def test_word_of_the_translation_lights_what_it_looks_at(
    reader: Reader, api: Api, text: str
) -> None:
    """Also after characters of two UTF-16 units: the API counts code points."""
    reader.read(text)
    words = reader.output.get_by_role("button")
    pairs = pairs_of(api, text)
    expect(words).to_have_text([written for written, _, _ in pairs])
    for index, (written, read, _) in enumerate(pairs):
        words.nth(index).hover()
        assert reader.brightest("mirror") == read
        expect(reader.page.locator("#pairs")).to_contain_text(f"“{written}” looks at “{read}”")


def test_word_of_the_text_lights_what_looks_at_it(reader: Reader, api: Api) -> None:
    reader.read()
    (sentence,) = api.translate(KIDS)["alignment"]
    aligner = api.model()["alignment"]
    layer, head = aligner["layer"], aligner["head"]
    written = api.attention(KIDS, level="word")["target"]["tokens"][:-1]
    rows = api.heads(KIDS, layers=[layer], heads=[head])[0, 0]
    spans = reader.page.locator("#mirror span").all()
    for place, (span, (start, end)) in enumerate(zip(spans, sentence["source_words"], strict=True)):
        reader.point_at(span)
        looking = [word for word, row in zip(written, rows, strict=False) if row[place] >= 0.05]
        assert reader.lit("output") == looking
        told = f"“{KIDS[start:end]}” is looked at by"
        expect(reader.page.locator("#pairs")).to_contain_text(told)


def test_lights_go_out_with_the_pointer_unless_the_word_is_pinned(reader: Reader, api: Api) -> None:
    reader.read()
    word = reader.output.get_by_role("button").nth(1)
    away = reader.page.get_by_role("heading", name="Regard")
    word.hover()
    assert reader.lit("mirror")
    away.hover()
    assert not reader.lit("mirror")
    expect(reader.page.locator("#pairs")).to_be_empty()
    word.click()
    expect(word).to_have_attribute("aria-pressed", "true")
    away.hover()
    assert reader.brightest("mirror") == pairs_of(api, KIDS)[1][1]
    word.press("Enter")
    expect(word).to_have_attribute("aria-pressed", "false")


def test_words_are_reached_by_keyboard(reader: Reader, api: Api) -> None:
    reader.read()
    pairs = pairs_of(api, KIDS)
    keyboard = reader.page.keyboard
    words = reader.output.get_by_role("button")
    reader.button("Clear").focus()
    keyboard.press("Tab")
    expect(words.first).to_be_focused()
    assert reader.brightest("mirror") == pairs[0][1]
    for key, place in [("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", -1)]:
        keyboard.press(key)
        expect(words.nth(place)).to_be_focused()
        assert reader.brightest("mirror") == pairs[place][1]
    keyboard.press("Home")
    expect(words.first).to_be_focused()
    keyboard.press("Tab")
    expect(reader.button("Copy")).to_be_focused()
    assert not reader.lit("mirror")


def test_caret_lights_the_words_of_a_word_and_nothing_behind_a_full_stop(
    reader: Reader, page: Page
) -> None:
    """The page told at whom a full stop looked, before the reader had chosen anything."""
    reader.read()
    reader.field.focus()
    page.keyboard.press("Control+End")
    expect(page.locator("#pairs")).to_have_text("")
    assert not reader.lit("mirror")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")  # into "away"
    # The browser reports a new selection in a later task, not before `press` returns.
    expect(reader.output.locator(".lit")).not_to_have_count(0)
    assert reader.brightest("output") == "imediatamente"


def test_field_and_mirror_have_the_same_lines(reader: Reader) -> None:
    """Else words would light beside themselves."""
    text = "\n".join([KIDS, "", KIDS * 3, "x" * 60, " trailing  spaces   "])
    reader.read(text)
    sizes = "e => [e.clientWidth, e.scrollHeight]"
    mirror = reader.page.locator("#mirror").evaluate(sizes)
    assert reader.field.evaluate(sizes) == mirror
