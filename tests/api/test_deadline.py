"""A request that is not answered in time gets 504, and nobody works for it any longer."""

from service.errors import DeadlineExceededError
from tests.api.conftest import ServeAny
from tests.api.servers import AnyServer, assert_error
from tests.workers import LIMIT_SECONDS, Script, until


def cancelled(server: AnyServer, where: str) -> float:
    labels = {"task": "translate", "model": "en-pt", "where": where}
    return server.sample("regard_cancelled_total", **labels)


def test_running_sentence_leaves_its_row(serve_any: ServeAny, script: Script) -> None:
    """The future that a request awaits is cancelled with it, and was once taken for settled."""
    server = serve_any(request_timeout_seconds=0.05)
    script.may_finish.clear()
    response = server.translate("Hello.")
    assert_error(
        response, DeadlineExceededError, "0 of 1 sentences", "REGARD_REQUEST_TIMEOUT_SECONDS"
    )
    until(lambda: script.aborted == [sequence.id for sequence in script.admitted])
    assert cancelled(server, "running") == 1
    assert cancelled(server, "queued") == 0
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    server.until_answered()
    labels = {"task": "translate", "model": "en-pt", "outcome": "deadline"}
    assert server.sample("regard_requests_total", **labels) == 1
    script.may_finish.set()
    assert server.translate("Hello.").status_code == 200


def test_waiting_sentence_leaves_its_queue(serve_any: ServeAny, script: Script) -> None:
    server = serve_any(request_timeout_seconds=0.1, max_rows=1, max_beam_size=1)
    script.may_finish.clear()
    begun = [server.begin_translate(f"Sentence {number}.") for number in range(3)]
    assert {reply.result(LIMIT_SECONDS).status_code for reply in begun} == {504}
    labels = {"task": "translate", "model": "en-pt", "lane": "interactive"}
    assert server.sample("regard_queue_depth", **labels) == 0
    assert cancelled(server, "queued") + cancelled(server, "running") == 3
    server.until_released()
    script.may_finish.set()
    assert server.translate("Hello.").status_code == 200
    until(lambda: len(script.aborted) + 1 == len(script.admitted))


def test_sentences_that_were_done_are_told(serve_any: ServeAny, script: Script) -> None:
    server = serve_any(request_timeout_seconds=1)
    script.stuck.add(server.token("Stuck"))
    response = server.translate(["Stuck.", "Done.", "Done."], beam_size=2)
    assert_error(response, DeadlineExceededError, "2 of 3 sentences")
    assert cancelled(server, "running") == 1
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    script.stuck.clear()
    assert server.translate("Stuck.").status_code == 200
