"""axe-core finds nothing in any state of the page, in light and in dark.

A state is a function in STATES that brings the page there. A state that needs another browser names
its options in OPTIONS, and one that needs a first visit stands in FIRST_VISITS.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import DEFAULT_OPTIONS, Axe
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Watch
from tests.browser.reader import KIDS, POOL, Reader

LONG = " ".join(f"The cat sat on the mat. The {number} lions left." for number in range(1, 40))
FIRST_LINE = json.dumps({"input": 0, "sentence": 0, "translatedText": "O gato.", "alignment": []})


def empty(reader: Reader) -> None:
    reader.open()


def translated(reader: Reader) -> None:
    reader.open(text=KIDS, source="en")
    expect(reader.button("Copy")).to_be_visible()


def alternatives(reader: Reader) -> None:
    reader.read(KIDS, others="yes")
    expect(reader.page.locator("#alternatives button")).not_to_have_count(1)


def menus(reader: Reader) -> None:
    reader.open()
    reader.page.locator("[popovertarget=theme]").click()


def documents(reader: Reader) -> None:
    reader.page.goto("/#way=documents")
    expect(reader.page.locator(".drop")).to_be_visible()


def candidates(reader: Reader) -> None:
    translated(reader)
    reader.output.get_by_role("button").first.click()
    expect(reader.candidates.locator("li")).to_have_count(5)


def attention(reader: Reader) -> None:
    reader.read(POOL, look="yes", kind="encoder")
    reader.unfold_all()


def steps(reader: Reader) -> None:
    reader.read(POOL, layer=1, head=0, query=1, vectors="yes")
    expect(reader.page.locator("#steps-table tbody tr")).not_to_have_count(0)


def embedded(reader: Reader) -> None:
    """Of a server without an embedding model, this is the state `attention`."""
    reader.open(task="embed", text=POOL).until_shown()


def failed(reader: Reader) -> None:
    refusal = {"error": "not done in 60 s", "error_type": "deadline_exceeded"}
    reader.page.route("**/translate", lambda route: route.fulfill(status=504, json=refusal))
    reader.open(text=POOL, source="en")
    expect(reader.notice()).to_be_visible()


def too_long(reader: Reader) -> None:
    def limit(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | {"charLimit": 30})

    reader.page.route("**/frontend/settings", limit)
    reader.open(text=KIDS, source="en")
    expect(reader.page.locator("#limit-note")).to_be_visible()


def unserved(reader: Reader) -> None:
    reader.open().field.fill("Die Kinder hatten Angst vor den Löwen.")
    expect(reader.page.locator("#same")).to_be_visible()


def streaming(reader: Reader) -> None:
    """A stream that stays at its first sentence: the request is answered, but never ends."""
    body = json.dumps(FIRST_LINE)
    reader.page.add_init_script(
        f"""const plain = window.fetch;
        window.fetch = (address, options) => !String(address).endsWith('/translate')
            ? plain(address, options)
            : Promise.resolve(new Response(new ReadableStream({{
                start: (stream) => stream.enqueue(new TextEncoder().encode({body} + '\\n')),
            }})));"""
    )
    reader.open(text=LONG, source="en")
    expect(reader.page.locator("#progress")).to_be_visible()


def document(reader: Reader) -> None:
    reader.open(text=LONG, source="en")
    expect(reader.button("Copy")).to_be_visible()


def portuguese(reader: Reader) -> None:
    reader.page.goto(f"/#text={POOL}&source=en&look=yes")
    reader.until_shown()
    expect(reader.page.locator("html")).to_have_attribute("lang", "pt-BR")


def understanding(reader: Reader) -> None:
    reader.page.goto("/#way=understand")
    expect(reader.page.locator("html")).to_have_attribute("data-way", "understand")
    expect(reader.page.locator("#translate")).to_be_hidden()


def story_unfolded(reader: Reader) -> None:
    understanding(reader)
    expect(reader.page.locator("#switches")).to_be_visible()
    reader.page.locator("[data-part=roles]").click()
    reader.unfold_all()
    reader.page.locator("[data-chapter=roles] .term").first.click()
    expect(reader.page.locator(".meaning:popover-open")).to_have_count(1)


STATES: dict[str, Callable[[Reader], None]] = {
    **{
        each.__name__.replace("_", " "): each
        for each in (
            *(empty, menus, documents, alternatives, candidates, attention, steps, embedded),
            *(failed, too_long, unserved, streaming, document, portuguese, story_unfolded),
        )
    },
    "phone": attention,
    "high contrast": attention,
    "zoomed": attention,
    "story on a phone": story_unfolded,
    "story zoomed": story_unfolded,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "portuguese": {"locale": "pt-BR"},
    "phone": {"viewport": {"width": 375, "height": 800}, "has_touch": True},
    "high contrast": {"forced_colors": "active"},
    "zoomed": {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2},
    "story on a phone": {"viewport": {"width": 390, "height": 800}, "has_touch": True},
    "story zoomed": {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2},
}
RULES_OF_COLOURS = ("color-contrast", "link-in-text-block")
FIRST_VISITS = ("empty", "menus", "candidates", "unserved", "document")


def state_of(request: pytest.FixtureRequest) -> str:
    callspec = getattr(request.node, "callspec", None)
    return str(callspec.params["state"]) if callspec else ""


@pytest.fixture
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return OPTIONS.get(state_of(request), {})


@pytest.fixture
def remembered(request: pytest.FixtureRequest) -> dict[str, str]:
    is_first = state_of(request) in FIRST_VISITS
    return {} if is_first else {"regard-look": "open"}


def findings(page: Page, *rules: str) -> list[str]:
    """Returns the violations of some rules, or of all."""
    options: dict[str, Any] = {**DEFAULT_OPTIONS, **({"runOnly": rules} if rules else {})}
    violations = Axe().run(page, options=options).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:160]}: {node['failureSummary']}"
        for rule in violations
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("state", [*STATES])
def test_axe_finds_nothing(reader: Reader, page: Page, watch: Watch, state: str) -> None:
    watch.allow("Failed to load resource")
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    STATES[state](reader)
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert findings(page) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert findings(page, *RULES_OF_COLOURS) == []


def test_axe_finds_what_is_wrong(reader: Reader, page: Page) -> None:
    reader.open()
    page.evaluate(
        """() => {
            const [button, text] = [document.createElement('button'), document.createElement('p')];
            text.textContent = 'Pale';
            text.style.color = '#eeeeee';
            document.querySelector('main').append(button, text);
        }"""
    )
    rules = {finding.partition(":")[0] for finding in findings(page)}
    assert {"button-name", "color-contrast"} <= rules
