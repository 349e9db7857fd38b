"""Where a model that embeds looks: the same views, of a text alone."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, POOL, Reader, posted

pytestmark = pytest.mark.usefixtures("embedder")


def layers(api: Api, embedder: str) -> int:
    return int(api.shape(embedder)["encoder"]["layers"])


def test_task_is_chosen_and_shows_the_text_on_both_sides(
    reader: Reader, page: Page, api: Api, embedder: str
) -> None:
    reader.read(POOL).choose("way", "compare")
    expect(reader.output).to_be_hidden()
    expect(reader.source).to_be_hidden()
    expect(page.get_by_role("textbox", name="Text to embed")).to_have_value(POOL)
    last = layers(api, embedder) - 1
    heading = page.get_by_role("heading", name=f"Encoder, layer {last + 1}, mean of its 12 heads")
    expect(heading).to_be_visible()
    reader.until_shown()
    tokens = api.embedding(POOL, level="word")["source"]["tokens"]
    for side in ("row", "column"):
        shown = [label for label in reader.labels(side) if not label.startswith("⟨")]
        assert shown == [token for token in tokens if token != "</s>"]
    expect(page.locator("#model")).to_contain_text(embedder)
    assert '"task":"embed"' in reader.command("look")
    reader.choose("way", "translate")
    expect(reader.output).to_have_text(api.translate(POOL)["translatedText"])


def test_every_cell_is_the_servers(reader: Reader, page: Page, api: Api) -> None:
    reader.open(task="embed", text=POOL, layer=2, head=3, level="token").until_shown()
    item = api.embedding(POOL, layers=[2], heads=[3], reduce="none", decimals=5)
    weights = item["attentions"][0]["data"][0][0]
    for row, column in ((0, 0), (1, 2), (2, 1)):
        reader.cell(row, column).hover()
        expect(reader.readout).to_contain_text(f": {weights[row][column]:.4f}")


def test_typing_asks_for_no_translation(reader: Reader, page: Page) -> None:
    asked: list[str] = []
    reader.open(task="embed")
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.locator("#text").press_sequentially("hi how")
    reader.until_shown()
    assert "attention" in asked
    assert "translate" not in asked


def test_averages_rollout_and_steps(reader: Reader, page: Page, api: Api, embedder: str) -> None:
    reader.open(task="embed", text=POOL).until_shown()
    expect(page.locator("#heads label")).to_have_count(1 + api.shape(embedder)["encoder"]["heads"])
    reader.choose("layer", "all").until_shown()
    heading = page.get_by_role("heading", name="Encoder, mean of 6 layers with 12 heads each")
    expect(heading).to_be_visible()
    reader.choose("layer", "rollout").until_shown()
    expect(page.get_by_role("heading", name="Encoder, rollout of 6 layers")).to_be_visible()
    reader.cell(1, 1).click()
    expect(page.locator("#search-map")).to_be_focused()
    last = layers(api, embedder) - 1
    page.locator(f"#search-map rect[data-row='{last}'][data-column='0']").click()
    expect(page.locator("#steps-place")).to_contain_text(f"Encoder, layer {layers(api, embedder)}")
    rows = page.locator("#steps-table tbody tr")
    expect(rows).to_have_count(len(api.embedding(POOL)["source"]["tokens"]))
    expect(page.locator("#steps-table tfoot")).to_contain_text("100 %")
    assert '"task":"embed"' in reader.command("steps")


def test_link_restores_it(reader: Reader, page: Page) -> None:
    reader.open(task="embed", text=KIDS, layer=1, head=2, query=3).until_shown()
    assert reader.chosen("way") == "compare"
    assert reader.chosen("heads") == "2"
    expect(page.locator("#steps-place")).to_have_text("Encoder, layer 2, head 3")
    assert "task=embed" in reader.copied_link()


def test_numbers_can_be_saved(reader: Reader, page: Page) -> None:
    reader.open(task="embed", text=POOL).until_shown()
    with page.expect_request("**/attention") as sent, page.expect_download() as saved:
        reader.save("npz")
    assert posted(sent.value)["task"] == "embed"
    assert saved.value.suggested_filename.startswith("regard-encoder-layer")
