"""What goes wrong is told as a person would want it, with a way on."""

import json
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import Api, Watch
from tests.browser.reader import KIDS, POOL, Reader, posted

LOADING = "the models are loading"
FULL = "1024 requests are waiting already; try again in 3 s"


def refusing(status: int, error_type: str, message: str, **headers: str) -> Any:
    body = {"error": message, "error_type": error_type, "request_id": "5f2c6f0e8d7b4a53"}

    def refuse(route: Route) -> None:
        route.fulfill(
            status=status, headers=headers, body=json.dumps(body), content_type="application/json"
        )

    return refuse


@pytest.fixture(autouse=True)
def _expected(watch: Watch) -> None:
    """Chromium logs every refusal."""
    watch.allow("Failed to load resource")


REFUSALS = [
    (413, "too_large", "Invalid request: text (9) exceeds limit (5). Send less.",
     "That is too much at once.", "Text (9) exceeds limit (5). Send less."),
    (413, "too_large", "Invalid request: text (9) exceeds limit (5): raise REGARD_MAX_X.",
     "That is too much at once.", "Text (9) exceeds limit (5)"),
    (504, "deadline_exceeded", "not done in 60 s", "That took too long.", "A shorter text"),
    (500, "internal", "the server failed; the log has this request's id",
     "The server failed.", "The error has been logged, without your text."),
    (400, "unsupported_language", "zz is not supported; supported: en, pt",
     "That language is not served.", "Zz is not supported; supported: en, pt."),
    (500, "unknown", "", "The server failed.", "Trying again may help."),
    (404, "not_found", "there is no such model", "The server cannot do that.",
     "There is no such model."),
    (400, "invalid_request", "Invalid request: q is wrong",
     "The server cannot do that.", "Q is wrong."),
]  # fmt: skip


def test_refusal_is_told_in_words(reader: Reader, page: Page, api: Api) -> None:
    reader.open()
    alert = reader.notice().get_by_role("alert")
    texts = [POOL, KIDS] * 4
    for text, (status, error_type, message, title, detail) in zip(texts, REFUSALS, strict=True):
        page.route("**/translate", refusing(status, error_type, message))
        reader.field.fill(text)
        expect(alert).to_contain_text(title)
        expect(alert).to_contain_text(detail)
        expect(reader.notice()).to_contain_text("Reference 5f2c6f0e8d7b4a53")
        assert "{" not in (page.locator("main").inner_text())
        expect(alert).not_to_contain_text("REGARD_")
        page.unroute("**/translate")
        reader.notice().get_by_role("button", name="Try again").click()
        expect(reader.output).to_have_text(api.translate(text, "auto")["translatedText"])
        expect(reader.notice()).to_be_hidden()


@pytest.mark.usefixtures("_own_profile")
@pytest.mark.parametrize(
    ("status", "error_type", "message", "title"),
    [
        (429, "overloaded", FULL, "The server is busy."),
        (503, "unavailable", LOADING, "The server is not ready. The models are loading."),
    ],
)
def test_refusal_that_passes_is_tried_again_by_itself(
    reader: Reader, page: Page, api: Api, status: int, error_type: str, message: str, title: str
) -> None:
    page.clock.install()
    retry_after = {"Retry-After": "7"}
    page.route("**/translate", refusing(status, error_type, message, **retry_after))
    reader.open(text=POOL, source="en")
    expect(reader.notice().get_by_role("alert")).to_contain_text(title)
    expect(reader.notice()).to_contain_text("Trying again in 7 s")
    page.unroute("**/translate")
    page.clock.run_for(7000)
    expect(reader.output).to_have_text(api.translate(POOL)["translatedText"])
    expect(reader.notice()).to_be_hidden()


def test_waiting_can_be_cut_short(reader: Reader, page: Page, api: Api) -> None:
    page.route("**/translate", refusing(429, "overloaded", FULL, **{"Retry-After": "3600"}))
    reader.open(text=POOL, source="en")
    expect(reader.notice()).to_contain_text("Trying again in 3600 s")
    page.unroute("**/translate")
    reader.notice().get_by_role("button", name="Try now").click()
    expect(reader.output).to_have_text(api.translate(POOL)["translatedText"])


@pytest.mark.usefixtures("_own_profile")
def test_page_recovers_from_a_restart_by_itself(reader: Reader, page: Page, api: Api) -> None:
    """The notice stayed until the reader pressed its button; the waits double."""
    page.clock.install()
    asked: list[Route] = []

    def lose(route: Route) -> None:
        asked.append(route)
        if len(asked) < 4:
            route.abort() if len(asked) % 2 else route.fulfill(status=502, body="Bad Gateway")

    page.route("**/translate", lose)
    reader.open(text=POOL, source="en")
    for seconds in (2, 4, 8):
        expect(reader.notice()).to_contain_text(f"Trying again in {seconds} s")
        with page.expect_request("**/translate"):
            page.clock.run_for(1000 * seconds)
    expect(reader.notice()).to_contain_text("Trying again …")  # the fourth has no answer yet
    expect(page.locator("html")).to_have_attribute("data-pending", "")
    asked[-1].continue_()
    expect(reader.output).to_have_text(api.translate(POOL)["translatedText"])
    expect(reader.notice()).to_be_hidden()
    expect(page.locator("html")).not_to_have_attribute("data-pending", "")


def test_new_text_is_pending_without_the_error_of_before(reader: Reader, page: Page) -> None:
    """The error stayed, and nothing showed that the page was waiting."""
    held: list[Route] = []
    page.route("**/translate", refusing(504, "deadline_exceeded", "not done in 60 s"), times=1)
    reader.open(text=POOL, source="en")
    expect(reader.notice()).to_be_visible()
    expect(reader.output).to_be_empty()
    page.route("**/translate", lambda route: held.append(route))
    with page.expect_request("**/translate"):
        reader.field.fill(KIDS)
    expect(reader.notice()).to_be_hidden()
    styles = "([name, part]) => getComputedStyle(document.querySelector(name), part).content"
    for place in (["body", "::after"], ["#output", "::before"]):
        assert page.evaluate(styles, place) not in ("none", "normal"), place


@pytest.mark.usefixtures("_own_profile")
def test_lost_network_keeps_the_text_and_comes_back(
    reader: Reader, context: BrowserContext, api: Api
) -> None:
    reader.open()
    context.set_offline(True)
    reader.field.fill(POOL)
    expect(reader.notice().get_by_role("alert")).to_contain_text("The server cannot be reached.")
    expect(reader.field).to_have_value(POOL)
    context.set_offline(False)  # without a click
    expect(reader.output).to_have_text(api.translate(POOL, "auto")["translatedText"])
    expect(reader.notice()).to_be_hidden()


def test_page_that_comes_before_its_server_waits_for_it(reader: Reader, page: Page) -> None:
    page.route("**/languages", lambda route: route.abort())
    page.goto("/")
    expect(reader.notice().get_by_role("alert")).to_contain_text("The server cannot be reached.")
    page.unroute("**/languages")
    expect(reader.target).to_have_value("pt")  # without a click


OPENAI = {"message": "it is so", "type": "server_error", "param": None, "code": "internal"}


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (500, json.dumps({"error": OPENAI}), "The server failed."),
        (502, "<h1>502 Bad Gateway</h1>", "Something between here and the server failed."),
    ],
    ids=["of OpenAI", "of a proxy"],
)
def test_refusal_in_another_shape_is_told_in_words(
    reader: Reader, page: Page, status: int, body: str, told: str
) -> None:
    page.route("**/translate", lambda route: route.fulfill(status=status, body=body))
    reader.open(text=POOL, source="en")
    alert = reader.notice().get_by_role("alert")
    expect(alert).to_contain_text(told)
    expect(alert).not_to_contain_text("Gateway")


def test_too_many_values_can_be_narrowed(reader: Reader, page: Page, api: Api) -> None:
    """Where the limit of a server is below all heads of a layer."""
    message = "Invalid request: 640 attention values exceed the limit of 100: ask for fewer heads"

    def refuse_many(route: Route) -> None:
        if "heads" not in posted(route.request):
            refusing(413, "too_large", message)(route)
        else:
            route.fallback()

    page.route("**/attention", refuse_many)
    reader.open(text=POOL, source="en")
    notice = reader.notice("look")
    expect(notice.get_by_role("alert")).to_contain_text("640 attention values exceed the limit")
    notice.get_by_role("button", name="Ask for one head alone").click()
    reader.until_shown()
    expect(notice).to_be_hidden()
    assert '"heads":[' in reader.command("look")
    expect(page.locator("#heads")).to_be_hidden()


def test_error_of_the_steps_stands_beside_them(reader: Reader, page: Page) -> None:
    page.route("**/attention/steps", refusing(504, "deadline_exceeded", "not done"), times=1)
    reader.read(POOL, layer=1, head=0, query=1)
    notice = reader.notice("steps")
    expect(notice).to_be_visible()
    expect(reader.notice("look")).to_be_hidden()
    notice.get_by_role("button", name="Try again").click()
    expect(page.locator("#steps-table tbody tr")).not_to_have_count(0)
    expect(notice).to_be_hidden()


def test_error_of_a_download_is_told(reader: Reader, page: Page) -> None:
    reader.read(POOL)
    page.route("**/attention", refusing(504, "deadline_exceeded", "not done"), times=1)
    reader.save("npz")
    expect(reader.notice("download")).to_be_visible()
    with page.expect_download():
        reader.notice("download").get_by_role("button", name="Try again").click()
    expect(reader.notice("download")).to_be_hidden()


def test_error_of_other_translations_is_told(reader: Reader, page: Page) -> None:
    reader.read(POOL)
    page.route("**/translate", refusing(400, "invalid_request", "alternatives must be <= 0"))
    reader.button("Other translations").click()
    expect(reader.notice("others")).to_contain_text("Alternatives must be <= 0.")
    reader.button("Other translations").click()
    expect(reader.notice("others")).to_be_hidden()
