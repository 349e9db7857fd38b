"""The story of Understand: its steps by keyboard, by finger and by scrolling, and its numbers."""

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Api, Profiles, Watch
from tests.browser.reader import KIDS, PHONE, POOL, Reader, box_of, number, percent

pytestmark = pytest.mark.browser

STEPS = (
    *("tokens", "position", "roles", "scores", "scale", "mask", "softmax", "values", "sum"),
    *("heads", "concat", "norm", "forward", "encoder", "decoder", "words", "pool"),
)
MAIN = ("roles", "scores", "softmax", "sum", "heads", "words", "pool")
MINUTES = {MAIN: 4, STEPS: 10}  # as the page says
WORDS_A_MINUTE = 200
LOOK_MINUTES = 1 / 3  # for a figure
MAX_WORDS = 55  # of the sentences of a main step
MAX_HEIGHT = 5600  # of the page with the main steps, in pixels
LAYER, HEAD = 1, 5  # of en-pt, where "they" looks at "kids"
THEY = 12
MOBILE = PHONE | {"has_touch": True, "is_mobile": True}


def opened(reader: Reader, **view: Any) -> Page:
    reader.open(way="understand", whole="yes", **view)
    expect_chapters(reader.page, STEPS)
    expect(reader.page.locator("#cause")).to_be_visible()  # above the story, nothing grows now
    return reader.page


def expect_chapters(page: Page, names: tuple[str, ...]) -> None:
    expect(page.locator("#story")).to_have_attribute("aria-busy", "false")
    expect(page.locator(".chapter")).to_have_count(len(names))
    found = page.locator(".chapter").evaluate_all("all => all.map(e => e.dataset.chapter)")
    assert tuple(found) == names


def chapter(page: Page, name: str) -> Locator:
    return page.locator(f"[data-chapter={name}]")


def expect_step(page: Page, number: int, names: tuple[str, ...] = STEPS) -> None:
    name = names[number - 1]
    expect(page.locator(".pager p")).to_contain_text(f"Step {number} of {len(names)}: ")
    expect(page.locator(".contents [aria-current=step]")).to_have_attribute("data-step", name)
    expect(chapter(page, name)).to_have_class(re.compile("current"))
    expect(chapter(page, name).locator("h3")).to_be_in_viewport()


def expect_no_step(page: Page, names: tuple[str, ...] = STEPS) -> None:
    text = f"{len(names)} steps, about {MINUTES[names]} minutes"
    expect(page.locator(".pager p")).to_have_text(text)


def decimal(value: float, digits: int = 2) -> str:
    text = f"{0 if abs(value) < 0.005 else value:.{digits}f}"
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
    return api.post("/attention/steps", **asked, include=include, **fields)


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
    expect_no_step(page)
    for step in range(1, len(STEPS) + 1):
        page.keyboard.press("ArrowRight")
        expect_step(page, step)
        expect(chapter(page, STEPS[step - 1]).locator("h3")).to_be_focused()
        assert page.evaluate("document.getAnimations().length") == 0  # as the reader asks for
    expect(reader.button("Next step")).to_be_disabled()
    for step in range(len(STEPS) - 1, 0, -1):
        page.keyboard.press("ArrowLeft")
        expect_step(page, step)
    expect(reader.button("Previous step")).to_be_disabled()


@pytest.mark.parametrize("options", [MOBILE])
def test_story_goes_from_start_to_end_on_a_phone(reader: Reader, page: Page) -> None:
    opened(reader)
    for step in range(1, len(STEPS) + 1):
        reader.button("Next step").tap()
        expect_step(page, step)
        assert page.evaluate("document.documentElement.scrollWidth") == 375
    box = box_of(reader.button("Next step"))
    assert min(box["width"], box["height"]) >= 40
    reader.unfold("#choice details")
    assert box_of(page.locator("label.chip").first)["height"] >= 40


@pytest.mark.parametrize("options", [{"reduced_motion": "no-preference"}])
def test_quick_second_press_leaves_out_no_step(reader: Reader, page: Page) -> None:
    """Guards against a scroll between press and click that made an earlier step the current one."""
    opened(reader)
    page.locator(".pager button", has_text="→").evaluate(
        """async button => {
          button.click();
          button.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
          await new Promise(seen => addEventListener("scroll", seen, { once: true }));
          button.click();
        }"""
    )
    expect_step(page, 2)


def test_story_follows_scrolling(reader: Reader, page: Page) -> None:
    opened(reader)
    page.locator("#story-title").scroll_into_view_if_needed()
    for step, name in enumerate(STEPS, 1):
        chapter(page, name).evaluate(
            "node => scrollBy(0, node.getBoundingClientRect().top - innerHeight * 0.3)"
        )
        expect_step(page, step)
    page.evaluate("scrollTo(0, 0)")
    expect_no_step(page)
    # Jumps, as with the keys End and Home: no step is seen between.
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator(".pager p")).to_contain_text(f"Step {len(STEPS)} of {len(STEPS)}: ")
    page.evaluate("scrollTo(0, 0)")
    expect_no_step(page)


def test_story_starts_with_its_main_steps(reader: Reader, page: Page) -> None:
    """All steps come on request, and with a link to a step that is not a main one."""
    reader.open(way="understand")
    expect_chapters(page, MAIN)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect_step(page, 2, MAIN)
    reader.choose("extent", "whole")
    expect_chapters(page, STEPS)
    page.locator(".contents [data-step=mask]").click()
    reader.choose("extent", "main")
    expect_chapters(page, MAIN)
    expect_no_step(page, MAIN)
    page.goto("about:blank")
    reader.open(way="understand", step="mask")
    expect_chapters(page, STEPS)
    expect_step(page, STEPS.index("mask") + 1)


@pytest.mark.parametrize("options", [{}])
def test_story_moves_smoothly_to_a_far_step(reader: Reader, page: Page) -> None:
    opened(reader)
    page.locator("#story-title").scroll_into_view_if_needed()
    page.locator(".contents [data-step=words]").click()
    expect_step(page, STEPS.index("words") + 1)
    page.keyboard.press("ArrowRight")
    expect_step(page, len(STEPS))


def test_arrow_keys_in_a_field_belong_to_the_field(reader: Reader, page: Page) -> None:
    opened(reader)
    reader.unfold("#choice details")
    page.get_by_label("Sentence of the story, in English").press("ArrowRight")
    reader.unfold("#toy details")
    page.get_by_label("pool, number 1", exact=True).press("ArrowRight")
    page.locator(".sentence .word").first.press("ArrowRight")
    expect_no_step(page)


def test_link_restores_the_step_and_the_token(reader: Reader, page: Page) -> None:
    opened(reader, lesson=POOL, token=3, step="scores")
    expect_step(page, STEPS.index("scores") + 1)
    expect(chapter(page, "scores")).to_contain_text("The query of “bad”")
    page.keyboard.press("ArrowRight")
    link = reader.copied_link("Link to this step")
    assert "step=scale" in link
    reader.go(link)
    expect_step(page, STEPS.index("scale") + 1)
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


def test_story_follows_the_swap(reader: Reader, page: Page) -> None:
    opened(reader)
    reader.button("Swap kids and lions").click()
    expect(page.locator("label.chip").nth(2)).to_contain_text("lion")
    lions = "The lions were scared of the kids, so they left right away."
    expect(page.get_by_label("Sentence of the story, in English")).to_have_value(lions)
    line = page.locator(".followed")
    expect(line).to_contain_text(f"in the sentence as it now stands above: “{lions}”")
    reader.unfold("#choice details")
    page.get_by_label("Sentence of the story, in English").fill(POOL)
    page.keyboard.press("Enter")
    expect(line).to_contain_text(f"in the sentence “{POOL}”")


def test_arrow_keys_turn_steps_after_a_fold_is_opened(reader: Reader, page: Page) -> None:
    """Guards a fault: keys on the title of a fold did nothing."""
    opened(reader, step="softmax")
    chapter(page, "softmax").locator("summary").first.press("Enter")
    page.keyboard.press("ArrowRight")
    expect_step(page, STEPS.index("softmax") + 2)
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


def test_step_stays_while_content_above_it_grows(reader: Reader, page: Page) -> None:
    """Growth and scrolling in one frame: the step before became the current one."""
    opened(reader, step="scores")
    expect_step(page, STEPS.index("scores") + 1)
    page.mouse.wheel(0, 4)
    page.evaluate(
        """() => {
            const grown = document.createElement('div');
            grown.style.height = '900px';
            document.querySelector('#opening').append(grown);
            scrollBy(0, 4);
            return new Promise((done) => setTimeout(done, 300));
        }"""
    )
    expect_step(page, STEPS.index("scores") + 1)


def test_long_table_shows_all_tokens_on_request(reader: Reader, page: Page) -> None:
    """Before, the shares of the shown rows and of the rest add up to the total."""
    opened(reader)
    table = chapter(page, "softmax").locator("table")
    rest = table.locator("tr.rest")
    expect(rest.locator("th")).to_have_text(re.compile(r"\+ the other \d+"))
    shares = [row.locator("td").last for row in table.locator("tbody tr:not(.minor)").all()]
    numbers = [int(re.findall(r"\d+", cell.inner_text())[0]) for cell in shares]
    assert sum(numbers) == pytest.approx(100, abs=len(numbers) / 2)
    rows = chapter(page, "scores").locator("tbody tr")
    expect(rows.locator("visible=true")).to_have_count(4)
    expect(rows.filter(has_text="kids")).to_be_visible()
    chapter(page, "scores").get_by_role("button", name="All 18 tokens").click()
    for name in ("scores", "softmax", "decoder"):
        shown = chapter(page, name).locator("tbody tr").locator("visible=true")
        expect(shown).to_have_count(18)
    expect(rest).to_be_hidden()
    reader.unfold("#choice details")
    page.locator("label.chip").first.click()
    expect(chapter(page, "scores")).to_contain_text("The query of “The”")
    expect(chapter(page, "softmax").get_by_role("button", name="Fewer tokens")).to_be_visible()


def test_own_sentence_is_followed(reader: Reader, page: Page, api: Api) -> None:
    opened(reader)
    text = "The dog sleeps."
    reader.unfold("#choice details")
    page.get_by_label("Sentence of the story, in English").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator(".followed")).to_have_text(f"You follow “The” in the sentence “{text}”")
    tokens = api.attention(text)["source"]["tokens"]
    expect(page.locator("label.chip")).to_have_count(len(tokens))


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
    assert column(story, "values", 1) == weights
    firsts = ["".join(decimal(value) for value in row["value"][:3]) for row in rows]
    assert column(story, "values", 2) == firsts
    top = sorted(rows, key=lambda row: -row["weight"])
    rest = np.sum([row["value"] for row in top[3:]], axis=0).tolist()
    parts = [row["value"] for row in top[:3]]
    assert_vectors(story, "sum", [*parts, rest, reply["z"]])
    q, k = reply["vectors"]["q"], reply["vectors"]["k"][top[0]["key"]]
    products = " + ".join(f"{decimal(a)} × {decimal(b)}" for a, b in zip(q[:3], k[:3], strict=True))
    expect(chapter(story, "scores")).to_contain_text(f"{products} + … = {decimal(top[0]['score'])}")


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
    assert column(story, "decoder", 1) == [percent(share) for share in row]
    expect(chapter(story, "decoder").locator(".chip.here")).to_have_text("▁eles")
    likeliest = sentence["probabilities"]["likeliest"]
    assert column(story, "words", 0) == likeliest["tokens"][place]
    probabilities = [percent(math.exp(log)) for log in likeliest["log_probs"][place]]
    assert column(story, "words", 1) == probabilities
    expect(chapter(story, "words")).to_contain_text(f"took “eles”, with {probabilities[0]}")
    expect(chapter(story, "words").locator("details")).to_contain_text(
        f"wrote “eles”, one of its heads gave {percent(row.max())} to “they”."
    )


def test_wrong_sense_of_a_word_is_explained_with_the_servers_numbers(story: Page, api: Api) -> None:
    shown = chapter(story, "pool")
    expect(shown.get_by_role("heading")).to_have_text("Why “piscina”?")
    whole = api.attention(POOL, kinds=["encoder"], layers="all", reduce="none", level="word")
    item = api.attention(POOL, probabilities={"top_k": 4})
    likeliest = item["probabilities"]["likeliest"]
    assert column(story, "pool", 0) == likeliest["tokens"][0]
    assert column(story, "pool", 1) == [percent(math.exp(x)) for x in likeliest["log_probs"][0]]
    most = np.array(whole["attentions"][0]["data"])[:, :, 0, 2].max()
    expect(shown).to_contain_text(f"gives {percent(float(most))} from “pool” to “badminton”")
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
        expect_step(page, STEPS.index(step) + 1)
        expect(chapter(page, step).locator("h3")).to_be_focused()
    links.nth(4).press("Enter")  # of the step that is still the current one
    expect_step(page, STEPS.index("words") + 1)


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
    expect_chapters(page, MAIN)
    link = page.locator("#more a", has_text=text).first
    address = link.get_attribute("href") or ""
    link.click()
    expect(page.locator("label.chip")).to_have_count(len(api.attention(text)["source"]["tokens"]))
    expect_step(page, MAIN.index(step) + 1, MAIN)
    reader.go(f"/{address}")  # in another tab
    expect(page.get_by_label("Sentence of the story, in English")).to_have_value(text)
    expect_step(page, MAIN.index(step) + 1, MAIN)


def test_example_opens_in_the_translator(reader: Reader, page: Page) -> None:
    opened(reader)
    page.locator("#more li", has_text="in Translate").get_by_role("link").click()
    expect(reader.field).to_have_value(KIDS)
    assert reader.chosen("way") == "translate"


@pytest.mark.parametrize("options", [{"locale": "pt-BR", "reduced_motion": "reduce"}])
def test_story_speaks_portuguese(reader: Reader, page: Page) -> None:
    page.goto("/#way=understand&step=roles")
    title = "Três papéis: consulta, chave, valor"
    expect(page.get_by_role("heading", name=title)).to_be_focused()
    expect(page.locator(".pager p")).to_contain_text("Passo 1 de 7")
    expect(chapter(page, "softmax").locator("summary")).to_have_text(
        ["Por que a raiz de 32?", "Mais sobre este passo"]
    )
    expect(page.get_by_role("heading", name="Atenção em cinco frases")).to_be_visible()


def test_story_says_what_takes_up_the_written_words(reader: Reader, page: Page, api: Api) -> None:
    """It described self-attention, which decoders of Firefox's models do not have."""
    assert "decoder" not in api.shape()
    opened(reader)
    for name in ("decoder", "words"):
        expect(chapter(page, name)).to_contain_text("no self-attention for the words")
    expect(chapter(page, "softmax")).to_contain_text("training, which follows slopes")
    expect(chapter(page, "forward")).to_contain_text("a bend sets numbers below 0")
    models = api.get("/v1/models")
    for model in models["data"]:
        if model["id"] == "en-pt":
            model["attention"]["decoder"] = {"layers": 2, "heads": 8}
    page.route("**/v1/models", lambda route: route.fulfill(json=models))
    page.reload()
    expect(chapter(page, "decoder")).to_contain_text("self-attention with a mask. You see")


def test_server_without_english_says_so(reader: Reader, page: Page, api: Api) -> None:
    languages = [entry for entry in api.get("/languages") if entry["code"] != "en"]
    page.route("**/languages", lambda route: route.fulfill(json=languages))
    page.goto("/#way=understand")
    expect(page.locator("#story [role=status]")).to_contain_text("does not translate from English")
    expect(page.locator(".story")).to_be_hidden()


def test_example_opens_a_search_in_translate(reader: Reader, page: Page) -> None:
    opened(reader)
    page.locator("#more a", has_text=POOL).click()
    expect(reader.field).to_have_value(POOL)
    expect(page.locator("#search-words")).to_contain_text("“pool” → “badminton”")
    best = page.locator("#search-ranked button").first
    expect(best).to_contain_text("Layer 2, head 2: ")
    expect(best).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#search > summary")).to_be_in_viewport()


def sentences(page: Page, names: tuple[str, ...]) -> dict[str, int]:
    texts = {
        name: chapter(page, name).locator(".content > p:not(.sum, .chips)").all_inner_texts()
        for name in names
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
    expect_chapters(page, MAIN)
    expect(page.locator("#cause")).to_be_visible()
    words = sentences(page, MAIN)
    assert all(0 < count <= MAX_WORDS for count in words.values()), words
    assert page.evaluate("document.documentElement.scrollHeight") <= MAX_HEIGHT


@pytest.mark.parametrize("names", [MAIN, STEPS], ids=["main", "all"])
def test_story_says_how_long_it_takes(reader: Reader, page: Page, names: tuple[str, ...]) -> None:
    reader.open(way="understand", whole="yes" if names is STEPS else "no")
    expect_chapters(page, names)
    minutes = sum(sentences(page, names).values()) / WORDS_A_MINUTE + len(names) * LOOK_MINUTES
    assert minutes == pytest.approx(MINUTES[names], rel=0.15)
    expect_no_step(page, names)
    label = "Main steps" if names is MAIN else "All steps"
    expect(page.locator("#extent")).to_contain_text(
        f"{label}: {len(names)}, about {MINUTES[names]} minutes"
    )


def test_progress_is_seen_in_a_bar(reader: Reader, page: Page) -> None:
    reader.open(way="understand", step="sum")
    expect_step(page, MAIN.index("sum") + 1, MAIN)
    bar = page.locator(".pager progress")
    assert bar.evaluate("bar => [bar.value, bar.max]") == [MAIN.index("sum") + 1, len(MAIN)]
    page.evaluate("scrollTo(0, 0)")
    expect_no_step(page, MAIN)
    assert bar.evaluate("bar => bar.value") == 0


def test_folds_of_a_step_are_closed_and_open_by_keyboard(reader: Reader, page: Page) -> None:
    """An open fold stays open for another token, and closes no other."""
    reader.open(way="understand")
    expect_chapters(page, MAIN)
    folds = page.locator(".chapter details")
    assert folds.count() >= len(MAIN) - 2
    assert not folds.evaluate_all("all => all.some(fold => fold.open)")
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
    expect(chapter(page, "roles").locator("details > p").first).to_be_hidden()


def test_fold_opens_where_it_stands(reader: Reader, page: Page) -> None:
    reader.open(way="understand", step="scores")
    expect(page.locator("#cause")).to_be_visible()  # above the story, nothing grows now
    expect_step(page, 2, MAIN)
    page.evaluate("scrollBy(0, -200)")
    summary = chapter(page, "roles").locator("summary")
    expect(summary).to_be_in_viewport()
    expect_step(page, 2, MAIN)
    before = summary.bounding_box()
    summary.click()
    current = page.locator(".contents [aria-current=step]")
    expect(current).to_have_attribute("data-step", "roles")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert summary.bounding_box() == before


def test_link_to_another_step_keeps_all_steps(reader: Reader, page: Page) -> None:
    reader.open(way="understand", step="scale")
    expect_chapters(page, STEPS)
    expect_step(page, STEPS.index("scale") + 1)
    page.keyboard.press("ArrowLeft")
    expect_step(page, STEPS.index("scores") + 1)
    expect_chapters(page, STEPS)


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
