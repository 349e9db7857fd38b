"""The pictures of README, of docs/ and of links: REGARD_WRITE_IMAGES=1 makes them anew."""

import math
from collections.abc import Callable
from typing import Any, Literal, cast

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


def write(name: str, page: Page, **options: Any) -> None:
    image = page.screenshot(animations="disabled", **options)
    assert image[:4] == b"\x89PNG"
    keep(name, image)


def around(part: Locator) -> dict[str, float]:
    box = part.evaluate(
        """e => {
            const box = e.getBoundingClientRect();
            return { x: 0, y: box.y + scrollY - 24, width: innerWidth, height: box.height + 48 };
        }"""
    )
    return {name: float(value) for name, value in box.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1180, "height": 1460}}])
def test_pictures_of_the_readme(
    reader: Reader, page: Page, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    reader.read(KIDS, layer=1, head=0)
    reader.cell(3, 3).hover()
    reader.output.get_by_role("button").nth(6).press("Enter")
    reader.candidates.get_by_role("button", name="Close").click()
    page.evaluate("document.activeElement.blur()")
    write(f"page-{scheme}.png", page)
    reader.cell(3, 3).click()
    expect(page.locator("#steps-table tbody tr")).not_to_have_count(0)
    expect(reader.steps).to_be_visible()
    write(f"steps-{scheme}.png", page, full_page=True, clip=around(reader.steps))


@pytest.mark.usefixtures("embedder")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1180, "height": 1460}}])
def test_picture_of_a_text_that_is_embedded(
    reader: Reader, page: Page, scheme: Literal["light", "dark"]
) -> None:
    """In head 1 of layer 3 of all-MiniLM-L6-v2 a pronoun looks at whom it means."""
    page.emulate_media(color_scheme=scheme)
    reader.open(task="embed", text=KIDS, layer=3, head=1).until_shown()
    rows, columns = reader.labels("row"), reader.labels("column")
    reader.cell(rows.index("they"), columns.index("kids")).hover()
    expect(reader.readout).to_contain_text("“they”")
    expect(reader.readout).to_contain_text("“kids”")
    page.evaluate("document.activeElement.blur()")
    write(f"embed-{scheme}.png", page, full_page=True, clip=around(page.locator("#look")))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1000, "height": 940}}])
def test_picture_of_the_story(reader: Reader, page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    reader.open(way="understand", step="position")
    expect(page.locator(".drawing svg")).to_be_visible()
    expect(page.locator("[data-chapter=position] .waves")).to_be_in_viewport()
    write(f"story-{scheme}.png", page)


def first(reader: Reader) -> Locator:
    reader.open()
    return reader.page.locator("main")


def candidates(reader: Reader) -> Locator:
    reader.read(KIDS)
    reader.page.locator("#look-fold > summary").click()  # it has the likeliest tokens itself
    reader.word("eles").click()
    expect(reader.candidates.locator("li")).to_have_count(5)
    return reader.page.locator("body")


def cross(reader: Reader) -> Locator:
    reader.open(way="understand", step="decoder")
    expect(reader.page.locator(".drawing svg")).to_be_visible()
    return reader.page.locator(".story")


def owntest(reader: Reader) -> Locator:
    reader.open(way="understand")
    reader.unfold("#owntest")
    reader.button("Try 24 pairs of ours").click()
    # 96 sentences are computed: on a busy machine they take longer than other waits.
    expect(reader.page.locator("#owntest li")).to_have_count(2, timeout=120_000)
    return reader.page.locator("#owntest")


@pytest.mark.usefixtures("embedder")
@pytest.mark.parametrize("state", [first, candidates, cross, owntest])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1000, "height": 1000}}])
def test_pictures_of_more_states(
    reader: Reader, page: Page, state: Callable[[Reader], Locator]
) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    clip = around(state(reader))
    write(f"{state.__name__}.png", page, full_page=True, clip=clip)


@pytest.mark.parametrize("remembered", [{}])
@pytest.mark.parametrize("options", [{"viewport": {"width": 1200, "height": 630}}])
def test_picture_that_stands_for_links(reader: Reader, page: Page) -> None:
    """The page names this picture for programs that show links."""
    reader.open()
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    expect(page.locator("#sample path").first).to_be_visible()
    page.evaluate(
        """() => {
            const others = 'nav, footer, #way, .fold, #translate > *';
            for (const node of document.querySelectorAll(others))
                if (node.id !== 'sample') node.hidden = true;
            document.documentElement.style.fontSize = '30px';
            document.querySelector('.arcs').style.fontSize = '30px';
            document.activeElement.blur();
        }"""
    )
    image = page.screenshot()
    assert image[:4] == b"\x89PNG"
    keep("../../service/static/card.png", image, few_colours=page)
