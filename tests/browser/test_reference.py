"""The reference of the API at /docs, which needs no other host."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import PHONE
from tests.browser.test_axe import findings


def test_reference_lists_every_route_of_the_api(page: Page, api: Api) -> None:
    page.goto("/docs")
    paths = api.get("/openapi.json")["paths"]
    routes = sum(len(methods) for methods in paths.values())
    expect(page.locator("#routes details")).to_have_count(routes)
    expect(page.get_by_role("heading", name="Regard API")).to_be_visible()


def test_route_shows_its_fields_and_replies(page: Page, api: Api) -> None:
    page.goto("/docs")
    route = page.locator("details", has_text="POST /translate").first
    route.locator("summary").press("Enter")
    body = api.get("/openapi.json")["paths"]["/translate"]["post"]["requestBody"]["content"]
    expect(route.get_by_role("region", name="Body of the request")).to_have_count(len(body))
    fields = route.get_by_role("region", name="application/json").first
    for name in ("q", "source", "target", "return_alignment"):
        expect(fields.get_by_role("rowheader", name=name, exact=True)).to_be_visible()
    expect(route.get_by_text("Reply 200")).not_to_have_count(0)
    assert findings(page) == []


@pytest.mark.parametrize("options", [PHONE])
def test_reference_of_every_route_fits_a_phone(page: Page) -> None:
    page.goto("/docs")
    expect(page.locator("#routes details")).not_to_have_count(0)
    page.locator("#routes details").evaluate_all("all => all.forEach((e) => (e.open = true))")
    expect(page.locator("#routes table")).not_to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") == 375
