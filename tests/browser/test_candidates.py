"""While attention is folded, a word shows the likeliest tokens at its place."""

import math
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Api, Watch
from tests.browser.reader import KIDS, PHONE, POOL, TWO, Reader, box_of, percent, posted

pytestmark = pytest.mark.parametrize("remembered", [{}])


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


def shown(reader: Reader) -> list[list[str]]:
    entries = reader.candidates.locator("li")
    expect(entries).to_have_count(5)
    return [entry.locator("span, button").all_text_contents() for entry in entries.all()]


def test_word_shows_the_likeliest_tokens_at_its_place(reader: Reader, page: Page, api: Api) -> None:
    translated(reader, POOL)
    for index in (0, 1):
        word = reader.output.get_by_role("button").nth(index)
        word.click()
        expect(reader.candidates).to_contain_text("with a probability of")
        assert shown(reader) == likeliest(api, POOL, index)
    page.keyboard.press("Escape")
    expect(reader.candidates).to_be_hidden()
    word.press("Enter")
    reader.candidates.locator("li button").first.press("Escape")
    expect(reader.candidates).to_be_hidden()
    expect(word).to_be_focused()


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
def test_list_covers_no_text_and_closes_and_nothing_moves(reader: Reader, page: Page) -> None:
    """It lay over the next line, and only Escape closed it, which phones do not have.

    Below the text it then pushed all that followed it.
    """
    translated(reader, KIDS)
    expect(page.locator("#history")).to_be_visible()  # It comes after a pause of 2 s.
    others = page.locator("#after, #pairs, #history, .fold, footer")
    before = [box_of(each)["y"] for each in others.all() if each.is_visible()]
    found = reader.candidates
    word = reader.output.get_by_role("button").first
    close = reader.candidates.get_by_role("button", name="Close")
    for closing in (close, page.locator("h1"), word):
        word.click()
        expect(found.locator("li")).to_have_count(5)
        text, place = box_of(reader.output), box_of(found)
        assert text["y"] + text["height"] <= place["y"]
        expect(found).to_be_in_viewport(ratio=1)
        top = page.evaluate("scrollY")
        assert [box_of(each)["y"] + top for each in others.all() if each.is_visible()] == before
        closing.click()
        expect(found).to_be_hidden()
        expect(reader.output.locator(".pinned")).to_have_count(0)


def test_words_of_the_second_sentence_have_theirs(reader: Reader, api: Api) -> None:
    translated(reader, TWO)
    (first, second) = api.translate(TWO)["alignment"]
    reader.output.get_by_role("button").nth(len(first["target_words"])).press("Enter")
    start = second["source_words"][0][0]
    assert shown(reader) == likeliest(api, TWO[start:], 0)


def test_word_behind_a_protected_span_has_its_own(reader: Reader, api: Api) -> None:
    """For the page a link is one word, and for the model it is many."""
    text = "The cat sat on https://a.example today."
    translated(reader, text)
    own = reader.output.text_content() or ""
    reader.word("hoje").click()
    item = api.attention(text, level="word", target_text=own)
    expected = likeliest(api, text, item["target"]["tokens"].index("hoje"), target_text=own)
    assert shown(reader) == expected


def test_list_of_sentences_follows_a_chosen_word(reader: Reader, page: Page, api: Api) -> None:
    translated(reader, TWO)
    page.locator("#look-fold > summary").click()
    reader.until_shown()
    first = len(api.translate(TWO)["alignment"][0]["target_words"])
    reader.output.get_by_role("button").nth(first).click()
    expect(page.locator("#sentence")).to_have_value("1")
    expect(reader.candidates.locator("li")).to_have_count(5)
    page.locator("#look-title").click()
    expect(reader.candidates).to_be_hidden()


def test_list_leaves_the_map_its_word(reader: Reader, page: Page) -> None:
    """While attention was shown, no candidate could be chosen."""
    reader.read(POOL, look="yes")
    word = reader.output.get_by_role("button").nth(1)
    for closing in (
        reader.candidates.get_by_role("button", name="Close"),
        page.locator("h1"),
        page.locator("#look-title"),
    ):
        word.click()
        expect(reader.candidates.locator("li")).to_have_count(5)
        closing.first.click()
        expect(reader.candidates).to_be_hidden()
        expect(word).to_have_attribute("aria-pressed", "true")
        word.click()
    word.click()
    own = reader.output.text_content() or ""
    reader.candidates.locator("li button").first.click()
    expect(reader.output).not_to_have_text(own)
    reader.until_shown()


def test_new_text_closes_the_list_and_a_failure_is_told_in_its_place(
    reader: Reader, page: Page, watch: Watch
) -> None:
    watch.allow("Failed to load resource")
    translated(reader, TWO)
    word = reader.output.get_by_role("button").first
    word.click()
    expect(reader.candidates).to_be_visible()
    reader.field.fill(POOL)
    expect(reader.candidates).to_be_hidden()
    page.route("**/attention", lambda route: route.abort())
    expect(word).to_have_text("piscina")
    word.click()
    expect(reader.candidates).to_contain_text("could not be loaded")


def test_refused_candidate_is_told(reader: Reader, watch: Watch) -> None:
    """Such as behind a placeholder, whose signs the model does not write."""
    watch.allow("Failed to load resource")
    translated(reader, "The cat sat on {name} today.")
    own = reader.output.text_content() or ""
    reader.word("hoje").click()
    reader.candidates.locator("li button").first.click()
    expect(reader.candidates).to_contain_text("The model cannot go on from there.")
    expect(reader.candidates.get_by_role("button", name="Close")).to_be_focused()
    expect(reader.output).to_have_text(own)


def test_translation_goes_on_from_a_candidate(reader: Reader, page: Page, api: Api) -> None:
    """The list told what could have come, and none of it could be chosen."""
    translated(reader, POOL)
    own = reader.output.text_content() or ""
    reader.output.get_by_role("button").nth(1).click()
    other = reader.candidates.locator("li button").first
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


THREE = f"{TWO}\n\n- The lions left right away."


def choose_at(reader: Reader, word: Locator) -> str:
    """Chooses the likeliest candidate that is not the model's own; returns the new sentence."""
    word.click()
    with reader.page.expect_response("**/translate") as answered:
        reader.candidates.locator("li button").first.click()
    reply = answered.value
    assert posted(reply.request)["split_sentences"] is False
    return str(reply.json()["translatedText"])


def test_only_the_sentence_of_a_candidate_is_translated_again(
    reader: Reader, page: Page, api: Api
) -> None:
    """In texts of several sentences no candidate could be chosen."""
    reader.open(text=THREE, source="en")
    whole = api.translate(THREE)
    own, sentences = whole["translatedText"], whole["alignment"]
    expect(reader.output).to_have_text(own)
    ends = [(s["target_words"][0][0], s["target_words"][-1][1]) for s in sentences]
    parts = [own[start:end] for start, end in ends]
    gaps = [own[: ends[0][0]], *(own[a:b] for (_, a), (b, _) in zip(ends, ends[1:], strict=False))]
    for index in (2, 0):  # a later one first: the earlier one then moves it
        before = sum(len(sentence["target_words"]) for sentence in sentences[:index])
        parts[index] = choose_at(reader, reader.output.get_by_role("button").nth(before + 1))
        expected = "".join(gap + part for gap, part in zip(gaps, parts, strict=True))
        expect(reader.output).to_have_js_property("textContent", expected)
        expect(reader.button("The model’s own translation")).to_be_focused()
    assert parts[1] in own
    words = [
        token
        for index, text in enumerate(parts)
        for token in api.attention(
            THREE[sentences[index]["source_words"][0][0] : sentences[index]["source_words"][-1][1]],
            target_text=text,
            level="word",
        )["target"]["tokens"][:-1]
    ]
    expect(reader.output.get_by_role("button")).to_have_text(words)  # all can be chosen again
    reader.output.get_by_role("button").last.hover()
    assert reader.lit("mirror")
    reader.go(reader.copied_link())
    expect(reader.output).to_have_js_property("textContent", expected)
    expect(reader.output.get_by_role("button")).to_have_text(words)
    expect(page.locator("#look")).to_be_hidden()
    reader.button("The model’s own translation").click()
    expect(reader.output).to_have_js_property("textContent", own)


def test_map_shows_the_sentence_that_was_chosen(reader: Reader, page: Page, api: Api) -> None:
    reader.open(text=TWO, source="en")
    expect(reader.button("Copy")).to_be_visible()
    chosen = choose_at(reader, reader.word("Ele"))
    expect(reader.output).to_contain_text(chosen)
    page.locator("#look-fold > summary").click()
    reader.until_shown()
    words = api.attention("It slept.", target_text=chosen, level="word")["target"]["tokens"]
    rows = reader.map.locator("text[data-label^='row-']")
    expect(rows).to_have_text([*words[:-1], "⟨end⟩"])
    reader.output.get_by_role("button", name=words[1], exact=True).hover()
    expect(reader.page.locator("#mirror .lit")).not_to_have_count(0)


def test_chosen_sentence_gives_way_to_a_new_text(reader: Reader, api: Api) -> None:
    reader.open(text=TWO, source="en")
    expect(reader.button("Copy")).to_be_visible()
    choose_at(reader, reader.word("Ele"))
    reader.field.fill(POOL)
    expect(reader.output).to_have_text(api.translate(POOL)["translatedText"])
    expect(reader.button("The model’s own translation")).to_be_hidden()
