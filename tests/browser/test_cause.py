"""The opening's test of causes: the translator without a head, or without a word."""

import math
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, Reader

pytestmark = pytest.mark.browser

WORDS = {"kids": 1, "they": 9}
OFF: list[dict[str, Any]] = [
    {},
    {"heads": [{"kind": "encoder", "layers": [1], "heads": [5]}]},
    *({"source_words": [number]} for number in WORDS.values()),
]


def share(value: float) -> str:
    return "below 1 %" if value < 0.005 else f"{math.floor(100 * value + 0.5)} %"


def trials(api: Api) -> list[tuple[str, str]]:
    body = {"text": KIDS, "source": "en", "target": "pt", "translate": True, "knockouts": OFF}
    found = api.post("/attention/knockout", **body)
    place = found["target"]["tokens"].index("▁eles")
    return [
        (share(math.exp(each["log_probs"][place])), each["translation"]["text"])
        for each in found["knockouts"]
    ]


def test_parts_that_are_off_show_what_the_model_needs(reader: Reader, page: Page, api: Api) -> None:
    """The head with most of the attention changes nothing; the word `they` changes all."""
    reader.open(way="understand")
    rows = page.locator("#cause tbody tr")
    expect(rows).to_have_count(len(OFF))
    expect(rows.first).to_be_hidden()
    reader.unfold("#cause")
    shown = [tuple(row.locator("td").all_inner_texts()) for row in rows.all()]
    expected = trials(api)
    assert shown == expected
    assert expected[1][1] == expected[0][1]
    expect(page.locator("#cause li")).to_have_count(3)
    expect(page.locator("#cause li").nth(1)).to_contain_text("“eles” even becomes more likely")
    expect(page.locator("#cause li").first).to_contain_text("the translation stays the same")
    expect(page.locator("#cause li").last).to_contain_text(
        f"falls from {expected[0][0]} to {expected[3][0]}"
    )
