"""Requests that are not answered in time get 504, and their work ends."""

import time

from service.errors import DeadlineExceededError, InvalidRequestError, OverloadedError
from service.scheduling.forecast import MIN_SAMPLES
from tests.api.conftest import Serve, ServeAny
from tests.api.servers import assert_error
from tests.workers import LIMIT_SECONDS, Script, until


def test_running_sentence_leaves_its_row(serve_any: ServeAny, script: Script) -> None:
    """The future that a request awaits is cancelled with it, and was once taken for settled."""
    server = serve_any(request_timeout_seconds=0.3)
    script.may_finish.clear()
    response = server.translate("Hello.")
    assert_error(
        response, DeadlineExceededError, "0 of 1 sentences", "REGARD_REQUEST_TIMEOUT_SECONDS"
    )
    until(lambda: script.aborted == [sequence.id for sequence in script.admitted])
    assert server.num_cancelled("running") == 1
    assert server.num_cancelled("queued") == 0
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    server.until_answered()
    assert server.num_requests("deadline") == 1
    script.may_finish.set()
    until(lambda: server.translate("Hello.").status_code == 200)


def test_waiting_sentence_leaves_its_queue(serve: Serve, script: Script) -> None:
    server = serve(request_timeout_seconds=0.1, max_rows=1, max_beam_size=1)
    script.may_finish.clear()
    begun = [server.begin_translate(f"Sentence {number}.") for number in range(3)]
    assert {reply.result(LIMIT_SECONDS).status_code for reply in begun} == {504}
    labels = {"task": "translate", "model": "en-pt", "lane": "interactive"}
    assert server.sample("regard_queue_depth", **labels) == 0
    assert server.num_cancelled("queued") + server.num_cancelled("running") == 3
    server.until_released()
    until(lambda: len(script.aborted) == len(script.admitted))
    script.may_finish.set()
    until(lambda: server.translate("Hello.").status_code == 200)


def test_sentences_that_were_done_are_told(serve_any: ServeAny, script: Script) -> None:
    server = serve_any(request_timeout_seconds=1)
    script.stuck.add(server.token("Stuck"))
    response = server.translate(["Stuck.", "Done.", "Done."], beam_size=2)
    assert_error(response, DeadlineExceededError, "2 of 3 sentences")
    assert server.num_cancelled("running") == 1
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    script.stuck.clear()
    until(lambda: server.translate("Stuck.").status_code == 200)


def test_client_shortens_the_time_limit(serve_any: ServeAny, script: Script) -> None:
    server = serve_any()
    script.may_finish.clear()
    for path, body in (
        ("/translate", {"q": "Hello.", "source": "en", "target": "pt"}),
        ("/attention", {"text": "Hello.", "source": "en", "target": "pt"}),
    ):
        response = server.post(path, json=body, headers={"X-Request-Timeout-Ms": "50"})
        assert_error(response, DeadlineExceededError, "0 of 1 sentences")
    script.may_finish.set()


def test_client_cannot_lengthen_the_time_limit(serve: Serve, script: Script) -> None:
    server = serve(request_timeout_seconds=0.05)
    script.may_finish.clear()
    body = {"q": "Hello.", "source": "en", "target": "pt"}
    response = server.post("/translate", json=body, headers={"X-Request-Timeout-Ms": "60000"})
    assert_error(response, DeadlineExceededError, "0 of 1 sentences")
    script.may_finish.set()


def test_wrong_time_limit_is_refused(serve: Serve) -> None:
    server = serve()
    body = {"q": "Hello.", "source": "en", "target": "pt"}
    for value in ("0", "-5", "1.5", "soon", "", "99999999999"):
        response = server.post("/translate", json=body, headers={"X-Request-Timeout-Ms": value})
        assert_error(response, InvalidRequestError, f"X-Request-Timeout-Ms is {value}")
    response = server.post("/v1/embeddings", json={}, headers={"X-Request-Timeout-Ms": "x"})
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_request_that_would_be_late_is_refused(serve: Serve, script: Script) -> None:
    """The workers have computed a few sentences slowly, and others hold all rows."""
    server = serve(max_rows=1, max_beam_size=1)
    for _ in range(MIN_SAMPLES):
        script.may_finish.clear()
        begun = server.begin_translate("Hello.")
        time.sleep(0.05)
        script.may_finish.set()
        assert begun.result(LIMIT_SECONDS).status_code == 200
    script.may_finish.clear()
    running = [server.begin_translate("Hello.") for _ in range(12)]
    server.until_admitted(12)
    body = {"q": "Hello.", "source": "en", "target": "pt"}
    response = server.post("/translate", json=body, headers={"X-Request-Timeout-Ms": "200"})
    assert_error(response, OverloadedError, "would take up to", "deadline is in 0.2 s")
    script.may_finish.set()
    assert {reply.result(LIMIT_SECONDS).status_code for reply in running} == {200}
    server.until_answered()
    refused = [server.num_requests("rejected_deadline", model=name) for name in ("en-pt", "none")]
    assert sum(refused) == 1
