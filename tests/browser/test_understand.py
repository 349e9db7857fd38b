"""The second way in: the page that explains attention, from its opening on."""

import itertools
import math
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Api, Watch
from tests.browser.reader import KIDS, PHONE, POOL, Reader, box_of, percent

pytestmark = pytest.mark.usefixtures("embedder")

LIONS = "The lions were scared of the kids, so they left right away."
TURNED = "The lions scared the kids, so they left right away."
TURNED_LIONS = "The kids scared the lions, so they left right away."
FORMS = {KIDS: "kids", LIONS: "lions", TURNED: "kids", TURNED_LIONS: "lions"}
EMBEDDER = {"task": "embed", "model": "all-MiniLM-L6-v2", "layers": [3], "heads": [1]}
TRANSLATOR = {"source": "en", "target": "pt", "layers": [1], "heads": [5]}
MOVING = """() => {
    window.moved = new Promise((resolve) => {
        addEventListener('animationstart', () => resolve(performance.now()), true);
    });
}"""


def shares(api: Api, text: str, **head: Any) -> dict[str, float]:
    body = {"kinds": ["encoder"], "reduce": "none", "level": "word"} | head
    (item,) = api.post("/attention", text=text, **body)["items"]
    words = [token.removeprefix("▁").lower() for token in item["source"]["tokens"]]
    row = item["attentions"][0]["data"][0][0][words.index("they")]
    known = zip(words, row, item["source"]["special"], strict=True)
    return {word: share for word, share, special in known if not special}


def scene(page: Page, name: str) -> Locator:
    return page.locator(f"[data-scene={name}]")


def expect_arc(page: Page, name: str, found: dict[str, float]) -> None:
    word = max(found, key=lambda word: found[word])
    expect(scene(page, name).locator(".seen")).to_have_text(word)
    expect(scene(page, name).locator("text")).to_have_text(percent(found[word]))
    readout = page.locator(f".reading:has([data-scene={name}]) .readout")
    expect(readout).to_contain_text(f"“{word}”: {percent(found[word])}")


def test_way_is_chosen_and_hides_the_other(reader: Reader, page: Page) -> None:
    reader.open()
    assert reader.chosen("way") == "translate"
    expect(page.locator("#understand")).to_be_hidden()
    page.locator("#way input:checked").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="Who left")).to_be_visible()
    expect(reader.field).to_be_hidden()
    expect(page.locator("#look")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(reader.field).to_be_visible()
    expect(page.locator("#understand")).to_be_hidden()


def test_back_returns_to_the_other_way(reader: Reader, page: Page) -> None:
    """The way stays in the address, so that a reload keeps it; a text never enters the history."""
    reader.open()
    reader.field.fill(POOL)
    reader.choose("way", "understand")
    assert page.url.endswith("#way=understand")
    page.reload()
    expect(page.get_by_role("heading", name="Who left")).to_be_visible()
    page.go_back()
    expect(reader.field).to_be_visible()
    assert "#" not in page.url
    page.go_forward()
    expect(page.get_by_role("heading", name="Who left")).to_be_visible()


def test_back_works_before_the_page_is_built(reader: Reader, page: Page) -> None:
    reader.open()
    reader.choose("way", "understand")
    held: list[Route] = []
    page.route("**/languages", lambda route: held.append(route))
    with page.expect_request("**/languages"):
        page.reload()
    page.go_back()
    for route in held:
        route.fallback()
    expect(reader.field).to_be_visible()
    assert reader.chosen("way") == "translate"


def test_way_leaves_the_translation_as_it_was(reader: Reader, page: Page) -> None:
    reader.read(POOL, layer=1, head=0, query=1)
    expect(reader.steps).to_be_visible()
    reader.choose("way", "understand")
    expect(reader.steps).to_be_hidden()
    reader.choose("way", "translate")
    expect(reader.field).to_have_value(POOL)
    expect(reader.steps).to_be_visible()


def test_link_holds_way_and_sentence(reader: Reader, page: Page) -> None:
    reader.open(way="understand")
    reader.button("Swap kids and lions").click()
    reader.button("Say the same as “The kids scared the lions”").click()
    reader.go(reader.copied_link())
    expect(scene(page, "first").locator("p")).to_have_text(TURNED_LIONS)
    assert reader.chosen("way") == "understand"


def test_button_does_not_move_when_the_arcs_arrive(reader: Reader, page: Page) -> None:
    """The browser drops a click if the button moves between press and release."""
    held: list[Route] = []
    page.route("**/attention", lambda route: held.append(route))
    with page.expect_request("**/attention"):
        reader.open(way="understand")
    reader.button("Swap kids and lions").hover()
    page.mouse.down()
    page.unroute("**/attention")
    for route in held:
        route.fallback()
    expect(scene(page, "second")).to_be_visible()
    page.mouse.up()
    expect(scene(page, "first").locator("p")).to_have_text(LIONS)


def test_opening_shows_the_heads_of_both_models_and_their_limits(
    reader: Reader, page: Page, api: Api
) -> None:
    reader.open(way="understand")
    expect(scene(page, "first").locator("p")).to_have_text(KIDS)
    first, second = (shares(api, KIDS, **head) for head in (EMBEDDER, TRANSLATOR))
    expect_arc(page, "first", first)
    expect_arc(page, "second", second)
    place = page.locator(".place").first
    expect(place).to_contain_text(
        "This is head 2 of layer 4 of a model that compares sentences (all-MiniLM-L6-v2)."
    )
    expect(place).to_contain_text(f"“lions” gets {percent(first['lions'])}")
    item = api.attention(KIDS, probabilities={"tokens": ["eles", "elas"]})
    at = item["target"]["tokens"].index("▁eles")
    he, she = map(math.exp, item["probabilities"]["named"]["log_probs"][at])
    limits = page.locator("#opening .points").first
    told = f"with a probability of {percent(he)}; “elas” had {percent(she)}"
    expect(limits).to_contain_text(told)
    encoder = api.shape()["encoder"]
    expect(limits).to_contain_text(f"has {encoder['layers'] * encoder['heads']} of them")


def test_swap_moves_one_arc_and_not_the_other(reader: Reader, page: Page, api: Api) -> None:
    """By keyboard. The embedding model follows the subject; the translator stays with the kids."""
    reader.open(way="understand")
    expect_arc(page, "first", shares(api, KIDS, **EMBEDDER))
    reader.button("Swap kids and lions").press("Enter")
    expect(scene(page, "first").locator("p")).to_have_text(LIONS)
    expect(reader.button("Swap them back")).to_be_focused()
    swapped = shares(api, LIONS, **EMBEDDER)
    assert max(swapped, key=lambda word: swapped[word]) == "lions"
    expect_arc(page, "first", swapped)
    expect_arc(page, "second", shares(api, LIONS, **TRANSLATOR))
    moved = scene(page, "first")
    moved.evaluate(
        "e => Promise.all(e.getAnimations({ subtree: true }).map((moving) => moving.finished))"
    )
    seen, tip = box_of(moved.locator(".seen")), box_of(moved.locator(".tip"))
    middle = seen["x"] + seen["width"] / 2
    assert tip["x"] + tip["width"] / 2 == pytest.approx(middle, abs=2)
    verdict = page.locator("#opening .verdict").last
    expect(verdict).to_contain_text(
        "Now the “lions” are scared, but this head still looks at “kids”"
    )
    reader.button("Swap them back here").press("Enter")
    expect(verdict).to_contain_text("The “kids” are scared, and this head looks at them. But")
    expect(reader.button("Swap kids and lions")).to_be_visible()
    expect(reader.button("Swap them here")).to_be_focused()


def test_second_head_is_explained_after_each_change(reader: Reader, page: Page) -> None:
    """Guards a fault: back at scared kids, no text said that the head looks at kids anyway."""
    reader.open(way="understand")
    twist = page.locator(".twist")
    told = ("wherever that stands", "The swap exchanges", "still looks at")
    for text in (*told, "all four sentences"):
        expect(twist).not_to_contain_text(text)
    reader.button("Say the same as “The lions scared the kids”").click()
    expect(twist).to_contain_text("this head looks at them. But it does so in all four sentences")
    reader.button("Swap them here").click()
    for text in told:
        expect(twist).to_contain_text(text)


@pytest.mark.parametrize("options", [PHONE])
def test_share_of_an_arc_stays_on_a_phone(reader: Reader, page: Page) -> None:
    """Guards a fault: the share of the second head stood beyond the right edge."""
    for swapped, turned in itertools.product(("no", "yes"), repeat=2):
        reader.go(f"/#way=understand&swapped={swapped}&turned={turned}")
        for name in ("first", "second"):
            label = scene(page, name).locator("svg text")
            expect(label).to_be_visible()
            box = box_of(label)
            assert box["x"] + box["width"] <= 375


def row_of(api: Api, text: str, word: str, **head: Any) -> tuple[str, float, float]:
    """At what a word looks most, with which share, and what the model's marks get, by the API."""
    body = {"kinds": ["encoder"], "reduce": "none", "level": "word"} | head
    (item,) = api.post("/attention", text=text, **body)["items"]
    words = [token.removeprefix("▁").lower() for token in item["source"]["tokens"]]
    row = item["attentions"][0]["data"][0][0][words.index(word)]
    known = list(zip(words, row, item["source"]["special"], strict=True))
    most, share = max(((w, s) for w, s, special in known if not special), key=lambda one: one[1])
    return most, share, sum(s for _, s, special in known if special)


def test_any_word_shows_where_it_looks(reader: Reader, page: Page, api: Api) -> None:
    """By mouse and by keyboard, in both sentences; a swap returns to `they`."""
    reader.open(way="understand")
    expect_arc(page, "first", shares(api, KIDS, **EMBEDDER))
    readout = page.locator(".readout").first
    scene(page, "first").get_by_role("button", name="lions").press("Enter")
    most, share, marks = row_of(api, KIDS, "lions", **EMBEDDER)
    assert marks > share
    expect(readout).to_contain_text(f"at no word: {percent(marks)} goes")
    expect(scene(page, "first").locator("svg text")).to_have_text(percent(share))
    verdict = page.locator(".verdict").first
    expect(verdict).to_contain_text(f"the word that gets most: “{most}” with {percent(share)}.")
    assert "from=6" in reader.copied_link()
    scene(page, "second").get_by_role("button", name="scared").click()
    most, share, marks = row_of(api, KIDS, "scared", **EMBEDDER)
    assert marks < share
    expect(readout).to_have_text(f"“scared” looks at “{most}”: {percent(share)}")
    expect(scene(page, "first").locator("svg text")).to_have_text(percent(share))
    for name in ("first", "second"):
        expect(scene(page, name).locator("[aria-pressed=true]")).to_have_text("scared")
    reader.button("Swap them here").click()
    expect_arc(page, "first", shares(api, LIONS, **EMBEDDER))


def test_swap_is_shown_in_the_translation(reader: Reader, page: Page, api: Api) -> None:
    written = {text: api.translate(text)["translatedText"] for text in FORMS}
    assert all("eles" in translation for translation in written.values())
    reader.open(way="understand")
    expect(page.locator(".translation q")).to_have_text(written[KIDS])
    sentence = page.locator(".translation p").first
    expect(sentence).to_have_text(f"Its translation of this sentence: {written[KIDS]}")
    reader.button("Swap kids and lions").click()
    expect(page.locator(".translation q")).to_have_text(written[LIONS])
    expect(page.locator(".translation")).to_contain_text("is “eles” in all four sentences")


def test_turned_sentence_shows_that_the_head_follows_the_subject(
    reader: Reader, page: Page, api: Api
) -> None:
    reader.open(way="understand", turned="yes")
    expect_arc(page, "first", shares(api, TURNED, **EMBEDDER))
    expect(page.locator(".verdict").first).to_contain_text("looks at “lions”")
    expect(page.locator(".verdict").first).to_contain_text("the first noun, the subject")
    expect(page.locator(".verdict").first).to_contain_text("four sentences prove no rule")
    reader.button("Say the same as “The kids were scared of the lions”").click()
    expect(page.locator(".verdict").first).to_contain_text("the word that you mean")
    reader.button("Swap kids and lions").click()
    expect(page.locator(".verdict").first).to_contain_text("The head follows the swap.")


SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((e) => e.value)))
    .observe({ type: 'layout-shift', buffered: true });
"""
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("way", ["understand", "translate", "documents"])
def test_page_does_not_jump_while_it_loads(page: Page, way: str) -> None:
    """The page is painted before it has its languages; the sum was 0.85 by link."""
    held: list[Route] = []
    page.route("**/languages", lambda route: held.append(route))
    page.add_init_script(SHIFTS)
    with page.expect_request("**/languages"):
        page.goto(f"/#way={way}")
    page.evaluate(PAINTED)
    held[0].continue_()
    expect(page.locator("#way input")).to_have_count(4)
    if way == "understand":
        expect(page.locator("#opening")).not_to_have_class("waiting")
        expect(page.locator("[data-scene=second] .arc")).to_be_visible()
    page.evaluate(PAINTED)
    shifts = page.evaluate("shifts")
    assert sum(shifts) < 0.05, shifts


def test_something_moves_without_a_click(page: Page) -> None:
    page.add_init_script(f"({MOVING})()")
    page.goto("/#way=understand")
    assert page.evaluate("window.moved")


@pytest.mark.parametrize("options", [{"reduced_motion": "reduce"}])
def test_opening_is_calm_for_readers_who_ask_for_it(reader: Reader, page: Page, api: Api) -> None:
    reader.open(way="understand")
    expect_arc(page, "first", shares(api, KIDS, **EMBEDDER))
    reader.button("Swap kids and lions").click()
    assert page.evaluate("document.getAnimations().length") == 0
    expect_arc(page, "first", shares(api, LIONS, **EMBEDDER))


@pytest.mark.parametrize("options", [{"locale": "pt-BR"}])
def test_opening_speaks_portuguese(page: Page, api: Api) -> None:
    page.goto("/#way=understand")
    expect(page.get_by_role("heading", name="Quem fugiu: as crianças ou os leões?")).to_be_visible()
    share = percent(shares(api, KIDS, **EMBEDDER)["kids"])
    expect(page.locator(".readout").first).to_have_text(f"“they” olha para “kids”: {share}")
    expect(page.locator(".sentence").first).to_have_attribute("lang", "en")
    expect(page.locator("#toy")).to_contain_text("0,1 × 0,2 + 0,2 × 0,1 = 0,30")


@pytest.mark.parametrize("missing", ["all-MiniLM-L6-v2", "en-pt"])
def test_missing_model_is_named_and_the_other_is_shown(
    reader: Reader, page: Page, missing: str, api: Api
) -> None:
    models = api.get("/v1/models")
    models["data"] = [model for model in models["data"] if model["id"] != missing]
    page.route("**/v1/models", lambda route: route.fulfill(json=models))
    reader.open(way="understand")
    expect(
        page.locator("#opening .hint", has_text=re.compile("This server does not"))
    ).to_contain_text(missing)
    expect(page.locator("#opening [data-scene] .arc:visible")).to_have_count(1)


def test_busy_server_is_asked_again(reader: Reader, page: Page, watch: Watch, api: Api) -> None:
    watch.allow("503")
    body = {"error": "not ready", "error_type": "unavailable", "request_id": "0"}
    page.route("**/attention", lambda route: route.fulfill(status=503, json=body), times=1)
    reader.open(way="understand")
    expect_arc(page, "first", shares(api, KIDS, **EMBEDDER))


def test_server_that_cannot_be_reached_is_told(
    reader: Reader, page: Page, watch: Watch, api: Api
) -> None:
    watch.allow("ERR_FAILED")
    page.route("**/languages", lambda route: route.abort(), times=1)
    page.goto("/#way=understand")
    notice = page.locator("#understand > .notice")
    expect(notice).to_contain_text("The server cannot be reached.")
    expect(notice).to_be_hidden()
    expect_arc(page, "first", shares(api, KIDS, **EMBEDDER))
