"""While attention is folded, a word shows the likeliest tokens at its place."""

import math
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api, Watch
from tests.browser.reader import KIDS, PHONE, POOL, TWO, Reader, box_of, percent, posted

pytestmark = [pytest.mark.browser, pytest.mark.parametrize("remembered", [{}])]


def translated(reader: Reader, text: str) -> None:
    reader.open(text=text, source="en")
    expect(reader.button("Copy")).to_be_visible()


def likeliest(api: Api, text: str, index: int, **body: Any) -> list[list[str]]:
    item = api.attention(text, level="word", probabilities={"top_k": 5}, **body)
    at = sum(len(ids) for ids in item["target"]["ids"][:index])
    found = item["probabilities"]["likeliest"]
    names = [token.removeprefix("▁") or "▁" for token in found["tokens"][at]]
    return [
        [name.replace("</s>", "⟨end⟩"), percent(math.exp(value))]
        for name, value in zip(names, found["log_probs"][at], strict=True)
    ]


def shown(page: Page) -> list[list[str]]:
    entries = page.locator("#candidates li")
    expect(entries).to_have_count(5)
    return [entry.locator("span, button").all_text_contents() for entry in entries.all()]


def test_word_shows_the_likeliest_tokens_at_its_place(reader: Reader, page: Page, api: Api) -> None:
    translated(reader, POOL)
    for index in (0, 1):
        word = reader.output.get_by_role("button").nth(index)
        word.click()
        expect(page.locator("#candidates")).to_contain_text("with a probability of")
        assert shown(page) == likeliest(api, POOL, index)
    page.keyboard.press("Escape")
    expect(page.locator("#candidates")).to_be_hidden()


@pytest.mark.parametrize("options", [PHONE])
def test_list_covers_no_text_and_closes(reader: Reader, page: Page) -> None:
    """It lay over the next line, and only Escape closed it, which phones do not have."""
    translated(reader, KIDS)
    found = page.locator("#candidates")
    word = reader.output.get_by_role("button").first
    for closing in (reader.button("Close"), page.locator("h1"), word):
        word.click()
        expect(found.locator("li")).to_have_count(5)
        text, place = box_of(reader.output), box_of(found)
        assert text["y"] + text["height"] <= place["y"]
        assert place["y"] + place["height"] <= box_of(page.locator("#after"))["y"]
        closing.click()
        expect(found).to_be_hidden()
        expect(reader.output.locator(".pinned")).to_have_count(0)


def test_words_of_the_second_sentence_have_theirs(reader: Reader, page: Page, api: Api) -> None:
    translated(reader, TWO)
    (first, second) = api.translate(TWO)["alignment"]
    reader.output.get_by_role("button").nth(len(first["target_words"])).press("Enter")
    start = second["source_words"][0][0]
    assert shown(page) == likeliest(api, TWO[start:], 0)


def test_list_of_sentences_follows_a_chosen_word(reader: Reader, page: Page, api: Api) -> None:
    translated(reader, TWO)
    page.locator("#look-fold > summary").click()
    reader.until_shown()
    first = len(api.translate(TWO)["alignment"][0]["target_words"])
    reader.output.get_by_role("button").nth(first).click()
    expect(page.locator("#sentence")).to_have_value("1")
    expect(page.locator("#candidates")).to_be_hidden()  # the panel of the map has them


def test_new_text_closes_the_list(reader: Reader, page: Page) -> None:
    translated(reader, POOL)
    reader.output.get_by_role("button").first.click()
    expect(page.locator("#candidates")).to_be_visible()
    reader.field.fill(TWO)
    expect(page.locator("#candidates")).to_be_hidden()


def test_failure_is_told_where_the_list_would_be(reader: Reader, page: Page, watch: Watch) -> None:
    watch.allow("Failed to load resource")
    translated(reader, POOL)
    page.route("**/attention", lambda route: route.abort())
    reader.output.get_by_role("button").first.click()
    expect(page.locator("#candidates")).to_contain_text("could not be loaded")


def test_translation_goes_on_from_a_candidate(reader: Reader, page: Page, api: Api) -> None:
    """The list told what could have come, and none of it could be chosen."""
    translated(reader, POOL)
    own = reader.output.text_content() or ""
    reader.output.get_by_role("button").nth(1).click()
    other = page.locator("#candidates li button").first
    name = other.text_content() or ""
    with page.expect_request("**/translate") as asked:
        other.click()
    prefix = posted(asked.value)["target_prefix"]
    assert prefix == f"{own.split()[0]} {name}"
    expected = api.translate(POOL, target_prefix=prefix, split_sentences=False)["translatedText"]
    expect(reader.output).to_have_text(expected)
    assert expected != own
    expect(reader.button("The model’s own translation")).to_be_focused()
    expect(reader.output.get_by_role("button").first).to_be_visible()  # the words are aligned
    link = reader.copied_link()
    reader.go(link)
    expect(reader.output).to_have_text(expected)
    reader.button("The model’s own translation").click()
    expect(reader.output).to_have_text(own)
