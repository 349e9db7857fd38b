"""The heat map: every kind, layer and head, by mouse and by keyboard, and as files."""

import io
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Api, Watch
from tests.browser.reader import KIDS, POOL, TWO, Reader, posted

KIND_ORDER = ("cross", "encoder", "decoder")
SVG = "{http://www.w3.org/2000/svg}"


def names(side: dict[str, Any]) -> list[str]:
    """Returns the words of a side of an item, as the page writes them."""
    return [*side["tokens"][:-1], "⟨end⟩"]


def assert_shows(reader: Reader, plane: list[list[float]]) -> None:
    last_row, last_column = len(plane) - 1, len(plane[0]) - 1
    expect(reader.map.locator("rect[data-row]")).to_have_count(len(plane) * len(plane[0]))
    for row, column in ((0, 0), (1, 0), (last_row, last_column)):
        assert reader.number(row, column) == pytest.approx(plane[row][column], abs=1.1e-4)


def test_first_view_is_the_head_that_aligns_words(reader: Reader, api: Api) -> None:
    reader.read()
    layer, head = (api.model()["alignment"][name] for name in ("layer", "head"))
    found = api.attention(KIDS, level="word")
    title = f"Cross-attention, layer {layer + 1}, head {head + 1}"
    expect(reader.page.get_by_role("heading", name=title)).to_be_visible()
    assert reader.labels("column") == names(found["source"])
    assert reader.labels("row") == names(found["target"])
    assert_shows(reader, api.heads(KIDS, layers=[layer], heads=[head])[0, 0].tolist())


@pytest.mark.parametrize("name", ["en-pt", "pt-en"])
def test_kinds_are_those_of_the_model(reader: Reader, api: Api, name: str) -> None:
    shape = api.shape(name)
    source, target = name.split("-")
    reader.open(text="Oi." if source == "pt" else "Hi.", source=source, target=target)
    reader.until_shown()
    offered = reader.page.locator("#kind input").evaluate_all("all => all.map(e => e.value)")
    assert offered == [kind for kind in KIND_ORDER if kind in shape]
    for kind in offered:
        reader.choose("kind", kind).until_shown()
        expect(reader.page.locator("#layer input[value='0']")).to_have_count(1)
        layers = reader.page.locator("#layer input").evaluate_all("all => all.map(e => e.value)")
        merged = ["all"] if kind == "cross" else ["all", "rollout"]
        assert layers == [*map(str, range(shape[kind]["layers"])), *merged]


def test_layer_and_head_are_chosen(reader: Reader, page: Page, api: Api) -> None:
    """One call serves all heads of a layer."""
    reader.read().choose("kind", "encoder").choose("layer", "2").until_shown()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    reader.choose("heads", "5")
    expect(page.get_by_role("heading", name="Encoder, layer 3, head 6")).to_be_visible()
    found = api.heads(KIDS, kinds=["encoder"], layers=[2], heads=[5])
    assert_shows(reader, found[0, 0].tolist())
    assert not asked


def test_every_head_of_a_layer_is_shown_small(reader: Reader, page: Page, api: Api) -> None:
    heads = api.shape()["cross"]["heads"]
    reader.read()
    titles = ["Mean", *(f"Head {n + 1}" for n in range(heads))]
    assert page.locator("#heads .head").all_text_contents() == titles
    draw = "all => all.map(c => [c.width, c.height, c.toDataURL()])"
    found = api.attention(KIDS, level="word")["attentions"][0]["shape"]
    drawn = page.locator("#heads canvas").evaluate_all(draw)
    assert all([height, width] == found[2:] for width, height, _ in drawn)
    assert len({image for _, _, image in drawn}) == len(titles)  # each head is another


@pytest.mark.parametrize(
    ("kind", "group", "value", "query"),
    [
        ("encoder", "layer", "rollout", {"reduce": "rollout"}),
        ("cross", "layer", "all", {"layers": "all", "reduce": "mean_layers_heads"}),
        ("encoder", "layer", "0", {"layers": [0]}),
        ("cross", "level", "token", {"level": "token"}),
        ("cross", "norm", "value_norms", {"norm": "value_norms"}),
    ],
)
def test_chosen_view_has_the_numbers_of_the_server(
    reader: Reader, api: Api, kind: str, group: str, value: str, query: dict[str, Any]
) -> None:
    """The page has all heads of a layer, and takes their mean itself."""
    reader.read(KIDS, kind=kind, head="mean").choose(group, value).until_shown()
    found = api.attention(KIDS, kinds=[kind], **{"level": "word"} | query)
    assert reader.labels("column") == names(found["source"])
    assert_shows(reader, found["attentions"][0]["data"][0][0])


def test_rollout_and_values_name_their_authors(reader: Reader, page: Page) -> None:
    reader.read(KIDS, norm="value_norms")
    expect(page.locator("#explained")).to_contain_text("Kobayashi")
    reader.choose("kind", "encoder").choose("layer", "rollout").until_shown()
    expect(page.locator("#explained")).to_contain_text("Abnar and Zuidema")
    expect(page.locator("#heads")).to_be_hidden()
    expect(page.locator("#norm input").last).to_be_disabled()


def test_sentence_of_a_longer_text_is_chosen(reader: Reader, page: Page, api: Api) -> None:
    reader.read(TWO)
    menu = page.get_by_label("Sentence")
    expect(menu.locator("option")).to_have_text(["1. The cat sat on the mat.", "2. It slept."])
    menu.select_option("2. It slept.")
    found = api.attention("It slept.", level="word")
    expect(reader.map.locator("text[data-label^='column-']")).to_have_text(names(found["source"]))
    assert '"text":"It slept."' in reader.command("look")


def test_cursor_moves_by_keyboard(reader: Reader, page: Page, api: Api) -> None:
    reader.read(POOL, head="mean")
    found = api.attention(POOL, level="word")
    plane = found["attentions"][0]["data"][0][0]
    rows = names(found["target"])
    columns = names(found["source"])
    last = (len(rows) - 1, len(columns) - 1)
    reader.map.focus()
    expect(reader.readout).to_contain_text(f"looks at “{columns[0]}”")
    moves = [
        ("ArrowRight", (0, 1)), ("ArrowDown", (1, 1)), ("ArrowLeft", (1, 0)),
        ("ArrowLeft", (1, 0)), ("End", (1, last[1])), ("PageDown", last), ("ArrowDown", last),
        ("Home", (last[0], 0)), ("PageUp", (0, 0)), ("ArrowUp", (0, 0)),
    ]  # fmt: skip
    for key, (row, column) in moves:
        page.keyboard.press(key)
        told = reader.readout.text_content() or ""
        assert told.startswith(f"“{rows[row]}”")
        assert f"looks at “{columns[column]}”: {plane[row][column]:.4f}" in told


def test_readout_tells_a_row_and_stays_while_heads_are_compared(reader: Reader) -> None:
    """A row of cross-attention has two labels: the token put in, and the one predicted."""
    reader.read(POOL)
    first, second = reader.labels("row")[:2]
    reader.cell(1, 2).hover()
    expect(reader.readout).to_contain_text(f"“{second}”, written after “{first}”, looks at")
    before = (reader.readout.text_content() or "").split(": ")
    reader.choose("heads", "3")
    expect(reader.page.get_by_role("heading", name="head 4")).to_be_visible()
    after = (reader.readout.text_content() or "").split(": ")
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_numbers_are_also_a_table(reader: Reader, page: Page, api: Api) -> None:
    reader.read(POOL, head="mean")
    page.locator("#map-table summary").click()
    table = page.locator("#map-table").get_by_role("table")
    expect(table).to_be_visible()
    found = api.attention(POOL, level="word")
    rows = found["attentions"][0]["data"][0][0]
    expect(table.get_by_role("columnheader")).to_have_text(names(found["source"]))
    expect(table.get_by_role("row")).to_have_count(1 + len(rows))
    told = [float(text) for text in table.locator("tbody td").all_text_contents()]
    assert told == pytest.approx([value for row in rows for value in row], abs=6e-4)
    expect(table.locator("caption")).to_contain_text("mean of its 8 heads")


def test_causal_attention_has_no_future(reader: Reader, page: Page, api: Api) -> None:
    """No built-in model has self-attention in its decoder, so its weights are made up."""
    models = api.get("/v1/models")
    (own,) = (model for model in models["data"] if model["id"] == "en-pt")
    own["attention"]["decoder"] = own["attention"]["cross"]
    page.route("**/v1/models", lambda route: route.fulfill(json=models))
    item = api.attention(POOL, level="word")
    size = len(item["target"]["tokens"])
    rows = np.tri(size) / np.arange(1, size + 1)[:, None]
    known = {"kind": "decoder", "layers": [1], "heads": [*range(8)], "shape": [1, 8, size, size]}
    item["attentions"] = [known | {"data": [[rows.tolist()] * 8]}]

    def answer(route: Route) -> None:
        if posted(route.request)["kinds"] == ["decoder"]:
            route.fulfill(json={"model": "en-pt", "items": [item]})
        else:
            route.fallback()

    page.route("**/attention", answer)
    reader.read(POOL, kind="decoder")
    assert reader.labels("row") == reader.labels("column")
    assert reader.labels("row")[0] == "⟨start⟩"
    expect(reader.map.locator("rect[data-row]")).to_have_count(size * (size + 1) // 2)
    reader.map.focus()
    page.keyboard.press("End")
    expect(reader.readout).to_contain_text("“⟨start⟩” looks at “⟨start⟩”: 1.0000")


def downloaded(reader: Reader, kind: str, name: str = "") -> bytes:
    """Returns the content of a file that the reader saves, and checks its name."""
    with reader.page.expect_download() as found:
        reader.save(kind)
    assert found.value.suggested_filename.endswith(name)
    return Path(found.value.path()).read_bytes()


def drawing(reader: Reader, name: str = "") -> tuple[ET.Element, list[str]]:
    """Returns the root and the texts of the drawing that the reader saves."""
    root = ET.fromstring(downloaded(reader, "svg", name))
    return root, [node.text or "" for node in root.iter(f"{SVG}text")]


def test_npz_has_the_numbers(reader: Reader, api: Api) -> None:
    reader.read(POOL, layer=0, head=2)
    found = downloaded(reader, "npz", "regard-cross-layer1-head3.npz")
    arrays: Any = np.load(io.BytesIO(found))
    np.testing.assert_allclose(arrays["item0.cross"], api.heads(POOL, layers=[0]), atol=1e-6)


def test_svg_is_a_drawing_of_its_own(reader: Reader, api: Api) -> None:
    reader.read(POOL)
    root, texts = drawing(reader, "regard-cross-layer2-head1.svg")
    translated = api.translate(POOL)["translatedText"]
    assert f"{POOL} → {translated}" in " ".join(texts)
    for text in (*reader.labels("row"), *reader.labels("column")):
        assert text in texts
    boxes = [node.attrib for node in root.iter(f"{SVG}rect") if "data-row" in node.attrib]
    assert len(boxes) == len(reader.labels("row")) * len(reader.labels("column"))
    assert all(box["fill"].startswith("#") for box in boxes)


@pytest.mark.parametrize("text", [KIDS, POOL, "x" * 150])
def test_saved_drawing_stands_alone(reader: Reader, page: Page, api: Api, text: str) -> None:
    reader.open().field.fill(text)
    reader.until_shown()
    root, texts = drawing(reader)
    whole = "".join(texts).replace(" ", "")
    assert text.replace(" ", "") in whole
    model = api.model()
    assert f"modelen-pt,{model['dtype']}on{model['device']},revision{model['revision']}" in whole
    address = page.evaluate("location.origin + location.pathname")
    assert address in texts
    least, most = page.locator("#look .scale span").all_text_contents()
    assert least == "0"
    assert f"{least} {most} Regard, model en-pt," in " ".join(texts)
    assert len([*root.iter(f"{SVG}image")]) == 1  # of the scale
    widths = page.evaluate(
        """([texts, width]) => {
            const pen = document.createElement('canvas').getContext('2d');
            pen.font = '13px "Helvetica Neue", "Segoe UI", "Liberation Sans", Arial, sans-serif';
            return texts.filter((text) => pen.measureText(text).width > width + 1);
        }""",
        [texts, float(root.attrib["width"])],
    )
    assert widths == []


def test_saved_drawing_has_the_link_that_the_reader_asked_for(reader: Reader) -> None:
    reader.open().field.fill(POOL)
    reader.until_shown()
    reader.copied_link()
    reader.choose("heads", "2")
    link = reader.copied_link()
    assert link in "".join(drawing(reader)[1])


def test_stale_map_is_dim_and_cannot_be_saved(reader: Reader, page: Page, watch: Watch) -> None:
    watch.allow("Failed to load resource")
    reader.read(POOL)
    held: list[Any] = []
    page.route("**/attention", lambda route: held.append(route))
    saving = page.locator("#look .downloads button, #look-curl button")
    with page.expect_request("**/attention"):
        reader.choose("layer", "0")
    for button in saving.all():
        expect(button).to_be_disabled()
    held[0].fulfill(status=500, json={"error": "x", "error_type": "internal"})
    expect(reader.notice("look")).to_be_visible()
    expect(page.locator("#look")).to_have_class("stale")
    for button in saving.all():
        expect(button).to_be_disabled()
    page.unroute("**/attention")
    reader.notice("look").get_by_role("button", name="Try again").click()
    expect(page.locator("#look")).not_to_have_class("stale")
    for button in saving.all():
        expect(button).to_be_enabled()


def test_png_is_as_large_as_the_drawing_twice(reader: Reader) -> None:
    reader.read(POOL)
    svg, png = drawing(reader)[0], downloaded(reader, "png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    size = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    assert size == (2 * int(svg.attrib["width"]), 2 * int(svg.attrib["height"]))
    shown = reader.page.evaluate(
        """async (bytes) => {
            const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
            const canvas = new OffscreenCanvas(image.width, image.height);
            const pen = canvas.getContext('2d');
            pen.drawImage(image, 0, 0);
            const { data } = pen.getImageData(0, 0, image.width, image.height);
            return new Set(new Uint32Array(data.buffer)).size;
        }""",
        [*png],
    )
    assert shown > 20  # colours: it is not an empty sheet


def test_picture_that_the_browser_cannot_make_is_told(reader: Reader) -> None:
    """A canvas that is too large gives nothing, which was taken for a fault of the server."""
    reader.page.add_init_script("HTMLCanvasElement.prototype.toBlob = (told) => told(null)")
    reader.read(POOL).save("png")
    expect(reader.page.locator(".footing .notice").first).to_contain_text(
        "pixels are more than this browser draws"
    )


def test_nothing_is_under_way_when_the_text_is_gone(reader: Reader, page: Page) -> None:
    """What was asked about it is aborted, and never ends the state of being busy."""
    look = page.locator("#look")
    page.route("**/attention", lambda _route: None)
    with page.expect_request("**/attention"):
        reader.open(text=POOL, source="en")
    expect(look).to_have_attribute("aria-busy", "true")
    page.get_by_role("button", name="Clear").click()
    expect(look).to_have_attribute("aria-busy", "false")
