"""The texts of the page in both languages, and the choice between them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from service.api.page import FOLDER
from tests.browser.conftest import Api, Profiles, Watch
from tests.browser.reader import KIDS, POOL, Reader

TABLES = sorted(path.stem for path in (FOLDER / "strings").glob("*.js"))
LANGUAGES = ("en", "pt")


@pytest.fixture(scope="module")
def tables(profiles: Profiles, address: str) -> Iterator[dict[str, dict[str, dict[str, str]]]]:
    load = "name => import(`./static/strings/${name}.js`).then((module) => module[name])"
    with profiles.watched(profiles.context({}, {}), Watch(address)) as page:
        page.goto("/docs")
        yield {name: page.evaluate(load, name) for name in TABLES}


def modules() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in FOLDER.rglob("*.js")}


def used(table: str) -> set[str]:
    """Returns the names of a table that modules and HTML use; `*` stands for a value in a name."""
    html = (FOLDER / "index.html").read_text("utf-8")
    found = {*re.findall(rf'data-say[\w-]*="{table}\.(\w+)"', html)}
    for text in modules().values():
        for speaker in re.findall(rf"const (\w+) = speaker\({table}\);", text):
            found |= {*re.findall(r"'(\w+)'", text)}  # variables hold names too
            for name in re.findall(rf"\b{speaker}\(`(.*?)`", text):
                found.add(re.sub(r"\$\{[^}]*\}", "*", name))
    return found


def test_both_languages_have_the_same_names_and_values(tables: dict[str, Any]) -> None:
    for name, table in tables.items():
        assert tuple(table) == LANGUAGES, name
        english, portuguese = table["en"], table["pt"]
        assert list(english) == list(portuguese), name
        for key, text in english.items():
            values = [sorted(re.findall(r"\{(\w+)\}", t)) for t in (text, portuguese[key])]
            assert values[0] == values[1], (name, key)
            assert portuguese[key].strip(), (name, key)


def test_texts_hold_in_both_themes_and_for_fingers(tables: dict[str, Any]) -> None:
    """A share was “dark” where it was light in the dark theme; a phone has no arrow keys."""
    theme = re.compile(r"\b(dark|light)(er|est)?\b|\b(escur|clar)[oa]s?\b", re.I)
    touch = re.compile(r"\bclick|\bcli(que|car)\b|arrow keys|\bEnter\b|\btap\b|\btoque", re.I)
    allowed = {("page", "light"), ("page", "dark"), ("look", "howTo"), ("look", "howToTouch")}
    allowed |= {("translate", "output")}  # the description for screen readers
    for name, table in tables.items():
        for language, texts in table.items():
            for key, text in texts.items():
                found = theme.search(text) or touch.search(text)
                assert (name, key) in allowed or not found, (language, name, key, text)


@pytest.mark.parametrize("name", TABLES)
def test_names_that_are_used_exist_and_names_that_exist_are_used(
    tables: dict[str, Any], name: str
) -> None:
    names = {*tables[name]["en"]}
    patterns = used(name)
    whole = {pattern for pattern in patterns if "*" not in pattern}
    mixed = [re.compile(p.replace("*", r"\w+")) for p in patterns if "*" in p]
    assert not [p.pattern for p in mixed if not any(map(p.fullmatch, names))]
    unused = {key for key in names - whole if not any(p.fullmatch(key) for p in mixed)}
    assert not unused
    direct = {
        key
        for text in modules().values()
        for speaker in re.findall(rf"const (\w+) = speaker\({name}\);", text)
        for key in re.findall(rf"\b{speaker}\('(\w+)'", text)
    }
    assert direct <= names


def test_html_has_the_english_texts(tables: dict[str, Any]) -> None:
    """A reader without JavaScript, and the browser before its modules run, show these."""
    html = (FOLDER / "index.html").read_text("utf-8")
    for element in re.findall(r"<[^>]*data-say[^>]*>[^<]*", html):
        for kind, table, name in re.findall(r'data-(say[\w-]*)="(\w+)\.(\w+)"', element):
            text = tables[table]["en"][name]
            if kind == "say":
                assert element.endswith(f">{text}"), (table, name)
            else:
                assert f'="{text}"' in element, (table, name)


def test_language_is_chosen_and_remembered(reader: Reader, page: Page) -> None:
    reader.open()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    assert reader.chosen("language") == "en"
    reader.choose("language", "pt")
    expect(page.locator("html")).to_have_attribute("lang", "pt-BR")
    expect(page.get_by_text("Traduza e veja por dentro.")).to_be_visible()
    page.goto("about:blank")
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("lang", "pt-BR")
    assert reader.chosen("language") == "pt"
    reader.choose("language", "en")
    expect(page.get_by_text("Translate, and look inside.")).to_be_visible()


@pytest.mark.parametrize("options", [{"locale": "pt-BR"}])
def test_language_is_that_of_the_browser(page: Page) -> None:
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("lang", "pt-BR")
    expect(page).to_have_title("Regard · traduza e veja por dentro")


def test_view_is_kept_when_the_language_changes(reader: Reader, page: Page, api: Api) -> None:
    """The text does not enter the address, and nothing stays in the storage."""
    reader.open().field.fill(KIDS)
    reader.choose("kind", "encoder").until_shown()
    reader.choose("language", "pt").until_shown()
    expect(page.get_by_role("textbox", name="Texto para traduzir")).to_have_value(KIDS)
    expect(reader.output).to_have_text(api.translate(KIDS, "auto")["translatedText"])
    assert reader.chosen("kind") == "encoder"
    assert not urlsplit(page.url).fragment
    assert page.evaluate("sessionStorage.length") == 0


@pytest.mark.parametrize("options", [{"locale": "pt-BR"}])
def test_page_speaks_portuguese_from_end_to_end(
    reader: Reader, page: Page, api: Api, watch: Watch, tables: dict[str, Any]
) -> None:
    watch.allow("Failed to load resource")
    page.goto("/")
    page.get_by_role("textbox", name="Texto para traduzir").fill(KIDS)
    expect(page.locator("#source :checked")).to_have_text("Inglês (detectado)")
    reader.until_shown()
    reader.output.get_by_role("button").nth(1).hover()
    expect(page.locator("#pairs")).to_contain_text("olha para")
    page.get_by_role("button", name="Outras traduções").click()
    expect(page.locator("#alternatives button")).not_to_have_count(1)
    for kind in ("encoder", "cross"):
        reader.choose("kind", kind).until_shown()
    reader.choose("heads", "2")
    reader.cell(1, 2).click()
    expect(page.locator("#steps-title")).to_contain_text("Passo a passo")
    expect(page.locator("#steps-table tbody tr")).not_to_have_count(0)
    page.get_by_label("Mostrar os vetores q, k e v").check()
    expect(page.locator("#steps-table thead th")).to_have_count(9)
    reader.unfold_all()
    page.route("**/translate", lambda route: refuse(route))
    page.get_by_role("textbox", name="Texto para traduzir").fill(POOL)
    expect(page.locator("#translate-notice")).to_contain_text("Isso demorou demais.")
    shown = page.evaluate(TEXTS)
    english = {
        text: (table, name)
        for table, languages in tables.items()
        for name, text in languages["en"].items()
        if text != languages["pt"][name] and text not in languages["pt"].values()
    }
    assert not [(text, english[text]) for text in shown if text in english]


TEXTS = """() => [...document.querySelectorAll('body *:not(math, math *)')].flatMap((node) => [
    ...[...node.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()),
    node.ariaLabel, node.title, node.placeholder, node.ariaRoleDescription,
]).filter(Boolean)"""


def refuse(route: Route) -> None:
    route.fulfill(status=504, json={"error": "not done in 60 s", "error_type": "deadline_exceeded"})
