"""Glossaries: DeepL's routes of versions 2 and 3, and translations that use terms."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.errors import InvalidRequestError, NotFoundError
from tests.api.conftest import Serve, ServeApart, shared
from tests.api.servers import AnyServer, Server, assert_error
from tests.api.test_translate_file import fetch, send
from tests.workers import LIMIT_SECONDS, Script

ENTRIES = "cat\tfelino\nhouse\tmansão"
ENPT = {"source_lang": "EN", "target_lang": "PT-BR", "entries": ENTRIES, "entries_format": "tsv"}
PTEN = {"source_lang": "pt", "target_lang": "en", "entries": "casa\tmansion"}
MISSING = {"message": "Glossary not found", "detail": "no glossary has the id x"}


@pytest.fixture(scope="module")
def stateful(shared_script: Script, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from shared(shared_script, state=str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def server(stateful: Server, script: Script) -> Iterator[Server]:
    """One of all tests; it has no glossaries at first."""
    yield stateful
    for glossary in stateful.get("/v3/glossaries").json()["glossaries"]:
        call(stateful, "DELETE", f"/v3/glossaries/{glossary['glossary_id']}")


def create(server: AnyServer, **fields: Any) -> dict[str, Any]:
    response = server.post("/v2/glossaries", json={"name": "Estate", **ENPT, **fields})
    assert response.status_code == 201, response.text
    body: dict[str, Any] = response.json()
    return body


def call(server: AnyServer, method: str, path: str, **request: Any) -> httpx.Response:
    return server.begin(method, path, **request).result(60)


def test_life_of_a_glossary_of_version_2(server: Server) -> None:
    glossary = create(server)
    expected = {"name": "Estate", "ready": True, "source_lang": "en", "target_lang": "pt"}
    assert glossary.items() >= expected.items()
    assert glossary["entry_count"] == 2
    path = f"/v2/glossaries/{glossary['glossary_id']}"
    assert server.get(path).json() == glossary
    assert server.get("/v2/glossaries").json() == {"glossaries": [glossary]}
    entries = server.get(f"{path}/entries")
    assert entries.headers["content-type"].startswith("text/tab-separated-values")
    assert entries.text == ENTRIES
    assert call(server, "DELETE", path).status_code == 204
    assert server.get("/v2/glossaries").json() == {"glossaries": []}
    for method in ("GET", "DELETE"):
        assert call(server, method, path).status_code == 404


def test_form_and_csv(server: Server) -> None:
    form = {**ENPT, "name": "a", "entries": "house,mansão\r\ncat,felino", "entries_format": "csv"}
    assert server.post("/v2/glossaries", data=form).json()["entry_count"] == 2


def form_of(*dictionaries: dict[str, str]) -> dict[str, str]:
    """The fields of dictionaries, as DeepL's clients for Node.js, Java and .NET send them."""
    return {
        f"dictionaries[{index}].{name}": value
        for index, dictionary in enumerate(dictionaries)
        for name, value in dictionary.items()
    }


def test_form_has_the_dictionaries_of_version_3(server: Server) -> None:
    response = server.post("/v3/glossaries", data={"name": "Both", **form_of(ENPT, PTEN)})
    assert response.status_code == 201
    glossary = response.json()
    assert [each["entry_count"] for each in glossary["dictionaries"]] == [2, 1]
    path = f"/v3/glossaries/{glossary['glossary_id']}"
    more = form_of({**PTEN, "entries": "mar\tsea"})
    assert call(server, "PATCH", path, data=more).json()["dictionaries"][1]["entry_count"] == 2
    assert call(server, "PATCH", path, data={"name": "New"}).json()["name"] == "New"
    refused = server.post("/v3/glossaries", data={"name": "a", **form_of({"source_lang": "en"})})
    assert refused.status_code == 400
    assert "target_lang" in refused.text


def test_change_of_nothing_is_refused(server: Server) -> None:
    glossary = create(server)["glossary_id"]
    response = call(server, "PATCH", f"/v3/glossaries/{glossary}", json={"dictionary": [PTEN]})
    assert response.status_code == 400
    assert "send name, dictionaries, or both" in response.text


def test_version_2_shows_glossaries_with_one_dictionary(server: Server) -> None:
    glossary = create(server)["glossary_id"]
    call(server, "PATCH", f"/v3/glossaries/{glossary}", json={"dictionaries": [PTEN]})
    assert server.get("/v2/glossaries").json() == {"glossaries": []}
    response = server.get(f"/v2/glossaries/{glossary}/entries")
    detail = f"it has 2 dictionaries; use /v3/glossaries/{glossary}"
    assert response.status_code == 404
    assert response.json() == {"message": "Glossary not found", "detail": detail}


def test_pairs_are_those_that_are_translated(server: Server) -> None:
    pairs = [{"source_lang": a, "target_lang": b} for a, b in (("en", "pt"), ("pt", "en"))]
    reply = server.get("/v2/glossary-language-pairs").json()
    assert reply == {"supported_languages": pairs}


ROUTES = [
    ("GET", "/v2/glossaries"),
    ("POST", "/v2/glossaries"),
    ("GET", "/v2/glossaries/x"),
    ("DELETE", "/v2/glossaries/x"),
    ("GET", "/v2/glossaries/x/entries"),
    ("GET", "/v2/glossary-language-pairs"),
    ("GET", "/v3/glossaries"),
    ("POST", "/v3/glossaries"),
    ("GET", "/v3/glossaries/x"),
    ("PATCH", "/v3/glossaries/x"),
    ("DELETE", "/v3/glossaries/x"),
    ("PUT", "/v3/glossaries/x/dictionaries"),
    ("DELETE", "/v3/glossaries/x/dictionaries"),
    ("GET", "/v3/glossaries/x/entries"),
]


def test_every_route_needs_a_key(serve: Serve) -> None:
    server = serve(api_keys="right")
    for method, path in ROUTES:
        response = call(server, method, path)
        assert response.status_code == 403, path
        assert response.json()["message"] == "Authorization failure, check auth_key"
        assert response.headers["x-trace-id"] == response.headers["x-request-id"]


def test_unknown_glossary_is_not_found(server: Server) -> None:
    languages = {"source_lang": "en", "target_lang": "pt"}
    for method, path in [each for each in ROUTES if "/x" in each[1]]:
        body = {"json": ENPT} if method in ("PUT", "PATCH") else {"params": languages}
        response = call(server, method, path, **body)
        assert (response.status_code, response.json()) == (404, MISSING), path


@pytest.mark.parametrize(
    ("fields", "message", "detail"),
    [
        ({"name": None}, "Parameter 'name' not specified", None),
        ({"name": " "}, "Parameter 'name' not specified", None),
        ({"name": "é" * 600}, "Value for 'name' not supported.", "the name has 1200 bytes"),
        ({"entries": None}, "Parameter 'entries' not specified", None),
        ({"entries": "a"}, "Invalid glossary entries provided", "line 1: it has 1 column;"),
        ({"entries_format": "xml"}, "Value for 'entries_format' not supported.", "xml entries_for"),
        ({"source_lang": "zz"}, "Value for 'source_lang' not supported.", "zz is not supported"),
        ({"target_lang": "en"}, "Value for 'target_lang' not supported.", "both languages are the"),
    ],
)
def test_wrong_glossary_is_refused(
    server: Server, fields: dict[str, Any], message: str, detail: str | None
) -> None:
    body = {"name": "Estate", **ENPT, **fields}
    response = server.post("/v2/glossaries", json=body)
    assert (response.status_code, response.json()["message"]) == (400, message)
    found = response.json().get("detail")
    assert found == detail if detail is None else found.startswith(detail)
    assert server.get("/v2/glossaries").json() == {"glossaries": []}


@pytest.mark.parametrize("form", [{"json": {"dictionaries": []}}, {"data": {}}])
def test_glossary_of_version_3_may_be_empty(server: Server, form: dict[str, Any]) -> None:
    ((place, fields),) = form.items()
    glossary = server.post("/v3/glossaries", **{place: {"name": "a", **fields}}).json()
    assert glossary["dictionaries"] == []
    path = f"/v3/glossaries/{glossary['glossary_id']}"
    filled = call(server, "PATCH", path, json={"dictionaries": [ENPT]}).json()
    assert [each["entry_count"] for each in filled["dictionaries"]] == [2]


# Translations. The models of these servers return their input, so the target terms are missing in
# the first translation, and the second one copies them.


def deepl(server: AnyServer, text: str, **fields: Any) -> httpx.Response:
    body = {"text": [text], "source_lang": "EN", "target_lang": "PT-BR", **fields}
    return server.post("/v2/translate", json=body)


def test_terms_are_used_by_both_dialects(server: Server) -> None:
    glossary = create(server)["glossary_id"]
    text = "The cat is in the house. House, {cat} and dog."
    expected = "The felino is in the mansão. Mansão, {cat} and dog."
    (reply,) = deepl(server, text, glossary_id=glossary).json()["translations"]
    assert reply["text"] == expected
    (reply,) = deepl(server, text, glossary_ids=[glossary]).json()["translations"]
    assert reply["text"] == expected
    assert server.translate(text, glossary=glossary).json()["translatedText"] == expected
    assert server.translate(text, glossary="").json()["translatedText"] == text


def test_terms_are_used_in_documents(serve: Serve, tmp_path: Path) -> None:
    server = serve(state=str(tmp_path), files=True)
    glossary = create(server)["glossary_id"]
    document = "a.txt", "The cat is here."
    assert fetch(server, send(server, *document, glossary=glossary)).text == "The felino is here."
    refused = send(server, *document, glossary=glossary, source="auto")
    assert_error(refused, InvalidRequestError, "a glossary needs the source language")
    assert_error(send(server, *document, glossary="x"), NotFoundError)


def test_terms_are_used_in_html(server: Server) -> None:
    glossary = create(server, entries="cat\tA & B")["glossary_id"]
    html = "<p>The cat &amp; a cat.</p>"
    response = server.translate(html, format="html", glossary=glossary)
    assert response.json()["translatedText"] == "<p>The A &amp; B &amp; a A &amp; B.</p>"


def test_processes_share_glossaries(serve_apart: ServeApart, tmp_path: Path) -> None:
    server = serve_apart(state=str(tmp_path))
    glossary = create(server)["glossary_id"]
    for _ in range(8):  # the connections of a client reach both processes
        with httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=LIMIT_SECONDS
        ) as client:
            body = {"q": "A cat.", "source": "en", "target": "pt", "glossary": glossary}
            assert client.post("/translate", json=body).json()["translatedText"] == "A felino."


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"glossary_id": "x"}, 404, "Glossary not found"),
        ({"glossary_ids": ["x"]}, 404, "Glossary not found"),
        ({"glossary_ids": ["x"] * 6}, 400, "Too many glossaries"),
        (
            {"glossary_ids": ["x"], "glossary_id": "x"},
            400,
            "'glossary_id' and 'glossary_ids' cannot be used together",
        ),
        ({"glossary_id": "x", "source_lang": None}, 404, "Glossary not found"),
    ],
)
def test_wrong_glossary_of_a_translation(
    server: Server, fields: dict[str, Any], status: int, message: str
) -> None:
    response = deepl(server, "A cat.", **fields)
    assert (response.status_code, response.json()["message"]) == (status, message)


def test_glossary_without_the_languages_is_refused(server: Server) -> None:
    glossary = create(server)["glossary_id"]
    response = deepl(server, "A.", source_lang="PT", target_lang="EN-GB", glossary_id=glossary)
    message = f"No dictionary found for language pair pt-en in glossary {glossary}"
    assert (response.status_code, response.json()["message"]) == (400, message)


def test_glossary_gives_the_source_language(server: Server) -> None:
    """`Cat` alone would be of no sure language."""
    both = create(server)["glossary_id"]
    call(server, "PATCH", f"/v3/glossaries/{both}", json={"dictionaries": [PTEN]})
    fields = {"source_lang": None, "glossary_id": both}
    (reply,) = deepl(server, "Cat", **fields).json()["translations"]
    assert reply == {"detected_source_language": "EN", "text": "Felino"}
    empty = server.post("/v3/glossaries", json={"name": "a"}).json()["glossary_id"]
    response = deepl(server, "Cat", **{**fields, "glossary_id": empty})
    message = "Use of a glossary requires the 'source_lang' parameter to be specified"
    detail = "source languages of the glossary: none"
    assert (response.status_code, response.json()) == (400, {"message": message, "detail": detail})


def test_libretranslate_refuses_what_a_glossary_cannot_do(server: Server) -> None:
    response = server.translate("A.", glossary="x")
    assert_error(response, NotFoundError, "Glossary not found", "no glossary has the id x")
    response = server.translate("A.", glossary="x", source="auto")
    assert_error(response, InvalidRequestError, "a glossary needs the source language")
    response = server.translate("A.", glossary="x", return_alignment=True)
    assert_error(response, InvalidRequestError, "return_alignment")


REAL = {
    "The house is red.": ["A vivenda é vermelha."],
    "Is this the cat's house, {name}?": ["vivenda", "felino", "{name}"],
    "House prices rise.": ["ivenda"],
    "They told us that the US left.": [" nos ", "EUA do norte"],
    "HOUSE FOR SALE": ["VIVENDA"],
    "The Škoda is red.": ["Escoda"],  # the vocabulary has no Š
    "I write C++ code, and {Škoda}.": ["C mais mais", "{Škoda}"],
}


def test_real_models_use_terms(serve_real: ServeApart, tmp_path: Path) -> None:
    server = serve_real(state=str(tmp_path))
    entries = "house\tvivenda\ncat\tfelino\nUS\tEUA do norte\nŠkoda\tEscoda\nC++\tC mais mais"
    glossary = create(server, entries=entries)["glossary_id"]
    reply = server.translate([*REAL], glossary=glossary).json()["translatedText"]
    for text, parts in zip(reply, REAL.values(), strict=True):
        assert [part for part in parts if part not in text] == [], text
    stream_uses_terms_and_tags(server)
    tags_move_with_the_terms(server)


def stream_uses_terms_and_tags(server: AnyServer) -> None:
    glossary = create(server, entries="house\tvivenda\ncat\tfelino")["glossary_id"]
    text = (
        "<p>The old <b>house</b> is red. The <i>cat</i> sleeps.</p><p>Hello {name}, my house.</p>"
    )
    body = {"q": text, "source": "en", "target": "pt", "glossary": glossary, "format": "html"}
    plain = server.post("/translate", json=body).json()["translatedText"]
    response = server.post("/translate", json=body, headers={"Accept": "application/x-ndjson"})
    *sentences, done = [json.loads(line) for line in response.text.splitlines()]
    assert "".join(each["translatedText"] for each in sentences) == plain
    assert plain.count("ivenda") == 2
    assert done["sentences"] == 3


def tags_move_with_the_terms(server: AnyServer) -> None:
    glossary = create(server, entries="house\tvivenda\nred wine\tvinho de tinta")["glossary_id"]
    texts = {
        "<p>The old <b>house</b> is <i>red</i>.</p>": ["<b>vivenda</b>", "<i>vermelha</i>"],
        "<p><b>House</b> and garden.</p>": ["<p><b>Vivenda</b> e "],
        "<p>I drink <i>red wine</i> in my <b>house</b>.</p>": [
            "<i>vinho de tinta</i>",
            "<b>vivenda</b>",
        ],
        "<p>I drink <i>red</i> wine.</p>": ["<i>tinto</i>"],
    }
    reply = server.translate([*texts], glossary=glossary, format="html").json()["translatedText"]
    for text, parts in zip(reply, texts.values(), strict=True):
        assert [part for part in parts if part not in text] == [], text


def test_form_may_name_one_glossary_in_the_list(server: Server) -> None:
    fields = {"text": "The cat.", "source_lang": "EN", "target_lang": "PT-BR"}
    glossary = create(server)["glossary_id"]
    response = server.post("/v2/translate", data={**fields, "glossary_ids": glossary})
    assert response.status_code == 200, response.text
