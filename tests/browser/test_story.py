"""The story of Understand: its steps by keyboard, by finger and by scrolling, and its numbers."""

import json
import math
import struct
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Api, Profiles, Watch
from tests.browser.reader import KIDS, PHONE, POOL, Reader, box_of, number, percent, posted

STEPS = (
    *("tokens", "position", "roles", "scores", "scale", "mask", "softmax", "values", "sum"),
    *("heads", "concat", "norm", "forward", "encoder", "decoder", "words", "pool"),
)
BESIDE = ("scale", "mask", "values", "concat", "norm", "forward", "encoder")
MAIN = tuple(name for name in STEPS if name not in BESIDE)
MINUTES = 6  # as the page says
WORDS_A_MINUTE = 200
LOOK_MINUTES = 1 / 3  # for a figure
MAX_WORDS = 70  # of the sentences of a main step
MAX_HEIGHT = 5200  # of the page, in pixels
LAYER, HEAD = 1, 5  # of en-pt, where "they" looks at "kids"
THEY = 12
SVG = "{http://www.w3.org/2000/svg}"
MOBILE = PHONE | {"has_touch": True, "is_mobile": True}


def opened(reader: Reader, **view: Any) -> Page:
    reader.open(way="understand", **view)
    expect_chapters(reader.page)
    expect(reader.page.locator("#switches")).to_be_visible()  # above the story, nothing grows now
    return reader.page


def expect_chapters(page: Page) -> None:
    expect(page.locator("#story")).to_have_attribute("aria-busy", "false")
    expect(page.locator(".chapter")).to_have_count(len(STEPS))
    found = page.locator(".chapter").evaluate_all("all => all.map(e => e.dataset.chapter)")
    assert tuple(found) == STEPS


def chapter(page: Page, name: str) -> Locator:
    return page.locator(f"[data-chapter={name}]")


def part(page: Page, name: str) -> Locator:
    return page.locator(f".drawing [data-part={name}]")


def expect_shown(page: Page, name: str) -> None:
    expect(chapter(page, name)).to_be_visible()
    expect(page.locator(".chapter:visible")).to_have_count(1)


def expect_step(page: Page, name: str) -> None:
    """The step is the only one shown, and its part of the drawing is lit and in view."""
    expect_shown(page, name)
    expect(chapter(page, name).locator("h3")).to_be_in_viewport()
    expect(part(page, name)).to_have_attribute("aria-current", "step")
    expect(page.locator(".drawing [aria-current]")).to_have_count(1)
    expect(part(page, name)).to_be_in_viewport()
    start = f"Step {MAIN.index(name) + 1} of {len(MAIN)}: " if name in MAIN else "A closer look: "
    expect(page.locator(".pager p")).to_contain_text(start)
    if name in MAIN:
        bar = page.locator(".pager progress").evaluate("bar => [bar.value, bar.max]")
        assert bar == [MAIN.index(name) + 1, len(MAIN)]


def decimal(value: float) -> str:
    text = f"{0 if abs(value) < 0.005 else value:.2f}"
    return text.replace("-", "\u2212")


def vectors(page: Page, name: str) -> list[list[float]]:
    rows = chapter(page, name).locator(".vector").all()
    return [[number(t) for t in row.locator(".numbers span").all_text_contents()] for row in rows]


def column(page: Page, name: str, index: int) -> list[str]:
    rows = chapter(page, name).locator("tbody tr:not(.rest)").all()
    return [row.locator("th, td").nth(index).text_content() or "" for row in rows]


def assert_vectors(page: Page, name: str, wanted: list[list[float]]) -> None:
    np.testing.assert_allclose(vectors(page, name), [v[:3] for v in wanted], atol=5.1e-3)


def steps_of(api: Api, **fields: Any) -> Any:
    asked = {"text": KIDS, "source": "en", "target": "pt", "kind": "encoder", "query": THEY}
    include = ["vectors", "output", "block"]
    return api.post("/attention/steps", **asked | fields, include=include)


CALM: dict[str, Any] = {"reduced_motion": "reduce"}


@pytest.fixture
def options() -> dict[str, Any]:
    return CALM


@pytest.fixture(scope="module")
def story(profiles: Profiles, address: str) -> Iterator[Page]:
    """The story with all steps, for tests that only read it."""
    with profiles.watched(profiles.context(CALM, {}), Watch(address)) as page:
        yield opened(Reader(page))


def test_story_goes_from_start_to_end_by_keyboard(reader: Reader, page: Page) -> None:
    opened(reader)
    page.locator("#story-title").scroll_into_view_if_needed()
    for name in MAIN[1:]:
        page.keyboard.press("ArrowRight")
        expect_step(page, name)
        expect(chapter(page, name).locator("h3")).to_be_focused()
        assert page.evaluate("document.getAnimations().length") == 0  # as the reader asks for
    expect(reader.button("Next step")).to_be_disabled()
    for name in MAIN[-2::-1]:
        page.keyboard.press("ArrowLeft")
        expect_step(page, name)
    expect(reader.button("Previous step")).to_be_disabled()


@pytest.mark.parametrize("options", [MOBILE])
def test_story_goes_from_start_to_end_on_a_phone(reader: Reader, page: Page) -> None:
    opened(reader)
    for name in MAIN[1:]:
        reader.button("Next step").tap()
        expect_step(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") == 375
    box = box_of(reader.button("Next step"))
    assert min(box["width"], box["height"]) >= 40
    for name in STEPS:
        part(page, name).tap()
        expect_step(page, name)
        rect = box_of(part(page, name).locator("rect").first)
        assert min(rect["width"], rect["height"]) >= 20
        assert page.evaluate("document.documentElement.scrollWidth") == 375
    reader.unfold("#choice details")
    assert box_of(page.locator("label.chip").first)["height"] >= 40


CUT = """drawing => [...drawing.querySelectorAll('text:not(:empty)')].filter((text) => {
    const inner = text.getBoundingClientRect();
    const link = text.closest('a');
    const frame = (link?.querySelector('rect') ?? drawing).getBoundingClientRect();
    const isOutside = inner.left < frame.left - 0.5 || inner.right > frame.right + 0.5;
    return isOutside || text.textContent.includes('…');
}).map((text) => text.textContent)"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [MOBILE, MOBILE | {"locale": "pt-BR"}], ids=["en", "pt"])
def test_nothing_is_cut_on_a_phone(page: Page) -> None:
    """A table of the switches and the eighth head of the map were cut."""
    page.goto("/#way=understand")
    expect_chapters(page)
    expect(page.locator("#switches-map svg")).to_be_visible()
    page.locator("#understand").evaluate(
        "all => all.querySelectorAll('details').forEach((fold) => { fold.open = true; })"
    )
    expect(page.locator("#switches details td")).not_to_have_count(0)
    for name in STEPS:
        part(page, name).tap()
        expect_shown(page, name)
        wide = page.locator("#understand :is(.scroll, .frame):visible").evaluate_all(
            """all => all.filter((e) => e.scrollWidth > e.clientWidth)
                .filter((e) => !e.matches('#switches details *')) // numbers of a map, which scroll
                .map((e) => [e.ariaLabel, e.scrollWidth, e.clientWidth])"""
        )
        assert not wide, name
        assert not page.locator(".drawing").evaluate(CUT), name
    pinned = box_of(page.locator(".drawing"))["height"] + box_of(page.locator(".pager"))["height"]
    assert pinned < 0.4 * PHONE["viewport"]["height"]


def test_drawing_leads_to_every_step_by_keyboard(reader: Reader, page: Page) -> None:
    opened(reader)
    for name in STEPS:
        part(page, name).focus()
        page.keyboard.press("Enter")
        expect_step(page, name)
    address = part(page, "mask").get_attribute("href") or ""
    reader.go(f"/{address}")  # in another tab
    expect_step(page, "mask")
    page.keyboard.press("ArrowRight")
    expect_step(page, "softmax")


def test_drawing_has_the_servers_numbers(story: Page, api: Api, sentence: Any) -> None:
    reply = steps_of(api, layer=LAYER, head=HEAD)
    top = max(reply["rows"], key=lambda row: row["weight"])
    assert "they" in (part(story, "tokens").text_content() or "")
    expect(part(story, "scores")).to_contain_text(decimal(top["score"]))
    expect(part(story, "scale")).to_contain_text(decimal(top["scaled"]))
    expect(part(story, "softmax")).to_contain_text(percent(top["weight"]))
    place = sentence["target"]["tokens"].index("▁eles")
    encoder, cross = (np.array(each["data"]) for each in sentence["attentions"])
    last = len(cross) - 1
    heads: dict[str, tuple[Any, ...]] = {
        "encoder": (encoder, LAYER, HEAD, THEY),
        "decoder": (cross, last, cross[last, :, place, THEY].argmax(), place),
    }
    for name, (weights, layer, head, token) in heads.items():
        tokens = [spoken(token) for token in sentence["source"]["tokens"]]
        row = weights[layer, head, token]
        expected = [str(number + 1) for number in range(len(weights))]
        look = f"{tokens[row.argmax()]} {percent(row.max())}"
        expected[layer] = f"{layer + 1}, head {head + 1}: {look}"
        assert part(story, name).locator("text").all_text_contents() == expected
        expect(chapter(story, "heads" if name == "encoder" else name)).to_contain_text(
            percent(row.max())
        )
    likeliest = sentence["probabilities"]["likeliest"]
    assert part(story, "words").locator("text").all_text_contents() == [
        f"{spoken(token)} {percent(math.exp(log))}"
        for token, log in zip(
            likeliest["tokens"][place], likeliest["log_probs"][place], strict=True
        )
    ]


def test_drawing_shows_the_sentence_of_its_step(reader: Reader, page: Page, api: Api) -> None:
    """The last step spoke of “piscina” below a drawing of “eles”."""
    opened(reader, step="pool")
    item = api.attention(POOL, probabilities={"top_k": 4})
    likeliest = item["probabilities"]["likeliest"]
    shown = part(page, "words").locator("text")
    expect(shown.first).to_contain_text("piscina")
    assert shown.all_text_contents() == [
        f"{spoken(token)} {percent(math.exp(log))}"
        for token, log in zip(likeliest["tokens"][0], likeliest["log_probs"][0], strict=True)
    ]
    expect(part(page, "tokens").locator("[font-weight=bold]")).to_have_text("pool")
    page.keyboard.press("ArrowLeft")
    expect(shown.first).to_contain_text("eles")
    expect(part(page, "tokens").locator("[font-weight=bold]")).to_have_text("they")


def spoken(token: str) -> str:
    return token.replace("</s>", "⟨end⟩").removeprefix("▁")


def test_drawings_follow_the_theme(reader: Reader, page: Page) -> None:
    page.emulate_media(color_scheme="light")
    opened(reader, step="position")
    waves = page.locator("canvas.waves")
    pixels = "canvas => canvas.toDataURL()"
    before = waves.evaluate(pixels)
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert waves.evaluate(pixels) != before
    assert part(page, "position").locator("path").first.get_attribute("stroke") == page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()"
    )


def test_positions_are_sine_waves(story: Page, api: Api) -> None:
    """The map of the page is the formula; it is shown only where the model has these numbers."""
    shown = chapter(story, "position")
    expect(shown).to_contain_text("sine waves")
    expect(shown.locator("canvas.waves")).to_have_count(1)
    load = "async ([p, n]) => (await import('./static/understand/chapters/encoder.js')).waves(p, n)"
    for query in (0, THEY):
        place = steps_of(api, layer=0, head=0, query=query)["block"]["embedding"]["position"]
        np.testing.assert_allclose(story.evaluate(load, [query, len(place)]), place, atol=1e-3)


def saved(page: Page, place: str, kind: str, name: str) -> bytes:
    with page.expect_download() as download:
        page.locator(f"{place} [data-kind={kind}]").first.click()
    assert download.value.suggested_filename == f"{name}.{kind}"
    return Path(download.value.path()).read_bytes()


def test_arc_is_saved_as_it_is_shown(reader: Reader, page: Page) -> None:
    opened(reader)
    shown = page.locator("[data-scene=second]")
    expect(shown.locator(".arc")).to_be_visible()
    root = ET.fromstring(
        saved(page, ".reading:has([data-scene=second])", "svg", "regard-arc-second")
    )
    words = [node.text for node in root.iter(f"{SVG}text")]
    assert " ".join(map(str, words)).startswith(KIDS.replace(",", " ,").replace(".", " ."))
    share = shown.locator("svg text").text_content()
    assert share in words
    arc = shown.locator(".arc").get_attribute("d")
    (line,) = [node for node in root.iter(f"{SVG}path") if node.get("d") == arc]
    accent = shown.locator(".arc").evaluate("arc => getComputedStyle(arc).stroke")
    assert line.get("stroke") == accent


def test_step_is_saved_with_its_stripes(reader: Reader, page: Page) -> None:
    opened(reader, step="sum")
    step = chapter(page, "sum")
    root = ET.fromstring(saved(page, ".story", "svg", "regard-sum"))
    words = " ".join(node.text or "" for node in root.iter(f"{SVG}text"))
    assert words.startswith("Sum: a mix of the values Each token gives its value v,")
    assert "More about" not in words
    stripes = [node.get("href") for node in root.iter(f"{SVG}image")]
    own = step.locator("canvas").evaluate_all("all => all.map((canvas) => canvas.toDataURL())")
    assert stripes == own
    picture = saved(page, ".story", "png", "regard-sum")
    width, height = (round(2 * math.ceil(box_of(step)[name])) for name in ("width", "height"))
    assert struct.unpack_from(">II", picture, 16) == (width, height)
    colours = page.evaluate(
        """async (bytes) => {
            const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
            const pen = new OffscreenCanvas(image.width, image.height).getContext('2d');
            pen.drawImage(image, 0, 0);
            const { data } = pen.getImageData(0, 0, image.width, image.height);
            return new Set(new Uint32Array(data.buffer)).size;
        }""",
        [*picture],
    )
    assert colours > 300  # words alone, without stripes, have fewer


def test_arrow_keys_in_a_field_belong_to_the_field(reader: Reader, page: Page) -> None:
    opened(reader)
    reader.unfold("#choice details")
    page.get_by_label("Sentence of the story, in English").press("ArrowRight")
    reader.unfold("#toy details")
    page.get_by_label("pool, number 1", exact=True).press("ArrowRight")
    page.locator(".sentence .word").first.press("ArrowRight")
    expect(chapter(page, MAIN[0])).to_be_visible()


def test_arrow_keys_after_a_click_on_the_way_turn_steps(reader: Reader, page: Page) -> None:
    """They went on to Compare, and away from the story."""
    reader.open()
    reader.choose("way", "understand")
    expect_chapters(page)
    page.keyboard.press("ArrowRight")
    expect_step(page, MAIN[1])
    page.locator("#way input:checked").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#story")).to_be_hidden()


def test_link_restores_the_step_and_the_token(reader: Reader, page: Page) -> None:
    opened(reader, lesson=POOL, token=3, step="scores")
    expect_step(page, "scores")
    expect(chapter(page, "scores")).to_contain_text("The query of “bad”")
    page.keyboard.press("ArrowRight")
    link = reader.copied_link("Link to this step")
    assert "step=softmax" in link
    reader.go(link)
    expect_step(page, "softmax")
    expect(page.locator(".chips input:checked")).to_have_value("3")


def test_token_is_chosen_by_keyboard(reader: Reader, page: Page) -> None:
    opened(reader, lesson=POOL).locator("#choice summary").press("Enter")
    page.locator(".chips input:checked").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".followed")).to_contain_text("You follow “beat” in the sentence “pool")
    expect(chapter(page, "tokens").locator(".here b")).to_have_text("▁beat")
    expect(page.locator(".chips input:checked")).to_have_value("1")
    expect(page.locator(".chips input:checked")).to_be_focused()
    expect(chapter(page, "scores")).to_contain_text("The query of “beat”")


def test_story_follows_the_swap_and_a_sentence_of_the_reader(
    reader: Reader, page: Page, api: Api
) -> None:
    opened(reader)
    reader.button("Swap kids and lions").click()
    expect(page.locator("label.chip").nth(2)).to_contain_text("lion")
    lions = "The lions were scared of the kids, so they left right away."
    expect(page.get_by_label("Sentence of the story, in English")).to_have_value(lions)
    line = page.locator(".followed")
    expect(line).to_contain_text(f"in the sentence as it now stands above: “{lions}”")
    reader.unfold("#choice details")
    text = "The dog sleeps."
    page.get_by_label("Sentence of the story, in English").fill(text)
    page.keyboard.press("Enter")
    expect(line).to_have_text(f"You follow “The” in the sentence “{text}”")
    tokens = api.attention(text)["source"]["tokens"]
    expect(page.locator("label.chip")).to_have_count(len(tokens))


def test_arrow_keys_turn_steps_after_a_fold_is_opened(reader: Reader, page: Page) -> None:
    """Guards a fault: keys on the title of a fold did nothing."""
    opened(reader, step="softmax")
    chapter(page, "softmax").locator("summary").first.press("Enter")
    page.keyboard.press("ArrowRight")
    expect_step(page, "sum")
    part(page, "roles").click()
    chapter(page, "roles").get_by_role("button", name="query").click()
    expect(page.locator(".meaning:popover-open")).to_contain_text("what it is looking for")


def test_token_without_a_translation_is_named(reader: Reader, page: Page, api: Api) -> None:
    text = "The dog chased the cat because it was hungry."
    tokens = api.attention(text)["source"]["tokens"]
    opened(reader, lesson=text, token=tokens.index("▁it"))
    for name in ("decoder", "words"):
        expect(chapter(page, name)).to_contain_text("No word of this translation stands for “it”.")
    reader.unfold("#choice details")
    page.locator(".chips input:checked").focus()
    page.keyboard.press("ArrowRight")
    for name in ("decoder", "words"):
        expect(chapter(page, name)).not_to_contain_text("stands for")


@pytest.fixture
def sentence(api: Api) -> Any:
    body: dict[str, Any] = {"kinds": ["encoder", "cross"], "layers": "all", "reduce": "none"}
    return api.attention(KIDS, **body, probabilities={"top_k": 4})


def test_numbers_of_tokens_and_vectors_are_the_servers(
    story: Page, api: Api, sentence: Any
) -> None:
    ids = [str(i) for i in sentence["source"]["ids"]]
    expect(chapter(story, "tokens").locator(".chip small")).to_have_text(ids)
    reply = steps_of(api, layer=LAYER, head=HEAD)
    block, own = reply["block"], reply["vectors"]
    embedding = block["embedding"]
    assert_vectors(story, "position", [embedding[n] for n in ("token", "position", "sum")])
    assert_vectors(story, "roles", [block["input"], own["q"], own["k"][THEY], own["v"][THEY]])
    assert_vectors(story, "concat", [reply["output"]["concatenated"], block["attention"]])
    assert_vectors(story, "norm", [block[n] for n in ("input", "attention", "attended")])
    assert_vectors(story, "forward", [block[n] for n in ("attended", "feed_forward", "output")])
    expect(chapter(story, "concat")).to_contain_text("8 × 32 = 256 numbers")


def test_numbers_of_the_head_are_the_servers(story: Page, api: Api) -> None:
    reply = steps_of(api, layer=LAYER, head=HEAD)
    rows = reply["rows"]
    scores = [decimal(row["score"]) for row in rows]
    scaled = [decimal(row["scaled"]) for row in rows]
    weights = [percent(row["weight"]) for row in rows]
    assert column(story, "scores", 1) == scores
    assert column(story, "scale", 1) == scores
    assert column(story, "scale", 2) == scaled
    assert column(story, "softmax", 1) == scaled
    assert column(story, "softmax", 2) == weights
    assert column(story, "values", 2) == weights
    firsts = ["".join(decimal(value) for value in row["value"][:3]) for row in rows]
    assert column(story, "values", 4) == firsts
    assert column(story, "sum", 1) == scores
    total = chapter(story, "sum").locator("tfoot .numbers span").all_text_contents()
    assert total == [decimal(value) for value in reply["z"][:3]]
    top = max(rows, key=lambda row: row["weight"])
    q, k = reply["vectors"]["q"], reply["vectors"]["k"][top["key"]]
    assert_vectors(story, "scores", [q, k, [a * b for a, b in zip(q, k, strict=True)]])
    products = " + ".join(f"{decimal(a)} × {decimal(b)}" for a, b in zip(q[:3], k[:3], strict=True))
    expect(chapter(story, "scores")).to_contain_text(f"{products} + … = {decimal(top['score'])}")


def test_mask_and_scale_compare_the_same_scores(story: Page, api: Api) -> None:
    rows = steps_of(api, layer=LAYER, head=HEAD)["rows"]
    hidden = ["−∞" if row["key"] > THEY else decimal(row["scaled"]) for row in rows]
    assert column(story, "mask", 2) == hidden
    scores = np.array([row["score"] for row in rows])
    raw = np.exp(scores - scores.max())
    share = percent(max(row["weight"] for row in rows))
    raw_share = percent(float(raw.max() / raw.sum()))
    for name in ("scale", "softmax"):
        expect(chapter(story, name)).to_contain_text(f"“kids” gets {share}.")
        expect(chapter(story, name)).to_contain_text(f"it would get {raw_share}.")
    expect(chapter(story, "softmax").locator("tfoot td.share")).to_have_text("100 %")


def test_numbers_of_all_layers_are_the_servers(story: Page, sentence: Any) -> None:
    encoder = np.array(sentence["attentions"][0]["data"])
    heads = encoder[LAYER, :, THEY]
    assert column(story, "heads", 2) == [percent(row.max()) for row in heads]
    means = encoder[:, :, THEY].mean(axis=1)
    assert column(story, "encoder", 2) == [percent(row.max()) for row in means]
    tokens = [t.replace("</s>", "⟨end⟩") for t in sentence["source"]["tokens"]]
    assert column(story, "heads", 1) == [tokens[row.argmax()] for row in heads]
    assert column(story, "encoder", 1) == [tokens[row.argmax()] for row in means]


def test_numbers_of_the_decoder_are_the_servers(story: Page, sentence: Any) -> None:
    place = sentence["target"]["tokens"].index("▁eles")
    cross = np.array(sentence["attentions"][1]["data"])[-1, :, place]
    row = cross[cross[:, THEY].argmax()]
    own = np.array(sentence["attentions"][0]["data"])[LAYER, HEAD, THEY]
    assert column(story, "decoder", 1) == [percent(share) for share in [*own, *row]]
    expect(chapter(story, "decoder").locator(".chip.here")).to_have_text("▁eles")
    likeliest = sentence["probabilities"]["likeliest"]
    assert column(story, "words", 0) == likeliest["tokens"][place]
    probabilities = [percent(math.exp(log)) for log in likeliest["log_probs"][place]]
    assert column(story, "words", 1) == probabilities
    expect(chapter(story, "words")).to_contain_text(f"took “eles”, with {probabilities[0]}")
    expect(chapter(story, "decoder")).to_contain_text(f"at “they” with {percent(row.max())}.")


def test_wrong_sense_of_a_word_is_explained_with_the_servers_numbers(story: Page, api: Api) -> None:
    shown = chapter(story, "pool")
    expect(shown.locator("h3")).to_have_text("Why “piscina”?")
    whole = api.attention(POOL, kinds=["encoder"], layers="all", reduce="none", level="word")
    item = api.attention(POOL, probabilities={"top_k": 4})
    likeliest = item["probabilities"]["likeliest"]
    assert column(story, "pool", 0) == likeliest["tokens"][0]
    assert column(story, "pool", 1) == [percent(math.exp(x)) for x in likeliest["log_probs"][0]]
    most = np.array(whole["attentions"][0]["data"])[:, :, 0, 2].max()
    expect(shown).to_contain_text(f"“pool” gives {percent(float(most))} to “badminton”")
    other = api.attention(POOL, target_text="bilhar bate badminton", probabilities={})
    logs = other["probabilities"]["log_probs"][: other["target"]["tokens"].index("▁bate")]
    expect(shown).to_contain_text(f"“bilhar”, the game, has {percent(math.exp(sum(logs)))}")
    text = "A game of pool and a game of badminton."
    expect(shown).to_contain_text(f"becomes “{api.translate(text)['translatedText']}”")


def test_summary_leads_back_to_the_steps(reader: Reader, page: Page) -> None:
    opened(reader)
    links = page.locator("#summary a")
    expect(links).to_have_count(5)
    for place, step in enumerate(("roles", "softmax", "sum", "heads", "words")):
        links.nth(place).press("Enter")
        expect_step(page, step)
        expect(chapter(page, step).locator("h3")).to_be_focused()
    links.nth(4).press("Enter")  # of the step that is still the current one
    expect_step(page, "words")


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (KIDS, "roles"),
        ("I like Natural Language Processing , a lot !", "sum"),
        ("Hi, How are you?", "softmax"),
        ("Action gets results", "scores"),
    ],
)
def test_example_opens_its_sentence_and_step(
    reader: Reader, page: Page, api: Api, text: str, step: str
) -> None:
    reader.open(way="understand")
    expect_chapters(page)
    link = page.locator("#more a", has_text=text).first
    address = link.get_attribute("href") or ""
    link.click()
    expect(page.locator("label.chip")).to_have_count(len(api.attention(text)["source"]["tokens"]))
    expect_step(page, step)
    reader.go(f"/{address}")  # in another tab
    expect(page.get_by_label("Sentence of the story, in English")).to_have_value(text)
    expect_step(page, step)


@pytest.mark.parametrize("options", [{"locale": "pt-BR", "reduced_motion": "reduce"}])
def test_story_speaks_portuguese(reader: Reader, page: Page) -> None:
    page.goto("/#way=understand&step=roles")
    title = "Três papéis: consulta, chave, valor"
    expect(page.get_by_role("heading", name=title)).to_be_focused()
    expect(page.locator(".pager p")).to_contain_text("Passo 3 de 10")
    expect(chapter(page, "softmax").locator("summary")).to_have_text(
        ["Por que a raiz de 32?", "Mais sobre este passo"]
    )
    expect(page.get_by_role("heading", name="Atenção em cinco frases")).to_be_visible()


def test_story_says_what_takes_up_the_written_words(reader: Reader, page: Page, api: Api) -> None:
    """It described self-attention, which decoders of Firefox's models do not have."""
    assert "decoder" not in api.shape()
    opened(reader)
    expect(chapter(page, "decoder")).to_contain_text("This decoder has no self-attention: an SSRU")
    expect(chapter(page, "softmax")).to_contain_text("training, which follows slopes")
    expect(chapter(page, "forward")).to_contain_text("a bend sets numbers below 0")
    models = api.get("/v1/models")
    for model in models["data"]:
        if model["id"] == "en-pt":
            model["attention"]["decoder"] = {"layers": 2, "heads": 8}
    page.route("**/v1/models", lambda route: route.fulfill(json=models))

    def with_decoder(route: Route) -> None:
        """Answers as a model with self-attention in its decoder, which gives all to the start."""
        body = posted(route.request)
        kinds = [kind for kind in body.get("kinds", []) if kind != "decoder"]
        asked = json.dumps(body | ({"kinds": kinds} if kinds else {}))
        reply = route.fetch(post_data=asked).json()
        for item in reply["items"] if "decoder" in body.get("kinds", []) else []:
            size = len(item["target"]["tokens"])
            rows = [[1.0] + [0.0] * (size - 1)] * size
            item["attentions"].append({"kind": "decoder", "data": [[rows]]})
        route.fulfill(json=reply)

    page.route("**/attention", with_decoder)
    page.reload()
    expect(chapter(page, "decoder")).to_contain_text("this decoder has self-attention with")
    mask = chapter(page, "mask").locator("figure")
    expect(mask).to_contain_text("Self-attention of the decoder, layer 1, head 1")
    fills = mask.locator("[data-column='0']").evaluate_all("all => all.map(e => e.outerHTML)")
    assert len({fill.split('fill="')[1][:7] for fill in fills}) == 1  # one colour, the darkest


def test_server_without_english_says_so(reader: Reader, page: Page, api: Api) -> None:
    languages = [entry for entry in api.get("/languages") if entry["code"] != "en"]
    page.route("**/languages", lambda route: route.fulfill(json=languages))
    page.goto("/#way=understand")
    expect(page.locator("#story [role=status]")).to_contain_text("does not translate from English")
    expect(page.locator(".story")).to_be_hidden()


def sentences(page: Page) -> dict[str, int]:
    """The words of each main step outside of its folds."""
    texts = {
        name: chapter(page, name).locator(".content > p:not(.sum, .chips)").all_text_contents()
        for name in MAIN
    }
    return {name: len(" ".join(parts).split()) for name, parts in texts.items()}


@pytest.mark.parametrize(
    "options",
    [
        {"viewport": {"width": 1280, "height": 720}},
        {"viewport": {"width": 1280, "height": 720}, "locale": "pt-BR"},
    ],
)
def test_main_steps_are_short(page: Page) -> None:
    page.goto("/#way=understand")
    expect_chapters(page)
    expect(page.locator("#switches")).to_be_visible()
    words = sentences(page)
    assert all(0 < count <= MAX_WORDS for count in words.values()), words
    minutes = sum(words.values()) / WORDS_A_MINUTE + len(MAIN) * LOOK_MINUTES
    assert minutes == pytest.approx(MINUTES, rel=0.15)
    expect(page.locator("#story .lead")).to_contain_text(f" {MINUTES} min")
    assert page.evaluate("document.documentElement.scrollHeight") <= MAX_HEIGHT


def test_folds_of_a_step_are_closed_and_open_by_keyboard(reader: Reader, page: Page) -> None:
    """An open fold stays open for another token, and closes no other."""
    reader.open(way="understand", step="softmax")
    expect_step(page, "softmax")
    assert not page.locator(".chapter details").evaluate_all("all => all.some(fold => fold.open)")
    step = chapter(page, "softmax")
    coins, more = step.get_by_text("Toss 32 coins"), step.get_by_text("the number e = 2.718")
    expect(coins).to_be_hidden()
    step.locator("summary", has_text="Why the root of 32?").press("Enter")
    expect(coins).to_be_visible()
    expect(more).to_be_hidden()
    step.locator("summary", has_text="More about this step").press("Space")
    expect(more).to_be_visible()
    page.locator("#choice summary").press("Enter")
    page.locator(".chips input:checked").press("ArrowLeft")
    expect(step).to_contain_text("“so” gives")
    expect(coins).to_be_visible()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The dog chased the cat because it was hungry.", "because"),
        ("She was tired, so she slept.", "so"),
    ],
)
def test_head_that_looks_at_a_small_word_is_commented(
    reader: Reader, page: Page, text: str, word: str
) -> None:
    reader.open(way="understand", lesson=text)
    comment = f"Heads often look at words that tell us nothing, such as “{word}”."
    expect(chapter(page, "scores")).to_contain_text(f"“{word}” has the largest")
    expect(chapter(page, "scores")).to_contain_text(comment)
    reader.open(way="understand", lesson=KIDS)
    expect(chapter(page, "scores")).to_contain_text("“kids” has the largest")
    expect(chapter(page, "scores")).not_to_contain_text("Heads often look")
