"""DeepL's routes: texts, options, languages, usage, and errors in DeepL's shape."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.deepl.routes import NO_LIMIT
from service.errors import QuotaExceededError
from tests.api.conftest import Serve, ServeAny, ServeApart
from tests.api.servers import AnyServer, Server, assert_error
from tests.workers import LIMIT_SECONDS, Script

TWO_LINES = "It is a long\nsentence. And one more."


def body(*text: str, **fields: Any) -> dict[str, Any]:
    return {"text": [*text], "source_lang": "EN", "target_lang": "PT-BR", **fields}


def translate(server: AnyServer, *text: str, **fields: Any) -> httpx.Response:
    return server.post("/v2/translate", json=body(*text, **fields))


def translations(server: AnyServer, *text: str, **fields: Any) -> list[dict[str, Any]]:
    response = translate(server, *text, **fields)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["translations"]
    return found


def assert_refused(
    response: httpx.Response, status: int, message: str, detail: str | None = None
) -> None:
    assert response.status_code == status
    expected = {"message": message} if detail is None else {"message": message, "detail": detail}
    assert response.json() == expected
    assert response.headers["x-trace-id"] == response.headers["x-request-id"]


def test_texts_come_back_in_order_with_their_language_alone(server: Server) -> None:
    response = translate(server, "One.", "", "Two.")
    assert response.status_code == 200
    assert response.json() == {
        "translations": [
            {"detected_source_language": "EN", "text": text} for text in ("One.", "", "Two.")
        ]
    }
    assert response.headers["x-trace-id"] == response.headers["x-request-id"]
    assert response.headers["server-timing"]


def test_other_dialects_have_no_trace_id(server: Server) -> None:
    assert "x-trace-id" not in server.translate("Hello.").headers


def test_language_of_each_text_is_detected(server: Server) -> None:
    texts = ("The weather is beautiful today.", "O tempo hoje está muito bonito, meus amigos.")
    replies = translations(server, *texts, source_lang=None, target_lang="pt")
    assert [each["detected_source_language"] for each in replies] == ["EN", "PT"]


@pytest.mark.parametrize("source", [{}, {"source_lang": ""}])
def test_form_repeats_its_texts(server: Server, source: dict[str, str]) -> None:
    form = {"text": ["The house is red.", "The sea is blue."], "target_lang": "PT-PT", **source}
    replies = server.post("/v2/translate", data=form).json()["translations"]
    assert [each["text"] for each in replies] == form["text"]


def test_form_may_have_one_text_and_spells_booleans_as_digits(server: Server) -> None:
    form = {"text": "Hello.", "target_lang": "pt", "source_lang": "en"}
    switches = {"show_billed_characters": "1", "preserve_formatting": "0", "outline_detection": "0"}
    assert server.post("/v2/translate", data={**form, **switches}).json() == {
        "translations": [
            {"detected_source_language": "EN", "text": "Hello.", "billed_characters": 6}
        ]
    }


@pytest.mark.parametrize(
    ("split", "num_sentences"), [("1", 3), (1, 3), (None, 3), ("nonewlines", 2), ("0", 1), (0, 1)]
)
def test_split_sentences_decides_the_sentences(
    server: Server, script: Script, split: str | int | None, num_sentences: int
) -> None:
    (reply,) = translations(server, TWO_LINES, split_sentences=split)
    assert len(script.admitted) == num_sentences
    assert reply["text"].split() == TWO_LINES.split()


def test_characters_are_code_points(server: Server) -> None:
    replies = translations(server, "Hi 🎉 é", "", show_billed_characters=True)
    assert [each["billed_characters"] for each in replies] == [6, 0]


@pytest.mark.parametrize(
    "fields",
    [
        *(
            {"formality": each}
            for each in ("default", "prefer_more", "prefer_less", "more", "less")
        ),
        {"formality": None, "glossary_id": None, "tag_handling": None, "context": None},
        {"glossary_id": "", "tag_handling": "", "glossary_ids": []},
        {"context": "About a house.", "auth_key": "key", "ignore_tags": ["x"], "unknown": 1},
    ],
)
def test_option_without_effect_is_accepted(server: Server, fields: dict[str, Any]) -> None:
    assert translations(server, "Hello.", **fields)


def test_model_type_and_version_of_tag_handling_are_repeated(server: Server) -> None:
    for asked in ("quality_optimized", "prefer_quality_optimized", "latency_optimized"):
        (reply,) = translations(server, "Hello.", model_type=asked, tag_handling_version="v1")
        assert reply["model_type_used"] == asked.removeprefix("prefer_")
        assert "tag_handling_version" not in reply
    fields = {"tag_handling": "html", "tag_handling_version": "v1"}
    (reply,) = translations(server, "<p>Hi.</p>", **fields)
    assert reply["tag_handling_version"] == "v1"


NO_VALUE = "Value for '{}' not supported."


@pytest.mark.parametrize(
    ("fields", "message", "detail"),
    [
        ({"text": None}, "Parameter 'text' not specified", None),
        ({"text": []}, "Parameter 'text' not specified", None),
        ({"text": ""}, "Parameter 'text' not specified", None),
        ({"target_lang": None}, "Parameter 'target_lang' not specified", None),
        ({"target_lang": "ZZ"}, NO_VALUE.format("target_lang"), "ZZ is not supported; sup"),
        ({"source_lang": "xx"}, NO_VALUE.format("source_lang"), "xx is not supported; sup"),
        ({"source_lang": "auto"}, NO_VALUE.format("source_lang"), "auto is not supported"),
        ({"text": ["a", 1]}, NO_VALUE.format("text"), "Invalid request: text[1] parameter"),
        ({"split_sentences": "2"}, NO_VALUE.format("split_sentences"), "2 split_sentences"),
        ({"split_sentences": True}, NO_VALUE.format("split_sentences"), "true split_sentences"),
        ({"formality": "very"}, NO_VALUE.format("formality"), "very formality is not sup"),
        ({"model_type": "best"}, NO_VALUE.format("model_type"), "best model_type is not"),
        ({"tag_handling": "json"}, NO_VALUE.format("tag_handling"), "json tag_handling is not"),
        ({"tag_handling_version": "v3"}, NO_VALUE.format("tag_handling_version"), "v3 tag_handl"),
        ({"ignore_tags": [1], "tag_handling": "xml"}, NO_VALUE.format("ignore_tags"), "Invalid re"),
        (
            {"text": ["a <b>c"], "tag_handling": "xml"},
            "Tag handling parsing failed, please check input.",
            "mismatched tag: line 1, column 8",
        ),
        *(
            ({name: value}, f"'{name}' is not available on this server.", detail)
            for name, value, detail in (
                ("style_id", "a", "a: there are no style rules; leave style_id out"),
                ("translation_memory_id", "a", "a: there are no translation memories; leave"),
                ("custom_instructions", ["Be kind."], "['Be kind.']: the models do not follow"),
            )
        ),
        ({"text": ["a"] * 51}, "Too many texts", "51 texts; the limit is 50, send fewer"),
    ],
)
def test_wrong_parameter_is_refused_in_deepls_words(
    server: Server, script: Script, fields: dict[str, Any], message: str, detail: str | None
) -> None:
    response = translate(server, "Hello.", **fields)
    assert (response.status_code, response.json()["message"]) == (400, message)
    found = response.json().get("detail")
    assert found == detail if detail is None else found.startswith(detail)
    assert not script.admitted


@pytest.mark.parametrize("formality", ["more", "less"])
def test_formality_is_refused_by_a_setting(serve: Serve, formality: str) -> None:
    server = serve(deepl_formality="refuse")
    assert translations(server, "Hello.", formality=f"prefer_{formality}")
    response = translate(server, "Hello.", formality=formality)
    message = "'formality' is not supported for given 'target_lang'."
    assert_refused(response, 400, message, f"send default or prefer_{formality}")


def test_pair_without_a_model_is_refused_by_its_target(serve: Serve, english: str) -> None:
    response = translate(serve(models=(english,)), "Olá.", source_lang="PT", target_lang="EN-GB")
    message = "Value for 'target_lang' not supported."
    assert (response.status_code, response.json()["message"]) == (400, message)
    detail = "English (en) is not available as a target language from Portuguese (pt)"
    assert response.json()["detail"].startswith(detail)


def test_every_route_takes_the_key_wherever_a_client_puts_it(serve: Serve) -> None:
    server = serve(api_keys="right")
    message = "Authorization failure, check auth_key"
    hint = "send a key in the header `Authorization: DeepL-Auth-Key …`"
    for path in ("/v2/translate", "/v2/languages", "/v2/usage"):
        headers = {"authorization": "DeepL-Auth-Key right"}
        assert server.post(path, headers=headers).status_code in (200, 400)
        for place in ("params", "data", "json"):
            given: dict[str, Any] = {place: {"auth_key": "right"}}
            assert server.post(path, **given).status_code in (200, 400), (path, place)
        assert_refused(server.post(path), 403, message, hint)


# Languages and usage

SOURCES = [{"language": "EN", "name": "English"}, {"language": "PT", "name": "Portuguese"}]
TARGETS = [
    {"language": "EN-GB", "name": "British English", "supports_formality": False},
    {"language": "EN-US", "name": "American English", "supports_formality": False},
    {"language": "PT-BR", "name": "Brazilian Portuguese", "supports_formality": False},
    {"language": "PT-PT", "name": "European Portuguese", "supports_formality": False},
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("place", ["params", "data", "json"])
@pytest.mark.parametrize(("kind", "listed"), [("source", SOURCES), ("target", TARGETS)])
def test_type_of_languages_is_read_wherever_a_client_puts_it(
    server: Server, method: str, place: str, kind: str, listed: list[dict[str, Any]]
) -> None:
    """DeepL's Python client sends a form with GET."""
    given: dict[str, Any] = {place: {"type": kind}}
    assert server.begin(method, "/v2/languages", **given).result().json() == listed
    assert server.get("/v2/languages").json() == SOURCES


def test_listed_languages_are_accepted(server: Server) -> None:
    for source in SOURCES:
        for target in TARGETS:
            given = {"source_lang": source["language"], "target_lang": target["language"]}
            assert translations(server, "A.", **given)


def test_other_type_of_languages_is_refused(server: Server) -> None:
    response = server.get("/v2/languages", params={"type": "both"})
    message = "Value for 'type' not supported."
    assert_refused(response, 400, message, "both type is not supported; use source or target")


def language(
    lang: str, name: str, *features: str, source: bool = True, target: bool = True
) -> dict[str, Any]:
    usable = {"usable_as_source": source, "usable_as_target": target}
    found = {feature: {"status": "stable"} for feature in features}
    return {"lang": lang, "name": name, **usable, "status": "stable", "features": found}


TEXTS = "glossary", "tag_handling"


@pytest.mark.parametrize(
    ("resource", "listed"),
    [
        (
            "translate_text",
            [
                language("en", "English", "auto_detection", *TEXTS),
                language("en-GB", "British English", *TEXTS, source=False),
                language("en-US", "American English", *TEXTS, source=False),
                language("pt", "Portuguese", "auto_detection", *TEXTS),
                language("pt-BR", "Brazilian Portuguese", *TEXTS, source=False),
                language("pt-PT", "European Portuguese", *TEXTS, source=False),
            ],
        ),
        ("glossary", [language("en", "English"), language("pt", "Portuguese")]),
        ("translate_document", []),
        ("voice", []),
    ],
)
def test_languages_of_a_resource(
    server: Server, resource: str, listed: list[dict[str, Any]]
) -> None:
    assert server.get("/v3/languages", params={"resource": resource}).json() == listed
    names = [each["name"] for each in server.get("/v3/languages/resources").json()]
    assert (resource in names) == bool(listed)


def test_resources_of_documents(files: Server) -> None:
    listed = files.get("/v3/languages", params={"resource": "translate_document"}).json()
    assert list(listed[0]["features"]) == ["auto_detection", "glossary"]
    assert {"name": "glossary", "features": []} in files.get("/v3/languages/resources").json()


def test_languages_of_one_direction(serve: Serve, english: str) -> None:
    server = serve(models=(english,))
    listed = server.get("/v3/languages", params={"resource": "glossary"}).json()
    assert listed == [
        language("en", "English", target=False),
        language("pt", "Portuguese", source=False),
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [({}, "Parameter 'resource' not specified"), ({"resource": "x"}, NO_VALUE.format("resource"))],
)
def test_unknown_resource_is_refused(server: Server, query: dict[str, str], message: str) -> None:
    response = server.get("/v3/languages", params=query)
    assert (response.status_code, response.json()["message"]) == (400, message)


def usage(server: AnyServer, method: str = "GET") -> dict[str, int]:
    body: dict[str, int] = server.begin(method, "/v2/usage").result(LIMIT_SECONDS).json()
    return body


def test_usage_counts_the_characters_of_translations_by_deepls_route(serve_any: ServeAny) -> None:
    server = serve_any()
    assert usage(server) == {"character_count": 0, "character_limit": NO_LIMIT}
    translate(server, "Hi 🎉 é", "One.")
    translate(server, "Hello.", target_lang="zz")
    server.translate("Hello.")
    server.until_answered()
    assert usage(server) == usage(server, "POST")
    assert usage(server) == {"character_count": 10, "character_limit": NO_LIMIT}
    assert server.sample("regard_billed_characters_total") == 10
    labels = {"task": "translate", "model": "en-pt", "outcome": "ok"}
    assert server.sample("regard_inputs_total", **labels) == 3


# The quota


def test_quota_is_one_count_of_all_dialects_and_processes(
    serve_apart: ServeApart, tmp_path: Path
) -> None:
    server = serve_apart(monthly_characters=30, state=str(tmp_path), api_keys="mine,yours")
    mine = {"headers": {"authorization": "DeepL-Auth-Key mine"}}
    hello = {"q": "Hello, you.", "source": "en", "target": "pt", "api_key": "mine"}
    for count in (11, 22):
        assert server.post("/translate", json=hello).status_code == 200
        reply = {"character_count": count, "character_limit": 30}
        assert server.get("/v2/usage", **mine).json() == reply
    response = server.post("/v2/translate", json=body("Hello, you."), **mine)
    detail = "22 of 30 characters of this month are used, and the request has 11; send fewer, wait"
    assert response.status_code == 456
    assert response.json()["message"] == "Quota exceeded"
    assert response.json()["detail"].startswith(detail)
    assert_error(server.post("/translate", json=hello), QuotaExceededError, "22 of 30")
    yours = {"headers": {"authorization": "Bearer yours"}}
    assert server.post("/v2/translate", json=body("Hello, you."), **yours).status_code == 200


def test_keys_without_meaning_share_one_count(serve: Serve, tmp_path: Path) -> None:
    server = serve(monthly_characters=10, state=str(tmp_path))
    statuses = [
        server.post(
            "/v2/translate", json=body("Hello."), headers={"authorization": f"DeepL-Auth-Key {key}"}
        ).status_code
        for key in ("a", "b")
    ]
    assert statuses == [200, 456]


# Tags. The models of these servers return their input; the words of a sentence are one translation.


def num_sentences(server: Server, script: Script, text: str, **fields: Any) -> int:
    script.admitted.clear()
    (reply,) = translations(server, text, tag_handling="xml", **fields)
    assert reply == {"detected_source_language": "EN", "text": text, "tag_handling_version": "v2"}
    return len(script.admitted)


XML = "<d><p>One and two.</p><p>Three\nand four. Five</p></d>"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 3),
        ({"split_sentences": "nonewlines"}, 3),
        ({"split_sentences": "0"}, 2),
        ({"ignore_tags": ["p"]}, 0),
        ({"ignore_tags": "a, p"}, 0),
        ({"outline_detection": False, "splitting_tags": "p"}, 3),
    ],
)
def test_tags_of_xml_decide_the_sentences(
    server: Server, script: Script, fields: dict[str, Any], expected: int
) -> None:
    text = XML.replace("\n", " ")
    assert num_sentences(server, script, text, **fields) == expected


def test_placeholders_of_weblate_come_back(server: Server, script: Script) -> None:
    text = 'Save <x id="7"></x> &amp; <x id="12"></x>?'
    assert num_sentences(server, script, text, ignore_tags=["x"]) == 1
    form = {"text": text, "source_lang": "en", "target_lang": "pt", "ignore_tags": "x"}
    reply = server.post("/v2/translate", data={**form, "tag_handling": "xml"}).json()
    assert reply["translations"][0]["text"] == text


def test_language_of_marked_words_is_detected(server: Server) -> None:
    text = "<p lang='en'>O tempo hoje está muito bonito, meus amigos.</p>"
    for tag_handling in ("xml", "html"):
        languages = {"source_lang": None, "target_lang": "EN-GB"}
        (reply,) = translations(server, text, **languages, tag_handling=tag_handling)
        assert reply["detected_source_language"] == "PT"
