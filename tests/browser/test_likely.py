"""What could have come instead: the probabilities of the next token, and a word that is named."""

import math
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, Reader, percent, posted

SWIM = "She swam in the pool."


def probabilities(api: Api, text: str, **fields: Any) -> Any:
    return api.attention(text, probabilities={"top_k": 5, **fields})["probabilities"]


@pytest.mark.parametrize("place", [0, 3])
def test_likeliest_tokens_are_those_of_the_server(
    reader: Reader, page: Page, api: Api, place: int
) -> None:
    reader.read(SWIM, level="token", query=place)
    rows = page.locator("#likely-table tbody tr")
    expect(rows).not_to_have_count(0)
    found = probabilities(api, SWIM)
    for row, token, log in zip(
        rows.all(), found["likeliest"]["tokens"][place], found["likeliest"]["log_probs"][place],
        strict=True,
    ):  # fmt: skip
        name = (row.locator("th").text_content() or "").removesuffix(" (written)")
        assert name == token
        expect(row.locator("td").last).to_have_text(percent(math.exp(log)))
    expect(rows.first).to_contain_text("(written)")
    entropy = found["entropies"][place]
    expect(page.locator("#likely-entropy")).to_contain_text(f"ntropy {entropy:.2f}")
    expect(page.locator("#likely-entropy")).to_contain_text(str(found["num_candidates"]))


def test_written_token_is_listed_wherever_it_ranks(reader: Reader, page: Page, api: Api) -> None:
    wanted = "Ela nadou no lago."
    reader.read(SWIM, wanted=wanted, level="token")
    tokens = api.attention(SWIM, target_text=wanted)["target"]["tokens"]
    place = tokens.index("▁lago")
    reader.cell(place, 0).click()
    item = api.attention(SWIM, target_text=wanted, probabilities={"top_k": 5})
    found = item["probabilities"]
    row = page.locator("#likely-table .top")
    expect(row).to_contain_text("lago (written)")
    expect(row.locator("td").first).to_have_text(str(found["ranks"][place]))


def test_word_that_is_named_gets_its_rank(reader: Reader, page: Page, api: Api) -> None:
    reader.read(SWIM)
    reader.word("piscina").click()
    expect(page.locator("#likely-title")).to_have_text("What could have come instead of “piscina”?")
    expect(page.locator("#likely-before")).to_contain_text("“Ela nadou na”")
    page.get_by_label("Why not another word?").fill("lago")
    page.keyboard.press("Enter")
    answer = page.locator("#why-answer")
    expect(answer).to_contain_text("“lago” has rank")
    place = api.attention(SWIM)["target"]["tokens"].index("▁piscina")
    named = probabilities(api, SWIM, tokens=["lago"])["named"]
    told = re.search(r"rank (\d+) and probability ([^.]*)\.", answer.text_content() or "")
    assert told is not None
    assert int(told[1]) == named["ranks"][place][0]
    assert told[2] == percent(math.exp(named["log_probs"][place][0]))
    assert ("shortlist" in (answer.text_content() or "")) is not named["is_candidate"][0]
    assert '"tokens":["lago"]' in reader.command("likely")


def test_encoder_has_no_next_token(reader: Reader, page: Page) -> None:
    reader.read(KIDS, kind="encoder", query=2)
    expect(page.locator("#likely")).to_be_hidden()
    reader.word("eles").click()
    expect(page.locator("#likely-title")).to_contain_text("“eles”")


def test_panel_has_a_heading_before_its_answer(reader: Reader, page: Page) -> None:
    """A screen reader reads the heading, also while the probabilities are computed."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "probabilities" in posted(route.request):
            held.append(route)
        else:
            route.continue_()

    page.route("**/attention", hold)
    reader.read(SWIM, level="token", query=3)
    expect(page.locator("#likely")).to_have_class("stale")
    expect(page.locator("#likely-title")).to_have_text("What could have come instead?")
    for route in held:
        route.continue_()
    expect(page.locator("#likely-title")).to_have_text("What could have come instead of “na”?")
