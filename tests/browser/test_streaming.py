"""A translation grows sentence by sentence; a new text or a fault ends the stream before it."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api, Watch
from tests.browser.reader import KIDS, PHONE, POOL, TWO, Reader, box_of, refuse_alignment

LONG = " ".join(f"The cat sat on the mat. The {number} lions left." for number in range(1, 25))
FAULT = {
    "error": "the server failed; the log has this request's id",
    "error_type": "internal",
    "request_id": "5f2c6f0e8d7b4a53",
}

GATE = """
// Of each translation, only the first line passes before the test opens the gate.
window.aborted = [];
const gate = new Promise((resolve) => (window.openGate = resolve));
const plain = window.fetch;
window.fetch = async (address, options) => {
  const response = await plain(address, options);
  if (!String(address).endsWith('/translate')) return response;
  const { q } = JSON.parse(options.body);
  options.signal.addEventListener('abort', () => window.aborted.push(q));
  let isFirst = true;
  const held = new TransformStream({
    async transform(line, controller) {
      if (!isFirst && q === window.held) await gate;
      isFirst = false;
      controller.enqueue(line);
    },
  });
  const lines = new TransformStream({
    start() { this.rest = ''; },
    transform(chunk, controller) {
      const found = (this.rest + chunk).split('\\n');
      this.rest = found.pop();
      for (const line of found) controller.enqueue(line + '\\n');
    },
  });
  const text = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(lines);
  return new Response(text.pipeThrough(held).pipeThrough(new TextEncoderStream()), response);
};
"""

OBSERVE = """
() => {
  const output = document.getElementById('output');
  window.states = [];
  new MutationObserver(() => window.states.push(output.textContent))
    .observe(output, { childList: true, characterData: true, subtree: true });
}
"""


def gated(page: Page, text: str) -> None:
    """Holds back all but the first sentence of a text."""
    page.add_init_script(GATE)
    page.add_init_script(f"window.held = {json.dumps(text)}")


def first_of(api: Api, text: str) -> str:
    """The translation of the first sentence of a text, without the space after it."""
    reply = api.translate(text)
    end: int = reply["alignment"][0]["target_words"][-1][1]
    own: str = reply["translatedText"][:end]
    return own


def test_first_sentence_is_shown_before_the_last_comes(
    reader: Reader, page: Page, api: Api
) -> None:
    gated(page, LONG)
    reader.open(text=LONG, source="en")
    expect(reader.output).to_have_text(first_of(api, LONG))
    expect(reader.output).to_have_attribute("aria-busy", "true")
    expect(reader.output).to_have_css("opacity", "1")
    reader.output.get_by_role("button").nth(1).hover()
    assert reader.lit("mirror")
    expect(page.locator("#after")).to_be_hidden()
    page.evaluate("openGate()")
    whole = api.translate(LONG)
    expect(reader.output).to_have_text(whole["translatedText"])
    expect(reader.output).to_have_attribute("aria-busy", "false")
    num_words = sum(len(sentence["target_words"]) for sentence in whole["alignment"])
    expect(reader.output.get_by_role("button")).to_have_count(num_words)
    expect(reader.field).to_have_value(LONG)
    expect(page.locator("#mirror")).to_have_text(LONG)


def test_translation_grows_at_its_end(reader: Reader, page: Page, api: Api) -> None:
    reader.open(source="en")
    page.evaluate(OBSERVE)
    reader.field.fill(LONG)
    whole = api.translate(LONG)["translatedText"]
    expect(reader.output).to_have_text(whole)
    states: list[str] = page.evaluate("states")
    assert all(after.startswith(before) for before, after in zip(states, states[1:], strict=False))
    assert {first_of(api, LONG), whole} <= {state.strip() for state in states}


def test_new_text_cancels_the_stream(reader: Reader, page: Page, api: Api) -> None:
    gated(page, TWO)
    reader.open(source="en")
    reader.field.fill(TWO)
    expect(reader.output).to_have_text(first_of(api, TWO))
    reader.field.fill(KIDS)
    own = api.translate(KIDS)["translatedText"]
    expect(reader.output).to_have_text(own)
    assert page.evaluate("aborted") == [TWO]
    page.evaluate("openGate()")
    reader.until_shown()
    expect(reader.output).to_have_text(own)
    expect(reader.output).to_have_attribute("aria-busy", "false")
    expect(reader.notice()).to_be_hidden()


def test_text_without_aligned_words_is_translated(
    reader: Reader, page: Page, api: Api, watch: Watch
) -> None:
    watch.allow("Failed to load resource")
    refuse_alignment(page)
    reader.open(text=POOL, source="en")
    whole = api.translate(POOL, return_alignment=False)["translatedText"]
    expect(reader.output).to_have_text(whole)
    expect(reader.output.get_by_role("button")).to_have_count(0)
    expect(page.locator("#translate-curl")).to_be_visible()
    assert "return_alignment" not in reader.command("translate")
    expect(reader.notice()).to_be_hidden()


def line(text: str) -> dict[str, Any]:
    return {"input": 0, "sentence": 0, "translatedText": text, "alignment": []}


@pytest.mark.parametrize(
    ("events", "title", "reference"),
    [
        ([line("Um. "), FAULT], "The server failed.", "Reference 5f2c6f0e8d7b4a53"),
        ([line("Um. ")], "The server cannot be reached.", ""),
    ],
)
def test_fault_within_a_stream_is_told_in_words(
    reader: Reader, page: Page, api: Api, events: list[dict[str, Any]], title: str, reference: str
) -> None:
    body = "".join(json.dumps(event) + "\n" for event in events)
    page.route(
        "**/translate", lambda route: route.fulfill(body=body, content_type="application/x-ndjson")
    )
    reader.open(text=POOL, source="en")
    expect(reader.notice().get_by_role("alert")).to_contain_text(title)
    expect(reader.notice()).to_contain_text(reference)
    expect(reader.output).to_have_text("Um.")
    expect(reader.output).to_have_class("stale")
    page.unroute("**/translate")
    if reference:  # a lost connection is tried again by itself
        reader.notice().get_by_role("button", name="Try again").click()
    expect(reader.output).to_have_text(api.translate(POOL)["translatedText"])
    expect(reader.output).not_to_have_class("stale")
    expect(reader.notice()).to_be_hidden()


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("remembered", [{}])
def test_output_stays_in_its_place_while_a_translation_comes(
    reader: Reader, page: Page, api: Api
) -> None:
    """The bar of progress moved it down and up again, and on a phone the detected language too."""
    gated(page, TWO)
    reader.open()
    place = box_of(reader.output)["y"]
    reader.field.fill(TWO)
    expect(reader.output).to_have_text(first_of(api, TWO))
    expect(page.locator("#progress")).to_be_visible()
    expect(reader.source.locator(":checked")).to_have_text("English (detected)")
    assert box_of(reader.output)["y"] == place
    page.evaluate("openGate()")
    expect(page.locator("#progress")).to_be_hidden()
    assert box_of(reader.output)["y"] == place
