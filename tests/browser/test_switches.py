"""The switches of Understand: heads and words off, and the map of the heads that matter."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, PHONE, Reader, box_of, number, percent

HEAD = {"kind": "encoder", "layers": [1], "heads": [5]}  # of the story: "they" looks at "kids"
THEY = 9  # The number of the word.
READOUT = "#switches-map-readout"


def without(api: Api, **knockout: Any) -> Any:
    body = {"text": KIDS, "source": "en", "target": "pt", "translate": True}
    return api.post("/attention/knockout", **body, knockouts=[{}, knockout])


def assert_shows(page: Page, api: Api, reply: Any) -> None:
    """The decoder's own probabilities, which the story has too, and these with the change."""
    item = api.attention(KIDS, probabilities={})
    rows = page.locator("#switches .scroll:not(details *) tbody tr")
    expect(rows).to_have_count(len(reply["target"]["tokens"]))
    for index, row in enumerate(rows.all()):
        own = item["probabilities"]["log_probs"][index]
        changes = [each["changes"][index] for each in reply["knockouts"]]
        shares = [percent(math.exp(min(0, own + change))) for change in changes]
        expect(row.locator("td")).to_have_text(shares)


def verdict(page: Page) -> Locator:
    return page.locator("#switches .verdict").last


def cell(page: Page, row: int, column: int) -> Locator:
    return page.locator(f"#switches-map rect[data-row='{row}'][data-column='{column}']")


def test_head_is_switched_off_and_on(reader: Reader, page: Page, api: Api) -> None:
    """The head with most of the attention of “they” changes nothing in the translation."""
    reader.open(way="understand")
    translation = api.translate(KIDS)["translatedText"]
    expect(verdict(page)).to_have_text(f"Everything is on: {translation}")
    cell(page, 1, 5).click()
    reply = without(api, heads=[HEAD])
    share = percent(math.exp(reply["knockouts"][1]["total_change"]))
    expect(verdict(page)).to_contain_text(f"stays the same. Its probability is {share} of")
    assert_shows(page, api, reply)
    expect(page.locator("#switches-map text", has_text="✕")).to_have_count(1)
    expect(page.locator(READOUT)).to_contain_text("Encoder, layer 2, head 6: off.")
    reader.button("Switch the head of the story on again (layer 2, head 6)").click()
    expect(verdict(page)).to_contain_text("Everything is on:")


def test_a_probability_is_the_same_wherever_it_stands(reader: Reader, page: Page, api: Api) -> None:
    """“eles” had 88 % in the story and 87 % in the switches."""
    item = api.attention(KIDS, probabilities={"top_k": 4})
    place = item["target"]["tokens"].index("▁eles")
    share = percent(math.exp(item["probabilities"]["log_probs"][place]))
    reader.open(way="understand", step="words")
    rows = page.locator("#switches .scroll:not(details *) tbody tr", has_text="▁eles")
    expect(rows.locator("td")).to_have_text([share, share])
    expect(page.locator("#step-words ~ .content tr", has_text="▁eles")).to_contain_text(share)
    expect(page.locator(".drawing [data-part=words]")).to_contain_text(f"eles {share}")
    expect(page.locator("#opening .points").first).to_contain_text(f"a probability of {share}")


def test_head_can_look_at_all_words_equally(reader: Reader, page: Page, api: Api) -> None:
    reader.open(way="understand", off="cross.0.5")
    expect(verdict(page)).to_contain_text("With 1 part off")
    page.get_by_label("let them look at all words equally").check()
    head = {"kind": "cross", "layers": [0], "heads": [5], "uniform": True}
    reply = without(api, heads=[head])
    share = percent(math.exp(reply["knockouts"][1]["total_change"]))
    expect(verdict(page)).to_contain_text(f"is {share} of what it was")
    assert_shows(page, api, reply)


def test_word_is_switched_off_and_a_link_keeps_it(reader: Reader, page: Page, api: Api) -> None:
    reader.open(way="understand")
    word = page.locator("#switches .chip", has_text="they")
    word.press("Enter")
    expect(word).to_have_attribute("aria-pressed", "false")
    reply = without(api, source_words=[THEY])
    after = reply["knockouts"][1]["translation"]["text"]
    expect(verdict(page)).to_contain_text(f" → {after}")
    assert_shows(page, api, reply)
    expect(page.locator("#switches tr.top th")).to_contain_text(["eles"])
    link = reader.copied_link()
    reader.go(link)
    expect(verdict(page)).to_contain_text(f" → {after}")
    reader.button("All on").click()
    expect(word).to_have_attribute("aria-pressed", "true")


def test_map_fills_with_the_heads_that_matter(reader: Reader, page: Page, api: Api) -> None:
    reader.open(way="understand")
    scale = page.locator("#switches .scale span")
    expect(scale.first).to_be_hidden()
    reader.button("Which heads matter? Try each one").press("Enter")
    found = page.locator("#switches .verdict").first
    expect(found).to_contain_text("Of 64 heads")
    kept: list[float] = []
    for kind, layers in (("encoder", 6), ("cross", 2)):
        for layer in range(layers):
            heads = [{"kind": kind, "layers": [layer], "heads": [head]} for head in range(8)]
            knockouts = [{"heads": [head]} for head in heads]
            body = {"text": KIDS, "source": "en", "target": "pt", "knockouts": knockouts}
            reply = api.post("/attention/knockout", **body)
            kept += [math.exp(each["total_change"]) for each in reply["knockouts"]]
    few = sum(abs(1 - share) < 0.05 for share in kept)
    least = kept.index(min(kept))
    kind = "Encoder" if least < 48 else "Cross-attention"
    name = f"{kind}, layer {least % 48 // 8 + 1}, head {least % 8 + 1}"
    expect(found).to_contain_text(f"{few} change the probability of the translation by less")
    expect(found).to_contain_text(f"{name}. Without it, the probability is {percent(min(kept))}")
    page.locator("#switches summary").click()
    expect(page.locator("#switches details td")).to_have_count(1 + 64)
    cells = page.locator("#switches details td").all_text_contents()[1:]
    shown = [number(text.removesuffix(" %")) for text in cells]
    assert shown == pytest.approx([100 * (1 - share) for share in kept], abs=6e-2)
    # The map had 0.99 and −0.57 alone, without a unit and a scale.
    shares = page.locator("#switches-map [data-row] + text:not([data-label])").all_text_contents()
    assert len(shares) == 64
    assert all(re.fullmatch(r"\u2212?\d+ %", share) for share in shares)
    assert any(share.startswith("\u2212") for share in shares)
    expect(scale).to_have_text(["−100 %", "100 %"])
    expect(page.locator("#switches .hint", has_text="Grey, below 0 %")).to_be_visible()
    with page.expect_download() as download:
        page.locator("#switches [data-kind=svg]").click()
    texts = re.findall(r"<text[^>]*>([^<]*)<", Path(download.value.path()).read_text())
    assert texts[-4:] == ["\u2212100", "%", "100", "%"]


@pytest.mark.parametrize(
    ("options", "one", "two"),
    [
        ({}, "With 1 part off, ", "With 2 parts off, "),
        ({"locale": "pt-BR"}, "Com 1 parte desligada, ", "Com 2 partes desligadas, "),
    ],
    ids=["en", "pt"],
)
def test_parts_that_are_off_are_counted(page: Page, one: str, two: str) -> None:
    page.goto("/#way=understand&off=word.9")
    expect(verdict(page)).to_contain_text(one)
    cell(page, 1, 5).click()
    expect(verdict(page)).to_contain_text(two)


@pytest.mark.parametrize("options", [PHONE | {"has_touch": True, "is_mobile": True}])
def test_one_tap_switches_a_head(reader: Reader, page: Page) -> None:
    reader.open(way="understand")
    expect(page.locator(READOUT)).to_have_text(
        "Each cell is a head. Choose one to switch it off, or on again."
    )
    cell(page, 1, 5).tap()
    expect(page.locator(READOUT)).to_have_text("Encoder, layer 2, head 6: off.")
    expect(page.get_by_role("heading", name="The translation without them")).to_be_visible()


def test_switches_are_used_by_keyboard(reader: Reader, page: Page) -> None:
    reader.open(way="understand")
    expect(cell(page, 0, 0)).to_be_visible()
    page.locator("#switches-map").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(READOUT)).to_have_text("Encoder, layer 2, head 1: off.")
    label = page.locator("#switches-map [data-label=row-1]")
    expect(label).to_have_attribute("font-weight", "bold")
    assert box_of(label)["x"] >= box_of(page.locator("#switches-map"))["x"]  # it was cut
    expect(verdict(page)).to_contain_text("With 1 part off")
    page.keyboard.press("Enter")
    expect(verdict(page)).to_contain_text("Everything is on:")
    expect(page.locator("#switches-map")).to_be_focused()
