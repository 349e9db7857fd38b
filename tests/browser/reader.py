"""What a reader does on the page, and where things are on it."""

import math
import re
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode

from playwright.sync_api import FloatRect, Locator, Page, Request, Route, expect

KIDS = "The kids were scared of the lions, so they left right away."
POOL = "pool beats badminton"
EXPERT = ("level", "norm")
"""Groups of radio buttons in the fold for experts."""
MENUS = ("theme", "language")
"""Groups of radio buttons that open from an icon."""
TWO = "The cat sat on the mat. It slept."

PHONE: dict[str, Any] = {"viewport": {"width": 375, "height": 800}}


def percent(share: float) -> str:
    """Returns a share as the page writes it."""
    return "below 1 %" if 0 < share < 0.01 else f"{math.floor(100 * share + 0.5)} %"


def number(text: str | None) -> float:
    """Reads a number as the page writes it."""
    return float((text or "").replace("\u2212", "-"))


def box_of(locator: Locator) -> FloatRect:
    box = locator.bounding_box()
    assert box is not None
    return box


def posted(request: Request) -> dict[str, Any]:
    body = request.post_data_json
    assert isinstance(body, dict)
    return body


def refuse_alignment(page: Page) -> None:
    """Refuses to align words, as a server does where two models translate one after the other."""
    refusal = {"error": "Invalid request: leave return_alignment out"}

    def refuse(route: Route) -> None:
        if posted(route.request).get("return_alignment"):
            route.fulfill(status=400, json=refusal | {"error_type": "invalid_request"})
        else:
            route.fallback()

    page.route("**/translate", refuse)


@dataclass(frozen=True)
class Reader:
    """Someone in front of a page."""

    page: Page

    def open(self, **view: Any) -> Self:
        self.page.goto(f"/#{urlencode(view)}" if view else "/")
        expect(self.target).to_have_value("pt" if view.get("target") is None else view["target"])
        return self

    def read(self, text: str = KIDS, **view: Any) -> Self:
        """Comes by a link to an English text and waits until all of it is shown."""
        self.open(text=text, source="en", **view)
        return self.until_shown()

    def until_shown(self) -> Self:
        """Waits for the heat map."""
        expect(self.map.locator("svg")).to_be_visible()
        expect(self.page.locator("#look")).to_have_attribute("aria-busy", "false")
        return self

    def type(self, text: str) -> Self:
        self.field.press_sequentially(text)
        return self

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def choose(self, group: str, value: str) -> Self:
        if group in EXPERT:
            self.unfold("#expert")
        if group in MENUS and not self.page.locator(f"#{group}").is_visible():
            self.page.locator(f"[popovertarget={group}]").click()
        self.page.locator(f"#{group} label:has(input[value='{value}'])").click()
        return self

    def save(self, kind: str) -> None:
        if kind == "npz":
            self.unfold("#expert")
        self.page.locator("#npz" if kind == "npz" else f".footing [data-kind={kind}]").click()

    def unfold(self, fold: str) -> Self:
        expect(self.page.locator(f"{fold} > summary")).to_be_visible()
        if self.page.locator(fold).get_attribute("open") is None:
            self.page.locator(f"{fold} > summary").click()
        return self

    def unfold_all(self) -> None:
        closed = self.page.locator("section details:not([open]) > summary:visible")
        while closed.count() > 0:
            closed.first.click()

    def chosen(self, group: str) -> str:
        return self.page.locator(f"#{group} input:checked").input_value()

    def cell(self, row: int, column: int) -> Locator:
        return self.map.locator(f"rect[data-row='{row}'][data-column='{column}']")

    def copied_link(self, name: str = "Copy link") -> str:
        """Copies the link to the present view, and returns it."""
        self.button(name).click()
        expect(self.button("Copied")).to_be_visible()
        link: str = self.page.evaluate("navigator.clipboard.readText()")
        return link

    def go(self, link: str) -> None:
        """Opens a link in a page that shows nothing of before."""
        self.page.goto("about:blank")
        self.page.goto(link)

    def point_at(self, word: Locator) -> tuple[float, float]:
        """Moves the pointer to a word of the text, which lies under the field; returns where."""
        box = box_of(word)
        place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(*place)
        return place

    def labels(self, side: str) -> list[str]:
        """The words along a side of the heat map: `row` or `column`."""
        return self.map.locator(f"text[data-label^='{side}-']").all_text_contents()

    def lit(self, side: str) -> list[str]:
        """The words that are lit in the text (`mirror`) or in the translation (`output`)."""
        return self.page.locator(f"#{side} .lit").all_text_contents()

    def number(self, row: int, column: int) -> float:
        self.cell(row, column).hover()
        found = re.search(r": ([\d.]+)", self.readout.text_content() or "")
        assert found is not None
        return float(found[1])

    def brightest(self, side: str) -> str:
        lit = self.page.locator(f"#{side} .lit")
        texts: list[str] = lit.evaluate_all(
            """all => all.sort((a, b) => b.style.getPropertyValue('--weight')
                - a.style.getPropertyValue('--weight')).map(e => e.textContent)"""
        )
        return texts[0] if texts else ""

    def word(self, text: str) -> Locator:
        return self.output.get_by_role("button", name=text, exact=True)

    def command(self, section: str) -> str:
        return self.page.locator(f"#{section}-curl code").text_content() or ""

    @property
    def field(self) -> Locator:
        return self.page.get_by_role("textbox", name="Text to translate")

    @property
    def output(self) -> Locator:
        return self.page.locator("#output")

    @property
    def source(self) -> Locator:
        return self.page.get_by_label("Language of the text")

    @property
    def target(self) -> Locator:
        return self.page.get_by_label("Language of the translation")

    @property
    def map(self) -> Locator:
        return self.page.locator("#map")

    @property
    def readout(self) -> Locator:
        return self.page.locator("#readout")

    @property
    def candidates(self) -> Locator:
        """The likeliest tokens at a word; the steps have a button "Close" too."""
        return self.page.locator("#candidates")

    @property
    def steps(self) -> Locator:
        return self.page.locator("#steps")

    def notice(self, section: str = "translate") -> Locator:
        return self.page.locator(f"#{section}-notice")
