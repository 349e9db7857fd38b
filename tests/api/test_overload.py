"""More than the server takes: refused at once, with a time to come back, and nothing left over."""

import pytest

from service.errors import OverloadedError, RequestTooLargeError
from tests.api.conftest import Serve, ServeAny
from tests.api.servers import AnyServer, assert_error, assert_idle
from tests.workers import LIMIT_SECONDS, Script


def num_tokens(server: AnyServer, text: str) -> int:
    tokenizer = server.catalog.models["en-pt"].vocabularies.source
    return len(tokenizer.encode(text)) + 1


def outcomes(server: AnyServer, outcome: str) -> float:
    """Requests of that outcome, whichever model they came to, when all have been answered."""
    server.until_answered()
    return sum(server.num_requests(outcome, model=model) for model in ("en-pt", "none"))


def test_requests_over_the_limit_are_refused_and_the_others_answered(
    serve_any: ServeAny, script: Script
) -> None:
    server = serve_any(max_pending_requests=10, max_rows=4, max_beam_size=4)
    script.may_finish.clear()
    admitted = [server.begin_translate(f"Sentence {number}.") for number in range(10)]
    server.until_admitted(10)
    assert server.sample("regard_inflight_requests", task="translate") == 10
    labels = {"task": "translate", "model": "en-pt", "lane": "interactive"}
    assert server.sample("regard_queue_depth", **labels) == 6
    assert server.sample("regard_queue_tokens", **labels) > 6
    assert server.sample("regard_queue_oldest_age_seconds", **labels) > 0
    refused = [server.begin_translate("One more.") for _ in range(40)]
    for reply in refused:
        assert_error(reply.result(LIMIT_SECONDS), OverloadedError, "10 requests", "limit is 10")
    script.may_finish.set()
    assert {reply.result(LIMIT_SECONDS).status_code for reply in admitted} == {200}
    assert outcomes(server, "rejected_queue") == 40
    assert outcomes(server, "ok") == 10
    assert_idle(server)


def test_tokens_over_the_limit_are_refused(serve: Serve, script: Script) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    server = serve(max_pending_tokens=20)
    script.may_finish.clear()
    first = server.begin_translate(text)
    server.until_admitted(1)
    response = server.translate(text)
    assert_error(response, OverloadedError, "tokens are in progress", "limit of 20")
    script.may_finish.set()
    assert first.result(LIMIT_SECONDS).status_code == 200
    assert outcomes(server, "rejected_tokens") == 1
    assert outcomes(server, "rejected_queue") == 0
    assert_idle(server)
    assert server.translate(text).status_code == 200


def test_request_that_can_never_be_taken_is_too_large(serve: Serve, script: Script) -> None:
    server = serve(max_pending_tokens=20)
    response = server.translate("The quick brown fox jumps over the lazy dog. " * 5)
    assert_error(response, RequestTooLargeError, "the limit is 20", "REGARD_MAX_PENDING_TOKENS")
    assert "retry-after" not in response.headers
    assert outcomes(server, "too_large") == 1
    assert not script.admitted
    assert_idle(server)


@pytest.mark.parametrize("num_waiting", [0, 1])
def test_request_that_has_more_tokens_than_it_looks_is_refused_when_it_is_read(
    serve: Serve, script: Script, num_waiting: int
) -> None:
    """A text is let in by its length; digits are a token each."""
    dense = "a 1 2 3 4 5 6 7 8 9 0 " * 3
    server = serve()
    real, looks_like = num_tokens(server, dense), len(dense) // 3 + 1
    assert looks_like + 8 < real
    admission = server.core.admission
    script.may_finish.clear()
    waiting = [server.begin_translate("Hello.") for _ in range(num_waiting)]
    server.until_admitted(num_waiting)
    admission.max_tokens = real - 1 + num_waiting
    kind = OverloadedError if num_waiting else RequestTooLargeError
    assert_error(server.translate(dense), kind)
    script.may_finish.set()
    assert {reply.result(LIMIT_SECONDS).status_code for reply in waiting} <= {200}
    assert not [sequence for sequence in script.admitted if len(sequence.source) == real]
    assert_idle(server)


def test_small_request_passes_a_large_one(serve: Serve, script: Script) -> None:
    server = serve(max_rows=1, max_beam_size=1)
    script.may_finish.clear()
    job = server.begin_translate([f"Sentence number {number}." for number in range(30)])
    server.until_admitted(1)
    single = server.begin_translate("Hello.")
    server.until_admitted(2)
    script.may_finish.set()
    single.result(LIMIT_SECONDS)
    job.result(LIMIT_SECONDS)
    hello = server.token("Hello")
    places = [number for number, s in enumerate(script.admitted) if s.source[0] == hello]
    assert places == [1]
