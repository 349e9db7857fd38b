"""Faults of the server and of the device: their replies, other requests, and the log."""

import logging

import pytest

from service.errors import InternalError
from service.tasks.translation.translator import Translator
from tests.api.conftest import Serve
from tests.api.servers import assert_error, translation
from tests.workers import LIMIT_SECONDS, Script

SECRET = "Rumpelstiltskin"
JSON = {"content-type": "application/json"}


def server_log(caplog: pytest.LogCaptureFixture) -> str:
    """What the server logged; the tests' own client logs its URLs."""
    records = [record for record in caplog.records if record.name not in ("httpx", "httpcore")]
    return "\n".join(map(logging.Formatter().format, records))


def test_fault_of_a_route_is_answered_and_logged_without_what_was_sent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A page of another origin may read the error too."""
    server = serve(allowed_origins=("*",))

    async def fail(_self: object, *_: object) -> None:
        raise RuntimeError(f"cannot translate {SECRET}")

    monkeypatch.setattr(Translator, "translate", fail)
    with caplog.at_level(logging.DEBUG):
        headers = {"origin": "http://a.b"}
        response = server.post("/translate", json=translation(SECRET), headers=headers)
    assert_error(response, InternalError, "log has this request's id")
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.json()["request_id"] in server_log(caplog)
    assert "RuntimeError" in server_log(caplog)
    assert SECRET not in server_log(caplog) + response.text
    assert server.num_requests("error", model="none") == 1


def test_no_text_is_logged_when_the_engine_fails(
    serve: Serve, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(request_timeout_seconds=0.2)
    with caplog.at_level(logging.DEBUG):
        script.poison.add(server.token(SECRET))
        response = server.translate(SECRET)
        script.poison.clear()
        server.translate(f"{SECRET}.", target="zz")
        server.translate([SECRET], beam_size=100)
        server.translate(f"Call me {SECRET}.", source="auto", alternatives=1)
        server.post("/translate", content=f"{SECRET}=", headers=JSON)
        server.get("/translate", params={"q": SECRET})
        script.may_finish.clear()
        assert server.translate(f"Call me {SECRET}.").status_code == 504
    assert_error(response, InternalError, "RuntimeError")
    assert "a batch of 1 failed" in server_log(caplog)
    assert SECRET not in server_log(caplog)


def test_poison_fails_alone(serve: Serve, script: Script) -> None:
    server = serve(max_rows=16)
    script.poison.add(server.token(SECRET))
    script.may_finish.clear()
    texts = [f"Sentence {number}." for number in range(13)]
    texts[7] = f"{SECRET} and others."
    begun = [server.begin_translate(text) for text in texts]
    server.until_admitted(len(texts))
    script.may_finish.set()
    responses = [reply.result(LIMIT_SECONDS) for reply in begun]
    assert_error(responses.pop(7), InternalError, "RuntimeError")
    del texts[7]
    assert [reply.json() for reply in responses] == [{"translatedText": text} for text in texts]
    assert server.sample("regard_batch_splits_total", model="en-pt") >= 1
    assert server.sample("regard_batch_splits_total", model="pt-en") == 0
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    assert server.translate("Next.").status_code == 200


def test_batch_that_is_too_large_for_the_device_is_split(serve: Serve, script: Script) -> None:
    server = serve(max_rows=8)
    script.no_memory.add(server.token("Sentence"))
    texts = [f"Sentence {number}." for number in range(8)]
    assert server.translate(texts).json() == {"translatedText": texts}
    assert server.sample("regard_oom_total", model="en-pt") == 7
    assert server.sample("regard_batch_splits_total", model="en-pt") == 7
