"""Messages in ICU MessageFormat are translated by every route, with every option."""

from typing import Any

import httpx
import pytest

from service.text.messages import read_message
from tests.api.conftest import Serve
from tests.api.servers import AnyServer
from tests.api.test_translate_file import fetch, send
from tests.icu import MESSAGES, SYNTAXES, parsed, structure, texts
from tests.workers import Script

FILES = "You have {n, plural, one {# new file} other {# new files}} in {folder}."
PLURAL = "{count, plural, one {You have one new message} other {You have # new messages}}"
SELECT = "{who, select, female {{name} likes her house} other {{name} likes the house}}"
TAGS = "{n, plural, one {<b>One</b> red house} other {<b>#</b> red houses}} & a dog"
QUOTE = "{n, plural, =0 {There''s no red house} other {Write '{'name'}' here}}"
REAL = [FILES, PLURAL, SELECT, TAGS, QUOTE, MESSAGES[1]]

BAD = "{n, plural, one {# file} other {# files}"
"""The last brace is missing."""


def assert_translated(sources: list[str], found: list[str]) -> None:
    assert len(sources) == len(found)
    for source, translation in zip(sources, found, strict=True):
        before, after = parsed(source), parsed(translation)
        assert structure(after.root) == structure(before.root)
        assert {*texts(after.root)}.isdisjoint(texts(before.root)), translation


def test_messages_are_translated(real_server: AnyServer) -> None:
    *found, plain, _ = real_server.translated([*REAL, "The red house.", BAD])["translatedText"]
    assert_translated(REAL, found)
    assert plain == "A casa vermelha."
    assert found[0].startswith("Você tem {n, plural, one {# ")
    assert found[0].endswith(" {folder}.")
    assert "other {<b>#</b> casas vermelhas}} " in found[3]
    assert "'{'" in found[4]


@pytest.mark.parametrize("suffix", SYNTAXES)
def test_messages_in_documents_are_translated(real_server: AnyServer, suffix: str) -> None:
    write, read = SYNTAXES[suffix]
    sent = send(real_server, f"a{suffix}", write(REAL))
    assert_translated(REAL, read(fetch(real_server, sent).content))


def test_deepl_translates_messages(real_server: AnyServer) -> None:
    body: dict[str, Any] = {"text": [FILES, TAGS], "source_lang": "EN", "target_lang": "PT-BR"}
    found = real_server.post("/v2/translate", json=body).json()["translations"]
    assert_translated([FILES, TAGS], [each["text"] for each in found])
    xml = FILES.replace("{folder}", "<x>the old {folder}</x>")
    body = {**body, "text": [xml], "tag_handling": "xml"}
    (one,) = real_server.post("/v2/translate", json=body).json()["translations"]
    message = read_message(one["text"], is_markup=True)
    assert message is not None
    assert structure(message.root) == structure(parsed(xml).root)


@pytest.mark.parametrize("tags", ["<code>@</code>", '<span translate="no">@</span>'])
def test_untranslated_elements_keep_their_messages(real_server: AnyServer, tags: str) -> None:
    kept = tags.replace("@", "{n, plural, one {# red file} other {# red files}}")
    found = real_server.translate([kept, f"<p>Use {kept} here.</p>"], format="html").json()
    alone, inside = found["translatedText"]
    assert alone == kept
    assert kept in inside
    assert "here" not in inside


def test_language_is_detected_without_the_keywords(real_server: AnyServer) -> None:
    text = "{n, plural, one {uma casa} few {casas} many {muitas casas} other {casas velhas}}"
    found = real_server.translate(text, source="auto", target="en").json()
    assert found["detectedLanguage"]["language"] == "pt"
    assert_translated([text], [found["translatedText"]])


def test_alternatives_are_messages(real_server: AnyServer) -> None:
    found = real_server.translate(PLURAL, alternatives=2).json()
    versions = [found["translatedText"], *found["alternatives"]]
    assert len({*versions}) == len(versions) > 1
    for version in versions:
        assert structure(parsed(version).root) == structure(parsed(PLURAL).root)


def test_scores_are_those_of_the_sentences(real_server: AnyServer) -> None:
    found = real_server.translate([PLURAL, "A cat."], return_scores=True).json()
    assert [len(scores) for scores in found["scores"]] == [2, 1]


def test_message_has_no_alignment(real_server: AnyServer) -> None:
    found = real_server.translate([FILES, "A cat."], return_alignment=True).json()
    assert_translated([FILES], found["translatedText"][:1])
    assert [len(each) for each in found["alignment"]] == [0, 1]


def stream(server: AnyServer, q: list[str], **fields: Any) -> list[str]:
    body = {"q": q, "source": "en", "target": "pt", **fields}
    headers = {"Accept": "application/x-ndjson"}
    response: httpx.Response = server.post("/translate", json=body, headers=headers)
    return response.text.splitlines()


@pytest.mark.parametrize("fields", [{}, {"return_alignment": True}])
def test_message_is_one_event_of_a_stream(real_server: AnyServer, fields: dict[str, bool]) -> None:
    q = ["A cat. A dog.", FILES, "A bird."]
    plain = real_server.translate(q, **fields).json()["translatedText"]
    events = [httpx.Response(200, text=line).json() for line in stream(real_server, q, **fields)]
    places = [(each["input"], each["sentence"]) for each in events[:-1]]
    assert places == [(0, 0), (0, 1), (1, 0), (2, 0)]
    assert events[2]["translatedText"] == plain[1]


def test_same_language_leaves_a_message_alone(serve: Serve) -> None:
    text = "It's  {n,plural , one{a'{b}'} other{''}}"
    assert serve().translate(text, target="en").json()["translatedText"] == text


def test_sentences_of_a_message_are_translated_once(serve: Serve, script: Script) -> None:
    server = serve()
    found = server.translate([PLURAL, BAD, "Hello {name}."]).json()["translatedText"]
    assert found == [PLURAL, BAD, "Hello {name}."]
    assert len(script.admitted) == 4
