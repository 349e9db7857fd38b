"""How fast the page is: the only tests of the page that measure time.

The limits are those of a machine with two cores. A measurement is taken in the browser, and the
best of three counts: other work on the machine can only make it slower.
"""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.reader import Reader

pytestmark = pytest.mark.browser

WORDS = 3_000
DOCUMENT = " ".join(
    f"The {n} lions left, and the cat sat on the mat." for n in range(WORDS // 11 + 1)
)
LONG_TASKS = """
window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration)))
    .observe({ type: 'longtask', buffered: true });
"""
FIRST_SENTENCE = """() => {
    const [field, output] = [document.getElementById('text'), document.getElementById('output')];
    window.first = null;
    new MutationObserver(() => (window.first ??= performance.now() - window.started))
        .observe(output, { childList: true, subtree: true, characterData: true });
    field.addEventListener('paste', () => (window.started = performance.now()), { once: true });
}"""
NOTE = """() => {
    const [field, note] = [document.getElementById('text'), document.getElementById('limit-note')];
    window.answered = null;
    new MutationObserver(() => requestAnimationFrame(() => {
        window.answered ??= performance.now() - window.started;
    })).observe(note, { attributes: true });
    field.addEventListener('paste', () => (window.started = performance.now()), { once: true });
}"""


def best(measure: Callable[[], float], limit: float) -> float:
    """The best of at most three measurements; the first below the limit ends them."""
    found = measure()
    for _ in range(2):
        if found < limit:
            break
        found = min(found, measure())
    return found


def paste(reader: Reader, text: str) -> None:
    """Pastes a text as a person would."""
    reader.page.evaluate("text => navigator.clipboard.writeText(text)", text)
    reader.field.focus()
    reader.page.keyboard.press("Control+v")


def test_page_stands_within_a_second(reader: Reader, page: Page) -> None:
    """From the start of loading until the languages are there and a text can be translated."""

    def measure() -> float:
        reader.open()
        page.goto("about:blank")
        reader.open()
        now: float = page.evaluate("performance.now()")
        return now

    assert best(measure, 1000) < 1000


@pytest.mark.parametrize("remembered", [{}])
def test_long_document_begins_at_once_and_freezes_nothing(reader: Reader, page: Page) -> None:
    page.add_init_script(LONG_TASKS)
    assert len(DOCUMENT.split()) >= WORDS

    def measure() -> float:
        page.goto("about:blank")
        reader.open()
        page.evaluate(FIRST_SENTENCE)
        paste(reader, DOCUMENT)
        expect(reader.button("Copy")).to_be_enabled()
        first: float = page.evaluate("first")
        return first

    assert best(measure, 1000) < 1000
    tasks: list[Any] = page.evaluate("tasks")
    assert max(tasks, default=0) < 1000
    height, screen = page.evaluate("[document.documentElement.scrollHeight, innerHeight]")
    assert height < 3 * screen


def test_paste_of_two_megabytes_is_answered(reader: Reader, page: Page) -> None:
    def measure() -> float:
        page.goto("about:blank")
        reader.open()
        page.evaluate(NOTE)
        paste(reader, "lion " * 400_000)
        expect(page.locator("#limit-note")).to_be_visible()
        page.wait_for_function("answered !== null")
        answered: float = page.evaluate("answered")
        return answered

    assert best(measure, 100) < 100
