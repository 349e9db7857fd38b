"""Azure's routes: the requests of its clients, positions in UTF-16, limits and errors."""

from typing import Any

import httpx
import pytest

from service.api.azure.routes import BASE
from tests.api.conftest import Serve
from tests.api.servers import Server
from tests.hf_files import SENTENCE
from tests.workers import LIMIT_SECONDS, Script

from .test_pivot import models

__all__ = ["models"]  # a fixture

WEATHER, TEMPO = "The weather is beautiful today.", "O tempo hoje está muito bonito."
V3 = {"api-version": "3.0"}
PT = {"text": "A.", "to": "pt"}
EN = {"text": "A.", "to": "en"}


def translate(
    server: Server, *texts: str, path: str = "/translate", **query: Any
) -> list[dict[str, Any]]:
    params = {**V3, "to": "pt", "from": "en", **query}
    body = [{"Text": text} for text in texts]
    found: list[dict[str, Any]] = server.reply(path, body, params=params)
    return found


REQUESTS: dict[str, tuple[str, Any, Any]] = {
    "Weblate": (
        "/translate?api-version=3.0&from=en&to=pt&category=general",
        [{"Text": "A."}],
        [{"translations": [PT]}],
    ),
    "deep-translator": (
        "/translate?api-version=3.0&from=auto&to=pt",
        [{"text": TEMPO}],
        [{"translations": [{"text": TEMPO, "to": "pt"}]}],
    ),
    "Azure SDK": (
        "/translate?to=pt&to=en&from=en&textType=Plain&profanityAction=NoAction"
        "&profanityMarker=Asterisk&includeAlignment=false&includeSentenceLength=true"
        "&allowFallback=true&api-version=3.0",
        [{"text": "One cat. Two cats."}],
        [
            {
                "translations": [
                    {
                        "text": "One cat. Two cats.",
                        "to": code,
                        "sentLen": {"srcSentLen": lengths, "transSentLen": lengths},
                    }
                    for code, lengths in (("pt", [9, 9]), ("en", [18]))
                ]
            }
        ],
    ),
    "custom domain": (
        f"{BASE}/translate?api-version=3.0&to=pt&from=en",
        [{"Text": "A."}],
        [{"translations": [PT]}],
    ),
    "browser extensions": (
        "/translate?from=&to=pt&api-version=3.0&textType=html&includeSentenceLength=true",
        [{"Text": "<p>O gato.</p>"}],
        [
            {
                "translations": [
                    {
                        "text": "<p>O gato.</p>",
                        "to": "pt",
                        "sentLen": {"srcSentLen": [14], "transSentLen": [14]},
                    }
                ]
            }
        ],
    ),
    "commas": (
        "/translate?api-version=3.0&to=pt, en&from=en",
        [{"Text": "A."}, {"Text": ""}],
        [{"translations": [PT, EN]}, {"translations": [{**PT, "text": ""}, {**EN, "text": ""}]}],
    ),
    "the same language twice": (
        "/translate?api-version=3.0&to=pt&to=pt-PT&to=pt&from=en",
        [{"Text": "A."}],
        [{"translations": [PT, {**PT, "to": "pt-PT"}, PT]}],
    ),
}
"""Requests as the public code of clients sends them, and the reply."""


@pytest.mark.parametrize("client", REQUESTS)
def test_request_of_a_client(server: Server, client: str) -> None:
    path, body, expected = REQUESTS[client]
    headers = {"X-ClientTraceId": "c0ffee", "Content-Type": "application/json; charset=UTF-8"}
    response = server.post(path, json=body, headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["x-requestid"] == response.headers["x-request-id"]
    found = response.json()
    if "from=en" not in path:
        assert {each.pop("detectedLanguage")["language"] for each in found} == {"pt"}
    assert found == expected


def test_each_language_is_computed_once_and_the_same_language_not_at_all(
    server: Server, script: Script
) -> None:
    translate(server, "One.", to=["pt", "en", "pt-BR"])
    assert len(script.admitted) == 1


def test_short_paths_stay_libretranslates_without_a_version(server: Server) -> None:
    body = {"q": "A.", "source": "en", "target": "pt"}
    for query in ({}, {"x": "1&api-version=3.0"}, {"xapi-version": "3.0"}):
        response = server.post("/translate", params=query, json=body)
        assert response.json() == {"translatedText": "A."}
    assert isinstance(server.get("/languages").json(), list)
    assert "translation" in server.get("/languages", params=V3).json()
    assert server.post("/v1/embeddings", params=V3, json={}).json()["error"]["type"]


def test_languages_are_detected(server: Server) -> None:
    texts = [WEATHER, "Das ist nicht gut und ich bin der Mann.", "123"]
    body = [{"Text": text} for text in texts]
    english, german, none = server.post("/detect", params=V3, json=body).json()
    assert (english["language"], english["isTranslationSupported"]) == ("en", True)
    assert 0.5 < english["score"] <= 1
    assert english["alternatives"] == []  # the share of Portuguese is 0.0 %
    assert (german["language"], german["isTranslationSupported"]) == ("de", False)
    assert {each["language"] for each in german["alternatives"]} == {"en", "pt"}
    assert (none["score"], none["alternatives"]) == (0, [])


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("How are you? I am fine. What did you do today?", [13, 11, 22]),
        (" Hi 🎉 you.  Bye.\n", [13, 5]),
        ("...", [3]),
        ("", [0]),
    ],
)
def test_sentences_are_broken(server: Server, text: str, lengths: list[int]) -> None:
    params = {**V3, "language": "en"}
    (found,) = server.post("/breaksentence", params=params, json=[{"Text": text}]).json()
    assert found == {"sentLen": lengths}
    (found,) = server.post("/breaksentence", params=V3, json=[{"Text": text}]).json()
    assert found["sentLen"] == lengths
    assert found["detectedLanguage"].keys() == {"language", "score"}


def test_languages_are_listed_without_a_key(serve: Serve) -> None:
    server = serve(api_keys="key")
    query = {**V3, "scope": "translation "}
    assert server.get("/languages", params=query, headers={"accept-language": "pt"}).json() == {
        "translation": {
            "en": {"name": "Inglês", "nativeName": "English", "dir": "ltr"},
            "pt": {"name": "Português", "nativeName": "Português", "dir": "ltr"},
        }
    }
    listed = server.get("/languages", params={**V3, "scope": "dictionary,transliteration"})
    assert listed.json() == {"dictionary": {}, "transliteration": {}}


def test_token_is_the_key(serve: Serve) -> None:
    """Weblate asks for a token first."""
    server = serve(api_keys="key")
    path = "/sts/v1.0/issueToken?Subscription-Key="
    token = server.post(f"{path}key")
    assert (token.text, token.headers["content-type"]) == ("key", "text/plain; charset=utf-8")
    assert server.post(f"{path}other").json()["error"]["code"] == 401000
    response = server.post(
        "/translate?api-version=3.0&from=en&to=pt",
        json=[{"Text": "A."}],
        headers={"Authorization": f"Bearer {token.text}"},
    )
    assert response.json() == [{"translations": [PT]}]


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


TEXTS = [
    "The cat sat on the mat. 🎉 The house is red.\nIt is old.",
    " The infor\u00admation is impor\u00adtant. It is cafe\u0301 🎉. \u00ad",
    "Go to https://example.com/a. Then click {name}.  Done",
    "{n, plural, one {You have one message} other {You have # messages}}",
    "...",
]


@pytest.mark.parametrize("kind", ["plain", "html"])
def test_lengths_of_sentences_add_up(server: Server, kind: str) -> None:
    replies = translate(server, *TEXTS, includeSentenceLength=True, textType=kind)
    for text, reply in zip(TEXTS, replies, strict=True):
        (found,) = reply["translations"]
        source, target = found["sentLen"]["srcSentLen"], found["sentLen"]["transSentLen"]
        assert (sum(source), sum(target)) == (units(text), units(found["text"]))
        assert len(source) == len(target)


@pytest.mark.checkpoint
def test_words_are_aligned_at_positions_in_utf_16(real_server: Server) -> None:
    query: dict[str, Any] = {"includeAlignment": True, "includeSentenceLength": True}
    first, second, *_ = translate(real_server, *TEXTS, **query)
    (found,) = first["translations"]
    source, target = (text.encode("utf-16-le") for text in (TEXTS[0], found["text"]))
    pairs = [
        tuple(
            side[2 * int(span.split(":")[0]) : 2 * int(span.split(":")[1]) + 2].decode("utf-16-le")
            for side, span in zip((source, target), pair.split("-"), strict=True)
        )
        for pair in found["alignment"]["proj"].split()
    ]
    assert {("cat", "gato"), ("house", "casa"), ("red", "vermelha")} <= {*pairs}
    assert found["sentLen"]["srcSentLen"] == [27, 18, 10]
    starts = [int(pair.split(":")[0]) for pair in found["alignment"]["proj"].split()]
    assert starts == sorted(starts)
    # A word of the given text keeps its soft hyphen.
    assert "5:16-" in second["translations"][0]["alignment"]["proj"]


def test_alignment_is_empty_where_there_is_none(serve: Serve, models: str, server: Server) -> None:
    query: dict[str, Any] = {"includeAlignment": True}
    (html,) = translate(server, "<p>A.</p>", textType="html", **query)
    assert html["translations"][0]["alignment"] == {"proj": ""}
    (pivot,) = translate(serve(models=models), SENTENCE, to="fr", **{"from": "de"}, **query)
    assert pivot["translations"] == [{"text": SENTENCE, "to": "fr", "alignment": {"proj": ""}}]


@pytest.mark.parametrize(
    ("query", "body", "code", "words"),
    [
        ({}, [{"Text": "A."}], 400036, "missing to parameter"),
        ({"to": "zz"}, [{"Text": "A."}], 400036, "zz is not supported; supported: en, pt"),
        ({"to": "pt,"}, [{"Text": "A."}], 400036, "missing to parameter"),
        ({"to": "pt", "from": "zz"}, [{"Text": "A."}], 400035, "zz is not supported"),
        ({"to": "pt", "textType": "x"}, [{"Text": "A."}], 400071, "use plain or html"),
        ({"to": "pt", "toScript": "Latn"}, [{"Text": "A."}], 400004, "leave the script out"),
        ({"to": "pt", "fromScript": "Latn"}, [{"Text": "A."}], 400018, "leave the script out"),
        ({"to": "pt", "api-version": "4.0"}, [{"Text": "A."}], 400021, "use 3.0"),
        ({"to": "pt"}, {"Text": "A."}, 400005, "valid list (it is an object)"),
        ({"to": "pt"}, [{"Text": "A."}, {"Txt": "A."}], 400005, "missing body[1][Text]"),
        ({"to": "pt"}, [{"Text": 1}], 400005, "body[0][Text] parameter"),
        ({"to": "pt"}, ["A."], 400005, "body[0] parameter"),
        ({"to": "pt"}, [], 400005, "missing body parameter"),
        ({"to": "pt"}, [{"Text": "A."}] * 2049, 400005, "REGARD_MAX_INPUTS"),
        ({"to": ["pt", "en"]}, [{"Text": "A."}] * 1025, 400036, "request (2050) exceeds"),
        ({"to": ["pt"] * 9}, [{"Text": "A" * 300_000}], 400077, "in 9 languages; the limit is"),
    ],
)
def test_error_has_azures_code(
    server: Server, query: dict[str, Any], body: Any, code: int, words: str
) -> None:
    response = server.post("/translate", params={**V3, **query}, json=body)
    assert response.status_code == (413 if code == 400077 else 400)
    error = response.json()["error"]
    assert error["code"] == code
    assert words in error["message"]


def test_other_errors_have_the_status_in_their_code(server: Server) -> None:
    def error(response: httpx.Response) -> tuple[int, int]:
        return response.status_code, response.json()["error"]["code"]

    assert error(server.post("/transliterate", params=V3, json=[])) == (404, 404000)
    assert error(server.begin("PUT", "/translate", params=V3).result(LIMIT_SECONDS)) == (
        405,
        405000,
    )
    assert error(server.post("/translate", params=V3, content=b"[")) == (400, 400000)
    assert error(server.get("/languages", params={**V3, "scope": "x"})) == (400, 400001)
    body = [{"Text": "a"}]
    wrong = server.post("/breaksentence", params={**V3, "script": "Latn"}, json=body)
    assert wrong.status_code == 200


def test_quota_counts_each_language_and_no_failed_request(serve: Serve, tmp_path: Any) -> None:
    server = serve(monthly_characters=10, state=str(tmp_path))
    params = {**V3, "from": "en", "to": ["pt", "en"]}
    refused = server.post("/translate", params=params, json=[{"Text": "123456"}])
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, 403001)
    assert server.post("/translate", params=params, json=[{"Text": "12345"}]).status_code == 200
    usage = server.get("/v2/usage").json()
    assert usage["character_count"] == 10


def test_requests_are_counted_by_task(serve: Serve) -> None:
    server = serve()
    translate(server, "A.", to=["pt", "en"])
    server.post("/breaksentence", params=V3, json=[{"Text": "A."}])
    for task, model in (("translate", "none"), ("detect", "none")):
        assert server.num_requests("ok", task=task, model=model) == 1
