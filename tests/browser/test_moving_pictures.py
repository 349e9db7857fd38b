"""The animated pictures of the swap and of the switches, made anew with REGARD_WRITE_IMAGES=1."""

import math
from typing import Literal, cast

import pytest
from playwright.sync_api import FloatRect, Locator, Page, Route, expect

from tests.browser.pictures import SIGNATURE, Frame, animated, chunks, keep
from tests.browser.reader import KIDS, Reader, box_of

MAX_BYTES = 1_000_000
MAX_SWITCH_BYTES = 300_000
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


@pytest.mark.parametrize("options", [{"viewport": {"width": 540, "height": 900}}])
def test_picture_of_the_switches(reader: Reader, page: Page) -> None:
    """The map of heads fills layer by layer; then one of the heads is switched off."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    held: list[Route] = []
    page.route("**/attention/knockout", lambda route: held.append(route))
    reader.open(way="understand", lesson=KIDS)
    switches, found = page.locator("#switches"), page.locator("#switches .verdict").first
    expect(page.locator("#switches-map svg")).to_be_visible()

    def release() -> None:
        page.wait_for_timeout(0)
        while held:
            held.pop(0).continue_()

    def clip_from(part: Locator, width: float, height: float) -> FloatRect:
        box, top = box_of(part), page.evaluate("scrollY")
        clip = {
            "x": box["x"] - 8,
            "y": math.floor(box["y"] + top),
            "width": width,
            "height": height,
        }
        return cast(FloatRect, clip)

    def whole(milliseconds: int) -> Frame:
        clip = clip_from(found, 518, 640)
        return Frame(page.screenshot(clip=clip, full_page=True), milliseconds)

    def map_alone(milliseconds: int) -> Frame:
        clip, frame = clip_from(page.locator("#switches-map"), 340, 330), clip_from(found, 518, 640)
        place = (0, int(clip["y"] - frame["y"]))
        return Frame(page.screenshot(clip=clip, full_page=True), milliseconds, place)

    release()
    expect(switches.locator(".verdict").last).to_contain_text("Everything is on")
    reader.button("Which heads matter? Try each one").click()
    frames = []
    for layer in range(8):
        while not held:
            page.wait_for_timeout(20)
        release()
        last = layer == 7
        expect(found).to_contain_text("Of 64 heads" if last else f"{layer + 1} of 8 layers")
        if layer % 2 == 0 or last:
            take = whole if layer in (0, 7) else map_alone
            frames.append(take(REST_MILLISECONDS if last else 8 * FRAME_MILLISECONDS))
    page.unroute("**/attention/knockout")
    page.locator("#switches-map rect[data-row='1'][data-column='3']").click()
    expect(switches.locator(".verdict").last).to_contain_text("With 1 part off")
    image = animated([whole(2 * REST_MILLISECONDS), *frames])
    assert len({frame.image for frame in frames}) == len(frames)
    assert len(image) <= MAX_SWITCH_BYTES
    keep("switch.png", image)
