"""Files are dropped or chosen, translated, and downloaded."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Api, Watch
from tests.browser.reader import KIDS, POOL, Reader

DROP = """(drop, [name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    const options = { bubbles: true, cancelable: true, dataTransfer: data };
    for (const type of ['dragover', 'drop']) drop.dispatchEvent(new DragEvent(type, options));
}"""


def opened(page: Page) -> None:
    page.goto("/#way=documents")
    expect(page.locator("#documents-target")).to_have_value("pt")


@pytest.mark.parametrize("is_dropped", [True, False], ids=["dropped", "chosen"])
def test_document_is_translated(page: Page, api: Api, tmp_path: Path, is_dropped: bool) -> None:
    opened(page)
    page.locator("#documents-source").select_option("en")
    if is_dropped:
        page.locator(".drop").evaluate(DROP, ["kids.txt", KIDS])
    else:
        file = tmp_path / "kids.txt"
        file.write_text(KIDS)
        page.locator("#file").set_input_files(file)
    link = page.get_by_role("link", name="Download kids.pt.txt")
    expect(link).to_be_focused()
    expect(page.locator("#documents progress")).to_be_hidden()
    with page.expect_download() as started:
        link.click()
    assert started.value.suggested_filename == "kids.pt.txt"
    saved = tmp_path / "saved"
    started.value.save_as(saved)
    assert saved.read_text() == api.translate(KIDS)["translatedText"]


def test_progress_is_shown(page: Page) -> None:
    """The server is asked again until the document is done."""
    replies: list[dict[str, object]] = [
        {"status": "queued"},
        {"status": "translating", "seconds_remaining": 9},
        {"status": "done"},
    ]
    page.route("**/v2/document", lambda route: answer(route, document_id="1a", document_key="k"))
    page.route("**/v2/document/1a", lambda route: answer(route, **replies.pop(0)))
    page.route("**/v2/document/1a/result", lambda route: route.fulfill(body="ok"))
    opened(page)
    page.locator(".drop").evaluate(DROP, ["kids.txt", KIDS])
    expect(page.locator("#documents [role=status]")).to_contain_text("about 9 s left")
    share = page.locator("#documents progress").evaluate("bar => bar.value")
    assert 0 < share < 0.5
    expect(page.get_by_role("link", name="Download kids.pt.txt")).to_be_visible()


def test_file_that_is_dropped_on_the_text_field_goes_to_documents(
    reader: Reader, page: Page
) -> None:
    """The browser left the page and showed the file."""
    reader.open(source="en")
    reader.field.evaluate(DROP, ["kids.txt", KIDS])
    expect(page.get_by_role("link", name="Download kids.pt.txt")).to_be_focused()
    assert page.url.endswith("#way=documents")
    page.go_back()
    expect(reader.field).to_be_visible()
    reader.field.evaluate(DROP, ["pool.txt", POOL])
    expect(page.get_by_role("link", name="Download pool.pt.txt")).to_be_focused()


OVER = """(field, [type, isFile]) => {
    const data = new DataTransfer();
    if (isFile) data.items.add(new File([], 'a.txt'));
    else data.setData('text/plain', 'a');
    const options = { bubbles: true, cancelable: true, dataTransfer: data };
    return !field.dispatchEvent(new DragEvent(type, options));
}"""


def test_page_shows_that_it_takes_a_file(reader: Reader, page: Page) -> None:
    """A text that is dragged is left to the field."""
    reader.open()
    assert not reader.field.evaluate(OVER, ["dragover", False])
    expect(page.locator(".field")).to_have_css("outline-style", "none")
    assert reader.field.evaluate(OVER, ["dragover", True])
    expect(page.locator(".field")).to_have_css("outline-style", "dashed")
    reader.field.evaluate(OVER, ["dragleave", True])
    expect(page.locator(".field")).to_have_css("outline-style", "none")


def answer(route: Route, **body: object) -> None:
    route.fulfill(body=json.dumps(body), content_type="application/json")


def test_refusal_is_told_and_another_file_goes_through(page: Page, watch: Watch) -> None:
    watch.allow("Failed to load resource")
    opened(page)
    page.locator(".drop").evaluate(DROP, ["kids.exe", KIDS])
    notice = page.locator("#documents .notice").last
    expect(notice).to_contain_text("The server cannot do that.")
    expect(notice).to_contain_text("Invalid file")
    page.locator(".drop").evaluate(DROP, ["pool.txt", POOL])
    expect(page.get_by_role("link", name="Download pool.pt.txt")).to_be_visible()
    expect(notice).to_be_hidden()


def test_server_without_documents_says_so(reader: Reader, page: Page) -> None:
    def switch_off(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | {"filesTranslation": False})

    page.route("**/frontend/settings", switch_off)
    reader.open().field.evaluate(DROP, ["kids.txt", KIDS])
    expect(page.get_by_text("REGARD_FILES=true")).to_be_visible()
    expect(page.locator(".drop")).to_have_count(0)
