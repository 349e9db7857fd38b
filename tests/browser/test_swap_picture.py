"""The animated picture of the swap, made anew with REGARD_WRITE_IMAGES=1."""

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.animation import SIGNATURE, animated, chunks
from tests.browser.conftest import Api
from tests.browser.pictures import keep
from tests.browser.reader import Reader

pytestmark = pytest.mark.browser

MAX_BYTES = 1_000_000
TIMES = range(0, 1080, 90)  # Milliseconds from the swap to its frames.
FRAME_MILLISECONDS = 90
REST_MILLISECONDS = 1800

SWAP = """() => {
    document.querySelector('.swaps button').click();
    window.moving = document.getAnimations();
    for (const animation of window.moving) animation.pause();
}"""
AT = "time => { for (const animation of window.moving) animation.currentTime = time; }"


def frames(page: Page) -> list[tuple[bytes, int]]:
    """The pictures of a swap, and of the rest after it."""
    reading = page.locator("#opening .reading").first
    page.evaluate(SWAP)
    found = []
    for time in TIMES:
        page.evaluate(AT, time)
        found.append((reading.screenshot(), FRAME_MILLISECONDS))
    page.evaluate("for (const animation of window.moving) animation.finish()")
    return [*found, (reading.screenshot(), REST_MILLISECONDS)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"viewport": {"width": 880, "height": 700}}])
def test_picture_of_the_swap(
    reader: Reader, page: Page, api: Api, scheme: Literal["light", "dark"]
) -> None:
    """There and back. The frames differ, and they are small enough for a page."""
    if "all-MiniLM-L6-v2" not in {model["id"] for model in api.get("/v1/models")["data"]}:
        pytest.skip("the server has no embedding model: `make install` gets one")
    page.emulate_media(color_scheme=scheme)
    reader.open(way="understand")
    expect(page.locator("[data-scene=first] text")).to_be_visible()
    page.evaluate("for (const animation of document.getAnimations()) animation.finish()")
    there, back = frames(page), frames(page)
    assert len({image for image, _ in there}) > len(TIMES) // 2
    # Where animations do not move, the first frame is the picture: it is the sentence at rest.
    picture = animated([back[-1], *there, *back[:-1]])
    assert picture.startswith(SIGNATURE)
    kinds = [kind for kind, _ in chunks(picture)]
    assert kinds.count(b"fcTL") == len(there) + len(back)
    assert len(picture) < MAX_BYTES
    keep(f"swap-{scheme}.png", picture)
