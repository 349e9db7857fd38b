"""The vectors of a text: similarity of its sentences, their numbers, and their tokens."""

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import PHONE, Reader, number

pytestmark = pytest.mark.usefixtures("embedder")

SENTENCES = ["She swam in the pool.", "He plays pool in a bar.", "The swimmer was in the water."]


def read(reader: Reader, page: Page, text: str, **view: Any) -> None:
    reader.open(task="embed", text=text, **view)
    expect(page.locator("#strips li")).not_to_have_count(0)
    expect(page.locator("#shares tbody tr")).not_to_have_count(0)


@pytest.mark.parametrize("joined", [" ", "\n", "\n\n "])
def test_sentences_or_lines_are_compared(reader: Reader, page: Page, api: Api, joined: str) -> None:
    read(reader, page, joined.join(SENTENCES))
    data = api.post("/v1/embeddings", input=SENTENCES)["data"]
    vectors = np.array([entry["embedding"] for entry in data])
    cosines = vectors @ vectors.T
    figure = page.locator("#similarity-map")
    expect(figure.locator("rect[data-row]")).to_have_count(9)
    for row, column in np.ndindex(3, 3):
        figure.locator(f"rect[data-row='{row}'][data-column='{column}']").hover()
        told = page.locator("#similarity-readout").text_content() or ""
        assert told.startswith(f"“{SENTENCES[row]}” and “{SENTENCES[column]}”: ")
        assert float(told.rsplit(": ", 1)[1]) == pytest.approx(cosines[row, column], abs=1e-4)
        shown = figure.locator(f"rect[data-row='{row}'][data-column='{column}'] + text")
        expect(shown).to_have_text(f"{cosines[row, column]:.2f}")
    assert '"input":["She swam in the pool."' in reader.command("similarity")
    expect(figure).to_contain_text(f"3. {SENTENCES[2]}")


def test_small_similarities_are_written_too(reader: Reader, page: Page, api: Api) -> None:
    """Two unrelated sentences showed 1.00 and 1.00."""
    texts = ["The cat sleeps.", "Stocks fell on Monday."]
    read(reader, page, " ".join(texts))
    first, second = (
        entry["embedding"] for entry in api.post("/v1/embeddings", input=texts)["data"]
    )
    cosine = np.dot(first, second)
    assert cosine < 0.2
    told = f"{cosine:.2f}".replace("-", "\u2212")
    expect(page.locator("#similarity-map rect[data-row] + text")).to_have_text(
        ["1.00", told, told, "1.00"]
    )


def test_vector_is_a_strip_of_its_numbers(reader: Reader, page: Page, api: Api) -> None:
    read(reader, page, " ".join(SENTENCES))
    data = api.post("/v1/embeddings", input=SENTENCES)["data"]
    strips = page.locator("#strips canvas")
    expect(strips).to_have_count(3)
    for strip, entry in zip(strips.all(), data, strict=True):
        label = strip.get_attribute("aria-label") or ""
        vector = entry["embedding"]
        found = re.search(r": (\d+) numbers from (\S+) to (\S+)", label)
        assert found is not None
        assert int(found[1]) == len(vector)
        least, most = map(number, found.groups()[1:])
        assert (least, most) == pytest.approx((min(vector), max(vector)), abs=6e-4)


def test_tokens_share_the_pooled_vector(reader: Reader, page: Page, api: Api) -> None:
    read(reader, page, " ".join(SENTENCES))
    reader.button(SENTENCES[1]).click()
    expect(page.locator("#shares-title")).to_contain_text(SENTENCES[1])
    (tokens,) = api.post("/tokenize", inputs=[SENTENCES[1]])
    rows = page.locator("#shares tbody tr")
    expect(rows).to_have_count(len(tokens))
    (vectors,) = api.post("/embed_all", inputs=[SENTENCES[1]])
    (pooled,) = api.post("/embed", inputs=[SENTENCES[1]], normalize=False)
    mean = np.array(pooled)
    shares = np.array(vectors) @ mean / (len(vectors) * mean @ mean)
    expect(rows.locator("th")).to_have_text([token["text"] for token in tokens])
    told = [float(text) for text in rows.locator("td:last-child").all_text_contents()]
    assert told == pytest.approx(shares, abs=1.1e-4)
    expect(page.locator("#shares tfoot")).to_contain_text("1.0000")
    expect(page.locator("#shares-honest")).to_contain_text("already contains its neighbours")


def test_one_sentence_asks_for_another(reader: Reader, page: Page) -> None:
    read(reader, page, SENTENCES[0])
    expect(page.locator("#similarity-one")).to_contain_text("Write two sentences")
    expect(page.locator("#similarity-figure")).to_be_hidden()
    reader.choose("way", "translate")
    expect(page.locator("#similarity")).to_be_hidden()


def test_long_text_is_cut_and_says_so(reader: Reader, page: Page) -> None:
    read(reader, page, "\n".join(f"Sentence number {n}." for n in range(30)))
    expect(page.locator("#similarity-cut")).to_contain_text("The first 24 sentences")
    expect(page.locator("#strips li")).to_have_count(24)


@pytest.mark.parametrize("options", [PHONE])
def test_phone_shows_the_vectors_without_scrolling_aside(reader: Reader, page: Page) -> None:
    read(reader, page, " ".join(SENTENCES))
    assert page.evaluate("document.documentElement.scrollWidth") == 375
