"""A link holds all that is shown; it is made when it is asked for, and no server is told of it."""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, POOL, TWO, Reader


def test_link_restores_the_view(reader: Reader, page: Page, api: Api) -> None:
    view = {"kind": "encoder", "layer": "3", "head": "5", "level": "token", "norm": "value_norms"}
    reader.read(KIDS, **view, query="2", vectors="yes", others="yes")
    expect(reader.field).to_have_value(KIDS)
    expect(reader.source).to_have_value("en")
    expect(reader.output).to_have_text(api.translate(KIDS)["translatedText"])
    assert {name: reader.chosen(name) for name in ("kind", "layer", "level", "norm")} | {
        "head": reader.chosen("heads")
    } == view
    expect(page.locator("#steps-place")).to_have_text("Encoder, layer 4, head 6")
    expect(page.locator("#vectors")).to_be_checked()
    expect(page.locator("#alternatives")).to_be_visible()


def test_copied_link_shows_the_same_elsewhere(reader: Reader, page: Page) -> None:
    reader.read(TWO).choose("kind", "encoder").choose("layer", "rollout").until_shown()
    page.get_by_label("Sentence").select_option("2. It slept.")
    expect(reader.map.locator("text[data-label='row-0']")).to_have_text("It")
    link = reader.copied_link()
    assert link == page.url
    drawn = reader.map.inner_html()
    reader.go(link)
    reader.until_shown()
    expect(page.get_by_role("heading", name="Encoder, rollout of 6 layers")).to_be_visible()
    expect(page.get_by_label("Sentence")).to_have_value("1")
    assert reader.map.inner_html() == drawn


def test_any_text_survives_a_link(reader: Reader, page: Page) -> None:
    text = "50 % & more = 1+1 #1 ?\ntwo\nlines  \té 🦁 'quoted' \"twice\""
    reader.open().field.fill(text)
    reader.go(reader.copied_link())
    expect(reader.field).to_have_value(text)


def test_other_translation_is_part_of_the_link(reader: Reader, page: Page, api: Api) -> None:
    wanted = api.translate(POOL)["translatedText"].upper()
    reader.read(POOL, wanted=wanted)
    expect(reader.output).to_have_text(wanted)
    assert f'"target_text":"{wanted}"' in reader.command("look")
    words = api.attention(POOL, target_text=wanted, level="word")["target"]["tokens"]
    expect(reader.output.get_by_role("button")).to_have_text(words[:-1])


def test_text_is_not_in_the_address_unless_asked_for(reader: Reader, page: Page) -> None:
    """Addresses are kept in histories, and those are sent to other machines."""
    reader.open().field.fill(POOL)
    reader.until_shown()
    assert not urlsplit(page.url).fragment
    reader.copied_link()
    assert parse_qs(urlsplit(page.url).fragment)["text"] == [POOL]
    reader.choose("level", "token").until_shown()
    assert not urlsplit(page.url).fragment  # it would no longer be true


def test_no_request_has_the_fragment(reader: Reader, page: Page) -> None:
    seen: list[str] = []
    page.on("request", lambda request: seen.extend([request.url, *request.headers.values()]))
    reader.read(POOL)
    paths = [entry.split("#")[0] for entry in seen]
    assert paths
    assert not [entry for entry in paths if "pool" in entry]


def test_link_opened_in_the_same_page_is_followed(reader: Reader, page: Page) -> None:
    reader.read(POOL)
    page.evaluate("location.hash = 'text=Hi&source=en&kind=encoder'")
    expect(reader.field).to_have_value("Hi")
    expect(page.get_by_role("heading", name="Encoder, layer")).to_be_visible()


def test_damaged_link_shows_what_it_can(reader: Reader, page: Page) -> None:
    reader.open(text=POOL, source="xx", kind="<b>", layer="99", head="-1", sentence="7", query="x")
    reader.until_shown()
    expect(reader.source).to_have_value("auto")
    assert reader.chosen("kind") == "cross"
    assert reader.chosen("heads") == "mean"
    expect(
        page.get_by_role("heading", name="Cross-attention, layer 2, mean of its 8 heads")
    ).to_be_visible()


def test_markup_in_a_text_is_text(reader: Reader, page: Page) -> None:
    text = "<img src=x onerror=alert(1)> <script>alert(2)</script>"
    reader.read(text)
    assert page.locator("main img, main script").count() == 0
    expect(reader.output).to_contain_text("script")


@pytest.mark.parametrize(
    ("only", "view", "shown", "hidden"),
    [
        ("map", f"text={KIDS}&source=en&look=yes", "#map svg", "#text"),
        ("drawing", "way=understand", ".drawing svg", "#switches-title"),
        ("switches", "way=understand", "#switches-title", ".drawing"),
    ],
)
def test_figure_is_shown_alone_to_be_embedded(
    page: Page, only: str, view: str, shown: str, hidden: str
) -> None:
    page.goto(f"/?only={only}#{view}")
    expect(page.locator(shown)).to_be_visible()
    for others in (hidden, "header", "footer", "#way"):
        expect(page.locator(others)).to_be_hidden()
