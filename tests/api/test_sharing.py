"""Requests with equal sentences share one computation, whichever HTTP process answers them."""

from tests.api.conftest import Serve, ServeAny
from tests.workers import Script, until

TEXTS = ["Where is it?", "Hello."]


def test_requests_with_equal_sentences_share_them(serve_any: ServeAny, script: Script) -> None:
    server = serve_any(share_sentences=True)
    script.may_finish.clear()
    begun = [server.begin_translate(TEXTS) for _ in range(8)]
    server.until_admitted(8)
    until(lambda: len(script.admitted) == 2)
    script.may_finish.set()
    bodies = [each.result(60).json() for each in begun]
    assert bodies == [{"translatedText": TEXTS}] * 8
    assert len(script.admitted) == 2
    labels = {"model": "en-pt", "state": "running"}
    assert server.sample("regard_shared_sentences_total", **labels) == 14
    server.translate(TEXTS)
    assert len(script.admitted) == 4
    server.until_released()


def test_cached_sentences_are_not_computed_again(serve: Serve, script: Script) -> None:
    server = serve(share_sentences=True, cache_sentences=10)
    first, second = [server.translate(TEXTS).json() for _ in range(2)]
    assert first == second
    assert len(script.admitted) == 2
    assert server.translate(TEXTS, beam_size=2).status_code == 200
    assert len(script.admitted) == 4
    server.until_released()


def test_sharing_can_be_turned_off(serve: Serve, script: Script) -> None:
    server = serve(share_sentences=False, cache_sentences=10)
    for _ in range(2):
        server.translate(TEXTS)
    assert len(script.admitted) == 4
