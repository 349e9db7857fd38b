"""The reader's own test of the two heads: two nouns in four sentences, and the counts."""

from typing import Any

import pytest
from playwright.sync_api import Page, Response, expect

from tests.browser.conftest import Api
from tests.browser.reader import PHONE, Reader, percent, posted

pytestmark = pytest.mark.usefixtures("embedder")

HEADS: list[dict[str, Any]] = [
    {"task": "embed", "model": "all-MiniLM-L6-v2", "layers": [3], "heads": [1]},
    {"source": "en", "target": "pt", "layers": [1], "heads": [5]},
]
LAST = ", so they left right away."


def forms(one: str, other: str) -> list[tuple[str, str]]:
    """The four sentences of two nouns, each with its first noun."""
    pairs = [(one, other), (other, one)]
    passive = [(f"The {a} were scared of the {b}{LAST}", a) for a, b in pairs]
    return [*passive, *((f"The {b} scared the {a}{LAST}", b) for a, b in pairs)]


def looks(api: Api, pairs: list[tuple[str, str]], head: dict[str, Any]) -> list[tuple[str, float]]:
    """The word at which “they” looks most in each sentence, and its share."""
    texts = [text for pair in pairs for text, _ in forms(*pair)]
    body = {"text": texts, "kinds": ["encoder"], "reduce": "none", "level": "word"}
    return looks_of(api.post("/attention", **body, **head))


def looks_of(reply: Any) -> list[tuple[str, float]]:
    found = []
    for item in reply["items"]:
        words = [token.removeprefix("▁").lower() for token in item["source"]["tokens"]]
        row = item["attentions"][0]["data"][0][0][words.index("they")]
        shares = [0 if s else w for w, s in zip(row, item["source"]["special"], strict=True)]
        found.append((words[shares.index(max(shares))], max(shares)))
    return found


def opened(reader: Reader) -> Page:
    reader.open(way="understand")
    reader.unfold("#owntest")
    return reader.page


def test_own_nouns_are_tried_in_four_sentences(reader: Reader, api: Api) -> None:
    page = opened(reader)
    rows = page.locator("#owntest tbody tr")
    pairs: list[tuple[str, str]] = [("kids", "lions"), ("cats", "dogs")]
    for pair in pairs:
        if pair is pairs[1]:
            page.get_by_label("One noun").fill(pair[0])
            page.get_by_label("The other noun").fill(f" {pair[1].title()} ")
            page.keyboard.press("Enter")
        expected = [[f"{w} {percent(s)}" for w, s in looks(api, [pair], head)] for head in HEADS]
        for row, (text, first), *cells in zip(range(4), forms(*pair), *expected, strict=True):
            expect(rows.nth(row).locator("th")).to_have_text(text)
            assert rows.nth(row).locator("td").all_text_contents() == [first, *cells]
    expect(page.locator("#owntest li")).to_contain_text(
        ["of 1 of your pairs", "of 1 of your pairs"]
    )


@pytest.mark.parametrize("options", [PHONE])
def test_pairs_of_the_page_are_counted(reader: Reader) -> None:
    """The counts stood below the table, out of view."""
    page = opened(reader)
    expect(page.locator("#owntest tbody tr")).to_have_count(4)
    replies: list[Response] = []
    page.on("response", lambda reply: replies.append(reply))
    reader.button("Try 24 pairs of ours").click()
    counts = page.locator("#owntest li")
    expect(counts).to_have_count(2, timeout=120_000)  # 192 sentences, 24 in a request
    texts: list[list[str]] = [[], []]
    words: list[list[str]] = [[], []]
    for reply in replies:
        asked = posted(reply.request) if reply.url.endswith("/attention") else {"text": ""}
        if isinstance(asked["text"], list) and len(asked["text"]) == 24:
            number = [head["layers"] for head in HEADS].index(asked["layers"])
            texts[number] += asked["text"]
            words[number] += [word for word, _ in looks_of(reply.json())]
    assert texts[0] == texts[1]
    pairs = [tuple(text.removesuffix(LAST).split()[1::5]) for text in texts[0][::4]]
    assert len({*pairs}) == 24
    assert texts[0] == [text for one, other in pairs for text, _ in forms(one, other)]
    places = range(0, len(texts[0]), 4)
    first = sum(
        all(words[0][n + i] == noun for i, (_, noun) in enumerate(forms(*pair)))
        for n, pair in zip(places, pairs, strict=True)
    )
    same = sum(
        words[1][n] in pair and len({*words[1][n : n + 4]}) == 1
        for n, pair in zip(places, pairs, strict=True)
    )
    expect(counts).to_contain_text(
        [f"true for {first} of 24 of our pairs", f"true for {same} of 24 of our pairs"]
    )
    assert 12 < first < 24  # The claim holds mostly, and not always.
    for count in counts.all():
        expect(count).to_be_in_viewport(ratio=0.99)


@pytest.mark.parametrize(("one", "other"), [("", "kids"), ("two words", "kids"), ("kids", "kids")])
def test_bad_nouns_are_refused(reader: Reader, one: str, other: str) -> None:
    page = opened(reader)
    page.get_by_label("One noun").fill(one)
    page.get_by_label("The other noun").fill(other)
    reader.button("Try them").click()
    expect(page.locator("#nouns-warning")).to_contain_text("two different English words")
    expect(page.locator("#owntest li")).to_have_count(0)
