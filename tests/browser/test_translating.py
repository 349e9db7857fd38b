"""Typing, detection, swapping, other translations, copying."""

import json
import re
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.browser.conftest import Api, Watch
from tests.browser.reader import KIDS, POOL, TWO, Reader, posted, refuse_alignment

PORTUGUESE = "O gato sentou no tapete."


def test_text_is_translated_as_it_is_typed(reader: Reader, api: Api) -> None:
    reader.open().type("The cat")
    expect(reader.output).to_have_text(api.translate("The cat", "auto")["translatedText"])
    reader.type(" sat on the mat.")
    whole = api.translate("The cat sat on the mat.", "auto")["translatedText"]
    expect(reader.output).to_have_text(whole)


@pytest.mark.usefixtures("_own_profile")
def test_typing_is_not_answered_letter_by_letter(reader: Reader, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.install()
    reader.open()
    expect(page.locator("#sample .arcs")).to_be_visible()
    asked.clear()
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
    for letter in "The cat sat.":
        reader.type(letter)
        page.clock.run_for(100)
    assert not [url for url in asked if url.endswith("/translate")]
    with page.expect_request("**/translate") as only:
        page.clock.run_for(1000)
    assert posted(only.value)["q"] == "The cat sat."
    assert len([url for url in asked if url.endswith("/translate")]) == 1


def test_superseded_request_is_aborted(reader: Reader, page: Page, api: Api) -> None:
    """The first is held back for ever; its answer would be wrong by then."""
    held: list[Route] = []
    failed: list[Request] = []

    def hold_first(route: Route) -> None:
        if held:
            route.fallback()
        held.append(route)

    reader.open()
    expect(page.locator("#sample .arcs")).to_be_visible()
    page.route("**/translate", hold_first)
    page.on("requestfailed", lambda request: failed.append(request))
    with page.expect_request("**/translate"):
        reader.type("The")
    expect(reader.output).to_have_attribute("aria-busy", "true")
    with page.expect_event("requestfailed"):
        reader.type(" cat")
    assert [(posted(f)["q"], f.failure) for f in failed] == [("The", "net::ERR_ABORTED")]
    expect(reader.output).to_have_text(api.translate("The cat", "auto")["translatedText"])
    expect(reader.notice()).to_be_hidden()


@pytest.mark.usefixtures("_own_profile")
def test_control_enter_translates_at_once(reader: Reader, page: Page) -> None:
    page.clock.install()
    reader.open()
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)  # typing never comes to rest
    reader.type("The cat")
    with page.expect_request("**/translate"):
        reader.field.press("Control+Enter")


@pytest.mark.parametrize(("text", "name"), [(KIDS, "English"), (PORTUGUESE, "Portuguese")])
def test_detected_language_is_told(reader: Reader, page: Page, text: str, name: str) -> None:
    reader.open(target="en" if name == "Portuguese" else "pt").field.fill(text)
    expect(reader.source.locator(":checked")).to_have_text(f"{name} (detected)")


def test_target_flips_if_the_text_is_in_it(reader: Reader, api: Api) -> None:
    reader.open().field.fill(PORTUGUESE)
    hint = reader.page.locator("#same")
    expect(hint).to_contain_text("already, so the translation is now into English.")
    expect(reader.target).to_have_value("en")
    expect(reader.output).to_have_text(api.translate(PORTUGUESE, "pt", "en")["translatedText"])
    reader.field.fill(KIDS)
    expect(hint).to_contain_text("This is English already")
    expect(reader.target).to_have_value("pt")
    expect(reader.output).to_have_text(api.translate(KIDS)["translatedText"])


def test_text_in_the_target_language_is_offered_the_other(reader: Reader, api: Api) -> None:
    reader.open().field.fill(PORTUGUESE)
    expect(reader.target).to_have_value("en")
    reader.target.select_option("pt")
    expect(reader.page.locator("#same")).to_contain_text("This is Portuguese already.")
    expect(reader.page.locator("#look-empty")).to_contain_text("nothing to look into")
    reader.button("Translate to English").click()
    expect(reader.target).to_have_value("en")
    expect(reader.output).to_have_text(api.translate(PORTUGUESE, "pt", "en")["translatedText"])


def test_swapping_takes_the_translation_back(reader: Reader, api: Api) -> None:
    there = api.translate(KIDS)["translatedText"]
    back = api.translate(there, "pt", "en")["translatedText"]
    reader.open().field.fill(KIDS)
    expect(reader.output).to_have_text(there)
    reader.button("Swap languages").click()
    expect(reader.source).to_have_value("pt")
    expect(reader.target).to_have_value("en")  # what had been detected
    expect(reader.field).to_have_value(there)
    expect(reader.output).to_have_text(back)


def test_choosing_the_same_language_twice_is_not_possible(reader: Reader) -> None:
    reader.open()
    reader.source.select_option("pt")
    expect(reader.target).to_have_value("en")
    assert reader.target.locator("option").all_text_contents() == ["English"]


@pytest.mark.parametrize("text", [KIDS, POOL, "Hi, How are you?"])
def test_example_is_one_click_away(reader: Reader, api: Api, text: str) -> None:
    reader.open().button(text).click()
    expect(reader.field).to_have_value(text)
    expect(reader.source).to_have_value("en")
    expect(reader.output).to_have_text(api.translate(text)["translatedText"])
    reader.until_shown()


def test_clearing_leaves_an_empty_page(reader: Reader, page: Page) -> None:
    reader.read()
    reader.button("Clear").click()
    expect(reader.field).to_be_focused()
    expect(reader.field).to_have_value("")
    expect(reader.output).to_be_empty()
    for part in ("#look-body", "#after", "#translate-curl", "#steps"):
        expect(page.locator(part)).to_be_hidden()


def test_text_typed_before_the_page_is_built_is_kept(reader: Reader, page: Page, api: Api) -> None:
    """It was replaced by the text of the view, which is empty."""
    held: list[Route] = []
    page.route("**/app.js", lambda route: held.append(route))
    with page.expect_request("**/app.js"):
        page.goto("/", wait_until="commit")
    reader.type(POOL)
    held[0].continue_()
    expect(reader.output).to_have_text(api.translate(POOL, "auto")["translatedText"])
    expect(reader.field).to_have_value(POOL)
    page.route("**/languages", lambda route: held.append(route))
    page.unroute("**/app.js")
    with page.expect_request("**/languages"):
        page.reload()
    reader.type(POOL)
    page.unroute("**/languages")
    reader.choose("language", "pt")  # loads the page again, before it has the languages
    field = page.get_by_role("textbox", name="Texto para traduzir")
    expect(field).to_have_value(POOL)
    expect(reader.output).to_have_text(api.translate(POOL, "auto")["translatedText"])


def test_text_that_was_replaced_comes_back(reader: Reader, page: Page, api: Api) -> None:
    """Clear and the examples replaced a text for good."""
    reader.open(text=POOL, source="en")
    undo = reader.button("Undo")
    expect(undo).to_be_hidden()
    for replace in (reader.button("Clear"), reader.button("Hi, How are you?")):
        for is_key in (False, True):
            replace.click()
            expect(reader.field).not_to_have_value(POOL)
            if is_key:
                reader.field.press("Control+z")
            else:
                undo.click()
            expect(reader.field).to_have_value(POOL)
            expect(reader.output).to_have_text(api.translate(POOL)["translatedText"])
            expect(undo).to_be_hidden()
    reader.button("Clear").click()
    reader.type("The cat")
    expect(undo).to_be_hidden()


@pytest.mark.parametrize("is_secure", [True, False], ids=["secure", "plain http"])
def test_copy_copies_the_translation(reader: Reader, page: Page, api: Api, is_secure: bool) -> None:
    """Over plain http on a local network, there is no navigator.clipboard."""
    page.add_init_script("window.clipboard = navigator.clipboard")
    if not is_secure:
        page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    reader.read()
    reader.button("Copy").click()
    expect(reader.button("Copied")).to_be_visible()
    assert page.evaluate("clipboard.readText()") == api.translate(KIDS)["translatedText"]


def test_other_translation_can_be_looked_into(reader: Reader, page: Page, api: Api) -> None:
    reader.read()
    own = api.translate(KIDS)["translatedText"]
    found = api.translate(KIDS, alternatives=3)
    other = next(t for t in [found["translatedText"], *found["alternatives"]] if t != own)
    reader.button("Other translations").click()
    with page.expect_request("**/attention") as asked:
        reader.button(other).click()
    assert posted(asked.value)["target_text"] == [other]
    expect(reader.output).to_have_text(other)
    expect(reader.button(other).first).to_have_attribute("aria-pressed", "true")
    expect(reader.button(other).first).to_be_focused()
    words = api.attention(KIDS, target_text=other, level="word")["target"]["tokens"]
    expect(reader.map.locator("text[data-label^='row-']")).to_have_text([*words[:-1], "⟨end⟩"])
    expect(reader.output.get_by_role("button")).to_have_text(words[:-1])
    reader.button(own).click()
    expect(reader.output).to_have_text(own)


def test_other_translation_of_one_sentence_can_be_taken(
    reader: Reader, page: Page, api: Api
) -> None:
    """Those of several sentences were shown as whole texts, and none of them could be chosen."""
    reader.read(TWO, others="yes")
    own = reader.output.text_content() or ""
    first, second = own.split(". ")
    for name, sentence, shown in (
        ("first", TWO.split(". ")[0] + ".", first + "."),
        ("last", "It slept.", second),
    ):
        word = reader.output.get_by_role("button")
        (word.first if name == "first" else word.nth(-2)).click()
        page.keyboard.press("Escape")  # the list of candidates lies over the others
        expect(page.locator("#others-of")).to_contain_text(f"“{sentence}”")
        found = api.translate(sentence, alternatives=3)
        texts = dict.fromkeys([shown, found["translatedText"], *found["alternatives"]])
        expect(page.locator("#alternatives button")).to_have_text([*texts])
        other = [*texts][1]
        reader.button(other).click()
        own = own.replace(shown, other)
        expect(reader.output).to_have_text(own)
        expect(reader.button(other)).to_have_attribute("aria-pressed", "true")
        expect(reader.button(other)).to_be_focused()
    reader.button("The model’s own translation").click()
    expect(reader.output).to_have_text(api.translate(TWO)["translatedText"])


def test_other_translation_of_a_text_without_aligned_words_is_taken_whole(
    reader: Reader, page: Page, api: Api, watch: Watch
) -> None:
    watch.allow("Failed to load resource")
    refuse_alignment(page)
    reader.open(text=TWO, source="en", others="yes")
    plain = api.translate(TWO, return_alignment=False, alternatives=3)
    other = next(t for t in plain["alternatives"] if t != reader.output.text_content())
    reader.button(other).click()
    expect(reader.output).to_have_text(other)
    expect(reader.button(other)).to_have_attribute("aria-pressed", "true")


def shell_words(command: str) -> list[str]:
    script = f'curl() {{ printf "%s\\0" "$@"; }}\n{command}'
    result = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    return result.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    "text",
    [
        KIDS,
        "It's \"5 $HOME\" `ls` $(ls) \\ and !\n\nA second\tline; 100 % 'quoted' '' é 🦁.",
        "-d @/etc/passwd",
    ],
)
def test_curl_command_repeats_the_request_and_is_copied_whole(
    reader: Reader, page: Page, address: str, text: str
) -> None:
    with page.expect_request("**/translate") as asked:
        reader.open(text=text, source="en")
    expect(page.locator("#translate-curl")).to_be_visible()
    url, *options = shell_words(reader.command("translate"))
    assert url == f"{address}/translate"
    assert options[:2] == ["-H", "Content-Type: application/json"]
    body: dict[str, Any] = json.loads(options[3])
    assert options[2] == "-d"
    assert body == posted(asked.value)
    assert body["q"] == text
    page.locator("#translate-curl summary").click()
    page.locator("#translate-curl").get_by_role("button").click()
    expect(reader.button("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == reader.command("translate")


def test_words_that_differ_are_marked(reader: Reader, page: Page, api: Api) -> None:
    reader.read(KIDS, others="yes")
    rows = page.locator("#alternatives button")
    expect(rows).not_to_have_count(1)
    own = {*re.findall(r"\w+", api.translate(KIDS)["translatedText"])}
    expect(rows.first.locator("mark")).to_have_count(0)
    for row in rows.all()[1:]:
        words = re.findall(r"\w+", row.text_content() or "")
        assert row.locator("mark").all_text_contents() == [w for w in words if w not in own]


@pytest.mark.parametrize("remembered", [{}])
def test_letters_shrink_in_long_texts_which_scroll_together(reader: Reader, page: Page) -> None:
    """They stayed at 26 pixels, and each pane scrolled alone."""
    sizes = []
    for count in (1, 4, 60):
        reader.open()
        reader.field.fill(f"{KIDS} " * count)
        sizes.append(reader.field.evaluate("e => parseFloat(getComputedStyle(e).fontSize)"))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] > sizes[2] == 16
    expect(reader.button("Copy")).to_be_enabled()
    share = "e => e.scrollTop / (e.scrollHeight - e.clientHeight)"
    panes = [page.locator(".writing"), reader.output]
    for scrolled, other in (panes, panes[::-1]):
        scrolled.hover()
        page.mouse.wheel(0, 150)
        page.wait_for_function(f"e => ({share})(e) > 0", arg=scrolled.element_handle())
        page.evaluate("new Promise((done) => setTimeout(() => requestAnimationFrame(done), 200))")
        assert other.evaluate(share) == pytest.approx(scrolled.evaluate(share), abs=0.01)
    text, translation = (pane.bounding_box() for pane in panes)
    assert text is not None
    assert translation is not None
    assert text["height"] < 900 / 2


def test_translation_is_read_aloud_and_shared(reader: Reader, page: Page, api: Api) -> None:
    """Chromium without a screen has no voice and shares nothing; both are the browser's own."""
    page.add_init_script(
        """window.calls = [];
        speechSynthesis.speak = ({ text, lang }) => calls.push([text, lang]);
        navigator.share = ({ text, url }) => Promise.resolve(calls.push([text, url]));"""
    )
    reader.read(POOL)
    shown = api.translate(POOL)["translatedText"]
    reader.button("Listen").click()
    reader.button("Share").click()
    assert page.evaluate("calls") == [[shown, "pt"], [shown, page.url]]
    assert "text=pool" in page.url


def test_reading_aloud_can_be_stopped(reader: Reader, page: Page) -> None:
    """Nothing showed that the page was speaking, and a new text did not end it."""
    page.add_init_script(
        """window.speeches = [];
        speechSynthesis.speak = (speech) => speeches.push(speech);
        speechSynthesis.cancel = () => speeches.push('cancelled');"""
    )
    reader.read(POOL)
    listen, stop = reader.button("Listen"), reader.button("Stop")
    listen.click()
    stop.click()
    expect(listen).to_be_focused()
    listen.click()
    expect(stop).to_be_visible()
    page.evaluate("speeches[0].onend()")  # the first was stopped before
    expect(stop).to_be_visible()
    page.evaluate("speeches.at(-1).onend()")
    expect(listen).to_be_visible()
    listen.click()
    reader.choose("way", "documents").choose("way", "translate")
    expect(listen).to_be_visible()
    listen.click()
    reader.field.fill(KIDS)
    expect(listen).to_be_visible()
    assert page.evaluate("speeches.at(-1)") == "cancelled"


def test_history_stays_in_the_browser_and_can_be_forgotten(reader: Reader, page: Page) -> None:
    reader.open()
    history = page.locator("#history")
    expect(history).to_be_hidden()
    for text in ("The cat", "The cat slept.", POOL):  # the first is the beginning of the second
        reader.field.fill(text)
        expect(history.locator("li button").first).to_have_text(text)
    page.reload()
    history.locator("summary").click()
    expect(history.locator("li button")).to_have_text([POOL, "The cat slept."])
    history.get_by_role("button", name="The cat slept.").click()
    expect(reader.field).to_have_value("The cat slept.")
    expect(reader.source).to_have_value("en")
    history.get_by_role("button", name="Forget all of it").click()
    expect(history).to_be_hidden()
    assert page.evaluate("localStorage.getItem('regard-history')") == "[]"
