"""Measures in a Chromium how fast the page of Regard is.

    make browser
    python -m benchmarks.page --rounds 5

Prints the median of each figure in milliseconds:

- ready: from the start of loading until a text can be translated.
- first load: the same for a browser that has no file of the page yet. A reply takes 150 ms, and
  200 kB come in a second. The number of requests and the bytes are those of this load.
- first sentence: from the paste of a document of 3,000 words until the first sentence is shown.
- longest task: the longest time for which the page answers no input while that document is
  translated.
- paste of 2 MB: from the paste until the page says that the text was too long.
"""

import statistics
import sys
from collections import defaultdict

from playwright.sync_api import Browser, Page, expect

from benchmarks.chromium import NAMES, find_chromium, running_chromium
from benchmarks.options import command_line
from service.files.private_server import running_server

NUM_WORDS = 3_000
DOCUMENT = " ".join(
    f"The {n} lions left, and the cat sat on the mat." for n in range(NUM_WORDS // 11 + 1)
)
TWO_MEGABYTES = "lion " * 400_000
LIMIT_MILLISECONDS = 120_000
SLOW = {
    **{"offline": False, "latency": 150},
    **{"downloadThroughput": 200_000, "uploadThroughput": 200_000},
}
"""Latency in milliseconds, throughput in bytes a second."""

OBSERVE_TASKS = """
window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration)))
    .observe({ type: 'longtask', buffered: true });
"""
OBSERVE = """(id) => {
    const [field, node] = [document.getElementById('text'), document.getElementById(id)];
    let started = null;
    field.addEventListener('paste', () => (started = performance.now()), { once: true });
    window.milliseconds = new Promise((resolve) => {
        new MutationObserver(() => {
            if (node.hidden || node.textContent.trim() === '') return;
            requestAnimationFrame(() => resolve(performance.now() - started));
        }).observe(node, { attributes: true, childList: true, subtree: true, characterData: true });
    });
}"""
"""Takes the time from the next paste to the frame in which an element first shows a text."""


def open_page(page: Page, address: str) -> float:
    """Loads the page anew, and returns the milliseconds until its languages are there."""
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_label("Language of the translation")).to_have_value("pt")
    milliseconds: float = page.evaluate("performance.now()")
    return milliseconds


def paste(page: Page, text: str, shown: str) -> float:
    """Pastes a text, and returns the milliseconds until an element shows a text."""
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.evaluate(OBSERVE, shown)
    page.get_by_role("textbox", name="Text to translate").focus()
    page.keyboard.press("Control+v")
    milliseconds: float = page.evaluate("milliseconds")
    return milliseconds


def measure(page: Page, address: str) -> dict[str, float]:
    ready = open_page(page, address)
    first = paste(page, DOCUMENT, "output")
    expect(page.get_by_role("button", name="Copy", exact=True)).to_be_enabled()
    tasks: list[float] = page.evaluate("tasks")
    open_page(page, address)
    answered = paste(page, TWO_MEGABYTES, "limit-note")
    return {
        "ready": ready,
        "first sentence": first,
        "longest task": max(tasks, default=0.0),
        "paste of 2 MB": answered,
    }


def measure_first_load(browser: Browser, address: str) -> tuple[float, int, int]:
    """Returns the milliseconds, the number of requests and the bytes of a first load."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", SLOW)
    sizes: list[int] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    milliseconds = open_page(page, address)
    page.wait_for_load_state("networkidle")
    context.close()
    return milliseconds, len(sizes), sum(sizes)


def main() -> int:
    parser = command_line("page", __doc__)
    parser.add_argument("--url", help="server to measure; without it, one is started")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    path = find_chromium()
    if path is None:
        print(f"none of {', '.join(NAMES)} is installed: run `make browser`", file=sys.stderr)
        return 1
    figures = defaultdict(list)
    expect.set_options(timeout=LIMIT_MILLISECONDS)
    with running_server(args.url) as address, running_chromium(path, address) as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        context.set_default_timeout(LIMIT_MILLISECONDS)
        context.add_init_script(OBSERVE_TASKS)
        page = context.new_page()
        open_page(page, address)  # fills the caches
        for _ in range(args.rounds):
            for name, value in measure(page, address).items():
                figures[name].append(value)
        loads = [measure_first_load(browser, address) for _ in range(args.rounds)]
    figures["first load"] = [milliseconds for milliseconds, *_ in loads]
    for name, values in figures.items():
        print(
            f"{name:<15} {statistics.median(values):6.0f} ms  {min(values):.0f}–{max(values):.0f}"
        )
    print(f"{'first load':<15} {loads[-1][1]} requests, {loads[-1][2] / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
