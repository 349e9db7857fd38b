"""Texts and links in languages that the server does not translate, and the menus of languages."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Api
from tests.browser.reader import KIDS, POOL, Reader

GERMAN = "Die Kinder hatten Angst vor den Löwen, deshalb gingen sie sofort."
SPANISH = "Los niños tenían miedo de los leones, así que se fueron enseguida."


@pytest.mark.parametrize(("text", "language"), [(GERMAN, "German"), (SPANISH, "Spanish")])
def test_unserved_language_is_named_and_not_translated(
    reader: Reader, page: Page, api: Api, text: str, language: str
) -> None:
    """Both had become "This is Portuguese already"."""
    reader.open().field.fill(text)
    hint = page.locator("#same")
    expect(hint).to_contain_text(f"This looks like {language}.")
    expect(hint).to_contain_text("English and Portuguese")
    expect(reader.output).to_be_empty()
    expect(page.locator("#after")).to_be_hidden()
    guess = api.post("/detect", q=text)[0]["language"]
    name = {"en": "English", "pt": "Portuguese"}[guess]
    hint.get_by_role("button", name=f"Translate it as {name}").click()
    expect(reader.source).to_have_value(guess)
    expect(reader.output).not_to_be_empty()


@pytest.mark.parametrize("text", ["שלום עולם", "你好，世界", "Привет, мир"])
def test_text_in_another_script_is_said_to_be_unserved(
    reader: Reader, page: Page, text: str
) -> None:
    reader.open().field.fill(text)
    expect(page.locator("#same")).to_contain_text("none of the languages that this server")
    expect(reader.output).to_be_empty()


def test_text_without_words_stays_as_it_is(reader: Reader, page: Page) -> None:
    """Nothing was shown."""
    reader.open().field.fill("12345")
    expect(page.locator("#same")).to_contain_text("There are no words to translate.")
    expect(reader.output).to_have_text("12345")
    reader.field.fill(POOL)
    expect(page.locator("#same")).to_be_hidden()


@pytest.mark.parametrize(
    ("view", "told"),
    [
        ({"source": "de", "target": "fr"}, "from German to French"),
        ({"source": "en", "target": "fr"}, "from English to French"),
        ({"source": "auto", "target": "fr"}, "from any language to French"),
    ],
)
def test_link_to_an_unserved_language_says_so(
    reader: Reader, page: Page, view: dict[str, str], told: str
) -> None:
    page.goto(f"/#text=pool+beats+badminton&source={view['source']}&target={view['target']}")
    expect(page.locator("#same")).to_contain_text(told)
    expect(reader.output).not_to_be_empty()
    expect(page.locator("#same")).to_contain_text("This server does not have it.")
    reader.field.fill(KIDS)
    reader.source.select_option("en")
    expect(page.locator("#same")).to_be_hidden()


def test_menus_are_not_empty_before_the_languages_come(page: Page, reader: Reader) -> None:
    held: list[Route] = []
    page.route("**/languages", lambda route: held.append(route))
    with page.expect_request("**/languages"):
        page.goto("/")
    expect(reader.source.locator("option")).to_have_text(["Detect language"])
    expect(reader.target.locator("option")).to_have_text(["Loading the languages"])
    for route in held:
        route.fallback()
    expect(reader.target).to_have_value("pt")
