"""Texts that two models translate, and pairs of a model of many languages."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.openai import models as openai_models
from service.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidRequestError,
    RequestTooLargeError,
)
from tests.api.conftest import Serve, ServeAny, ServeTcp
from tests.api.servers import AnyServer, assert_error
from tests.api.test_disconnect import post_of
from tests.hf_files import SENTENCE, write_multilingual, write_pieces
from tests.workers import Script, until

OTHER = "is the big tree here"
FRENCH = ">>fra<<"


@pytest.fixture
def models(tmp_path: Path) -> str:
    """German to English, and English to French, whose sources begin with a token of their own.

    Its id is that of no text in the other either, so that it tells the legs apart.
    """
    for name, tokens in (("de-en", ["<nothing>"]), ("en-fr", [FRENCH])):
        folder = tmp_path / name
        folder.mkdir()
        write_pieces(folder, tokens)
        (folder / "config.json").write_text('{"model_type": "marian"}', encoding="utf-8")
        (folder / "model.safetensors").write_bytes(name.encode())
    return str(tmp_path)


def translate(server: AnyServer, q: str | list[str], **fields: Any) -> httpx.Response:
    return server.translate(q, **{"source": "de", "target": "fr", **fields})


def french_token(server: AnyServer) -> int:
    (token,) = server.catalog.models["en-fr"].vocabularies.source.prefix
    return token


def test_text_goes_through_two_models(serve_any: ServeAny, models: str, script: Script) -> None:
    server = serve_any(models=models)
    body = translate(server, SENTENCE).json()
    assert body == {"translatedText": SENTENCE, "models": ["de-en", "en-fr"]}
    token = french_token(server)
    assert [sequence.source[0] == token for sequence in script.admitted] == [False, True]
    many = translate(server, [SENTENCE, OTHER, "..."]).json()
    assert many["translatedText"] == [SENTENCE, OTHER, "..."]
    assert many["models"] == [["de-en", "en-fr"]] * 3
    direct = server.translate(SENTENCE, source="de", target="en").json()
    assert direct == {"translatedText": SENTENCE}


def test_pair_without_a_model_of_its_own_is_one_for_chats(
    serve: Serve, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(models=models)
    listed = {each["id"]: each["task"] for each in server.get("/v1/models").json()["data"]}
    assert listed == {"de-en": "translate", "en-fr": "translate", "de-fr": "chat"}
    found = server.get("/v1/models/de-fr").json()
    assert (found["source"], found["target"], found["state"]) == ("de", "fr", "ready")
    body = {"model": "de-fr", "messages": [{"role": "user", "content": SENTENCE}]}
    reply = server.post("/v1/chat/completions", json=body).json()
    assert reply["choices"][0]["message"]["content"] == SENTENCE
    monkeypatch.setattr(openai_models, "MAX_PAIRS", 2)
    assert len(server.get("/v1/models").json()["data"]) == 2


def test_message_goes_through_two_models(serve: Serve, models: str, script: Script) -> None:
    text = f"{{g, select, a {{{SENTENCE}}} other {{{OTHER}}}}}"
    body = translate(serve(models=models), text).json()
    assert body == {"translatedText": text, "models": ["de-en", "en-fr"]}
    assert len(script.admitted) == 4


def test_stream_goes_through_two_models(serve: Serve, models: str) -> None:
    server = serve(models=models)
    body = {"q": f"{SENTENCE}.\n{OTHER}.", "source": "de", "target": "fr"}
    response = server.post("/translate", json=body, headers={"Accept": "application/x-ndjson"})
    first, second, done = [json.loads(line) for line in response.text.splitlines()]
    assert first["translatedText"] + second["translatedText"] == body["q"]
    assert (first["models"], "models" in second) == (["de-en", "en-fr"], False)
    assert done == {"done": True, "sentences": 2}


def test_pairs_by_way_of_english_are_offered(serve: Serve, models: str) -> None:
    listed = serve(models=models).get("/languages").json()
    assert {one["code"]: one["targets"] for one in listed} == {
        "de": ["de", "en", "fr"],
        "en": ["en", "fr"],
    }


def test_each_leg_is_counted_with_its_model(serve_any: ServeAny, models: str) -> None:
    server = serve_any(models=models)
    translate(server, [SENTENCE, OTHER])
    server.until_answered()
    for name in ("de-en", "en-fr"):
        labels = {"task": "translate", "model": name}
        assert server.sample("regard_source_tokens_count", **labels) == 2
    assert server.num_requests("ok", model="none") == 1


def test_second_leg_begins_when_its_own_first_has_ended(
    serve: Serve, models: str, script: Script
) -> None:
    server = serve(models=models)
    encode = server.catalog.models["de-en"].vocabularies.source.encode
    script.stuck = {*encode(OTHER)} - {*encode(SENTENCE)}
    waiting = server.begin_translate([OTHER, SENTENCE], source="de", target="fr")
    token = french_token(server)
    until(lambda: any(sequence.source[0] == token for sequence in script.admitted))
    assert not waiting.done()
    until(lambda: server.sample("regard_decode_slots", model="en-fr", state="used") == 0)
    assert server.sample("regard_decode_slots", model="de-en", state="used") == 1
    assert not waiting.done()
    script.stuck.clear()
    assert waiting.result(60).json()["translatedText"] == [OTHER, SENTENCE]
    server.until_released()


def test_deadline_is_that_of_both_legs(serve: Serve, models: str, script: Script) -> None:
    server = serve(models=models, request_timeout_seconds=2)
    token = french_token(server)
    script.stuck.add(token)
    response = translate(server, [SENTENCE, OTHER])
    assert_error(response, DeadlineExceededError, "0 of 2 sentences or texts were done")
    until(lambda: len(script.aborted) == 2)
    assert {s.source[0] for s in script.admitted if s.id in script.aborted} == {token}
    server.until_released()
    assert server.sample("regard_decode_slots", model="en-fr", state="used") == 0


def test_failed_second_leg_ends_a_request_whose_first_legs_go_on(
    serve: Serve, models: str, script: Script
) -> None:
    server = serve(models=models)
    encode = server.catalog.models["de-en"].vocabularies.source.encode
    script.stuck = {*encode(OTHER)} - {*encode(SENTENCE)}
    script.poison.add(french_token(server))
    assert_error(translate(server, [OTHER, SENTENCE]), InternalError, "RuntimeError")
    server.until_released()
    until(lambda: len(script.aborted) == 1)
    for name in ("de-en", "en-fr"):
        assert server.sample("regard_decode_slots", model=name, state="used") == 0
    assert server.num_cancelled("running", model="de-en") == 1


def test_client_that_goes_ends_its_second_leg(
    serve_tcp: ServeTcp, models: str, script: Script
) -> None:
    server = serve_tcp(models=models)
    script.stuck.add(2)  # with which sources of the second leg begin
    with server.connect() as connection:
        connection.sendall(post_of({"q": SENTENCE, "source": "de", "target": "fr"}))
        until(lambda: len(script.admitted) == 2)
    until(lambda: script.aborted == [script.admitted[1].id])
    until(lambda: server.core.admission.requests == 0)
    assert server.num_cancelled("running", model="en-fr") == 1


@pytest.mark.parametrize("source", ["de", "auto"])
def test_words_are_not_aligned_through_two_models(serve: Serve, models: str, source: str) -> None:
    server = serve(models=models)
    q = "Das ist ein kleines Haus, und hier steht ein großer Baum."
    response = translate(server, q, source=source, return_alignment=True)
    assert_error(response, InvalidRequestError, "from de to fr", "leave return_alignment out")
    server.until_released()
    response = server.post("/attention", json={"text": SENTENCE, "source": "de", "target": "fr"})
    assert_error(response, InvalidRequestError, "send one request for each of de-en and en-fr")


def test_alternatives_and_scores_are_the_second_models(
    serve: Serve, models: str, script: Script
) -> None:
    body = translate(serve(models=models), SENTENCE, alternatives=1, return_scores=True).json()
    assert [score["score"] for score in body["scores"]] == [-0.5]
    first, second = script.admitted
    assert (first.options.num_hypotheses, second.options.num_hypotheses) == (1, 2)
    assert (first.options.beam_size, second.options.beam_size) == (2, 2)


def test_both_legs_are_admitted(serve: Serve, models: str) -> None:
    q = " ".join([SENTENCE] * 2)
    server = serve(models=models)
    tokens = len(server.catalog.models["de-en"].vocabularies.source.encode(q)) + 1
    server.core.admission.max_tokens = 2 * tokens - 1
    assert server.translate(q, source="de", target="en").status_code == 200
    assert_error(translate(server, q), RequestTooLargeError, f"about {2 * tokens} tokens")
    server.core.admission.max_tokens = 2 * tokens
    assert translate(server, q).status_code == 200


def test_what_the_first_model_wrote_may_be_too_long_for_the_second(
    serve: Serve, models: str, script: Script
) -> None:
    server = serve(models=models, max_source_tokens=16)
    tokenizer = server.catalog.models["de-en"].vocabularies.source
    words = SENTENCE.split()
    q = words[0]
    while len(tokenizer.encode(f"{q} {words[-1]}")) <= 15:
        q = f"{q} {words[-1]}"
    assert len(tokenizer.encode(q)) in (14, 15)  # and one for the language, one for the end
    body = translate(server, q, return_scores=True, split_sentences=False).json()
    assert body["translatedText"] == q
    assert len(script.admitted) == 3
    server.until_answered()
    cut = {"task": "translate", "model": "en-fr"}
    assert server.sample("regard_truncated_inputs_total", **cut) == 1
    assert [score["score"] for score in body["scores"]] == [-0.5]


def test_a_text_that_no_vocabulary_has_stays_as_it_is(serve: Serve, models: str) -> None:
    body = translate(serve(models=models), ["语", SENTENCE], return_scores=True).json()
    assert body["translatedText"] == ["语", SENTENCE]
    assert [len(scores) for scores in body["scores"]] == [0, 1]


def test_a_model_of_many_languages_goes_before_two(
    serve: Serve, models: str, script: Script
) -> None:
    write_multilingual(Path(models) / "m2m100", "m2m", ["__de__", "__fr__", "__pt__"])
    server = serve(models=models)
    assert translate(server, SENTENCE).json() == {"translatedText": SENTENCE}
    (sequence,) = script.admitted
    vocabularies = server.catalog.models["m2m100"].vocabularies
    assert sequence.source[0] == vocabularies.source.id_of("__de__")
    assert sequence.first_id == vocabularies.target.id_of("__fr__")
    listed = {one["code"]: one["targets"] for one in server.get("/languages").json()}
    assert listed["pt"] == ["de", "fr", "pt"]
    (body,) = [one for one in server.get("/v1/models").json()["data"] if one["id"] == "m2m100"]
    assert (body["source"], body["sources"], body["targets"]) == (None, *[["de", "fr", "pt"]] * 2)


def test_attention_of_a_text_that_is_nothing_but_its_languages_token_is_refused(
    serve: Serve, models: str, script: Script
) -> None:
    """It was translated: the token was taken for one of the text."""
    write_multilingual(Path(models) / "m2m100", "m2m", ["__de__", "__fr__", "__pt__"])
    body = {"text": " ", "source": "de", "target": "fr"}
    response = serve(models=models).post("/attention", json=body)
    assert_error(response, InvalidRequestError, "text has nothing to read")
    assert not script.admitted


def test_only_some_languages_are_offered(serve: Serve, models: str) -> None:
    write_multilingual(Path(models) / "m2m100", "m2m", ["__de__", "__fr__", "__pt__"])
    server = serve(models=models, languages="fr,pt_BR")
    assert {one["code"]: one["targets"] for one in server.get("/languages").json()} == {
        "fr": ["fr", "pt"],
        "pt": ["fr", "pt"],
    }
    settings = server.get("/frontend/settings").json()
    assert settings["language"]["target"]["code"] == "fr"
    assert server.translate(SENTENCE, source="pt", target="fr").status_code == 200
    assert translate(server, SENTENCE).status_code == 400


def test_prefix_of_the_target_needs_a_single_model(serve_any: ServeAny, models: str) -> None:
    refused = translate(serve_any(models=models), SENTENCE, target_prefix="Un")
    assert_error(refused, InvalidRequestError, "target_prefix needs a single model")
