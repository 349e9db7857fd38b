"""The animated picture of the swap, made anew with REGARD_WRITE_IMAGES=1."""

import math
from typing import Literal

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.browser.pictures import SIGNATURE, Frame, animated, chunks, keep
from tests.browser.reader import Reader, box_of

pytestmark = pytest.mark.browser

MAX_BYTES = 1_000_000
TIMES = range(0, 1080, 90)  # Milliseconds from the swap to its frames.
FRAME_MILLISECONDS = 90
REST_MILLISECONDS = 1800

SWAP = """() => {
    document.querySelector('.swaps button').click();
    window.moving = document.querySelector('main').getAnimations({ subtree: true });
    for (const animation of window.moving) animation.pause();
}"""
SETTLE = """() => {
    const moving = document.querySelector('main').getAnimations({ subtree: true });
    for (const animation of moving) animation.finish();
}"""
AT = "time => { for (const animation of window.moving) animation.currentTime = time; }"


def clip_of(locator: Locator) -> FloatRect:
    box = box_of(locator)
    left, top = math.floor(box["x"]), math.floor(box["y"])
    width, height = math.ceil(box["x"] + box["width"]), math.ceil(box["y"] + box["height"])
    return {"x": left, "y": top, "width": width - left, "height": height - top}


def frames(page: Page, height: float) -> list[Frame]:
    """The pictures of a swap, and of the rest after it.

    Between the first picture and the last, only the scene moves, so the others show it alone.
    `height` is that of the first and the last picture.
    """
    reading = page.locator("#opening .reading").first
    page.evaluate(SWAP)
    whole, scene = clip_of(reading), clip_of(reading.locator(".scene"))
    whole["height"] = height
    place = (int(scene["x"] - whole["x"]), int(scene["y"] - whole["y"]))
    page.evaluate(AT, TIMES[0])
    found = [Frame(page.screenshot(clip=whole), FRAME_MILLISECONDS)]
    for time in TIMES[1:]:
        page.evaluate(AT, time)
        found.append(Frame(page.screenshot(clip=scene), FRAME_MILLISECONDS, place))
    page.evaluate("for (const animation of window.moving) animation.finish()")
    return [*found, Frame(page.screenshot(clip=whole), REST_MILLISECONDS)]


@pytest.mark.usefixtures("embedder")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"viewport": {"width": 880, "height": 700}}])
def test_picture_of_the_swap(reader: Reader, page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    reader.open(way="understand")
    expect(page.locator("[data-scene=first] text")).to_be_visible()
    page.evaluate(SETTLE)
    heights = []
    for _ in range(2):
        page.evaluate(SWAP)
        page.evaluate("for (const animation of window.moving) animation.finish()")
        heights.append(clip_of(page.locator("#opening .reading").first)["height"])
    there, back = (frames(page, max(heights)) for _ in range(2))
    assert len({frame.image for frame in there}) > len(TIMES) // 2
    # Where animations do not move, the first frame is the picture: it is the sentence at rest.
    picture = animated([back[-1], *there, *back[:-1]])
    assert picture.startswith(SIGNATURE)
    kinds = [kind for kind, _ in chunks(picture)]
    assert kinds.count(b"fcTL") == len(there) + len(back)
    assert len(picture) < MAX_BYTES
    keep(f"swap-{scheme}.png", picture)
