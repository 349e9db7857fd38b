"""Buttons, labels, menus and messages are translated with their case, punctuation and space."""

import re
from pathlib import Path

import pytest

from tests.api.servers import AnyServer

pytestmark = pytest.mark.checkpoint

STRINGS = Path(__file__).parents[1].joinpath("data/ui_strings.txt").read_text().splitlines()
SMALL = {"of", "to", "and", "in", "the"}


def space_around(text: str) -> tuple[str, str]:
    words = text.strip()
    start = text.index(words)
    return text[:start], text[start + len(words) :]


def last_marks(text: str) -> str:
    found = re.search(r"[.,:;!?…\-–)\]\"]*$", text.rstrip())
    return found[0] if found else ""


def case_of(text: str) -> str:
    words = re.findall(r"(?<![\w%{])[^\W\d_]+", text)
    if not words or text.strip()[0] in "{123456789":
        return "no rule"
    if all(word.isupper() for word in words):
        return "capitals"
    if words[0][0].islower():
        return "lower"
    long = [word for word in words[1:] if word not in SMALL]
    is_title = long and len(words) > 1 and all(word[0].isupper() for word in long)
    return "title" if is_title else "first letter"


def title_words(text: str) -> list[str]:
    first, *others = re.findall(r"[^\W\d_][\w-]*", text)
    return [first, *(word for word in others if len(word) > 3)]


def test_list_has_all_kinds() -> None:
    assert len(STRINGS) == len({*STRINGS}) >= 200
    kinds = [case_of(text) for text in STRINGS]
    assert all(kinds.count(kind) >= 15 for kind in ("capitals", "title", "lower", "first letter"))


def test_strings_keep_their_form(real_server: AnyServer) -> None:
    response = real_server.translate(STRINGS)
    assert response.status_code == 200, response.text
    wrong = []
    for source, translated in zip(STRINGS, response.json()["translatedText"], strict=True):
        kind = case_of(source)
        keeps_case = {
            "capitals": translated.upper() == translated,
            "lower": case_of(translated) == "lower",
            "title": all(word[0].isupper() for word in title_words(translated)),
            "first letter": case_of(translated) not in ("lower", "capitals"),
            "no rule": True,
        }[kind]
        keeps_space = space_around(translated) == space_around(source)
        if not (keeps_case and keeps_space and last_marks(translated) == last_marks(source)):
            wrong.append((source, translated))
    assert not wrong


def test_capitals_are_translated(real_server: AnyServer) -> None:
    texts = ["DELETE ALL FILES", "ENTER YOUR PASSWORD", "USB PORT", "NO {count} RESULTS"]
    found = real_server.translate(texts).json()["translatedText"]
    assert found[:3] == ["EXCLUIR TODOS OS ARQUIVOS", "DIGITE SUA SENHA", "PORTA USB"]
    assert "{count}" in found[3]
    assert "RESULTADO" in found[3]


def test_html_has_the_same_form(real_server: AnyServer) -> None:
    found = real_server.translate("<b>BUY NOW</b> <p>Hello</p>", format="html").json()
    assert found["translatedText"] == "<b>COMPRE AGORA</b> <p>Olá</p>"


def test_alignment_has_the_same_form(real_server: AnyServer) -> None:
    found = real_server.translate("Hello", return_alignment=True).json()
    assert found["translatedText"] == "Olá"
    (sentence,) = found["alignment"]
    assert (sentence["source_words"], sentence["target_words"]) == ([[0, 5]], [[0, 3]])
