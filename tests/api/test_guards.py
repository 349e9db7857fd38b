"""Copied sentences are decoded again, reported in `warnings`, and counted."""

import pytest

from tests.api.conftest import Serve
from tests.api.test_streams import lines, stream
from tests.workers import Script

LONG = "The committee discussed the budget."
"""A sentence that is too long for a name, and that the echoing worker copies.

With a beam, the worker changes it.
"""


@pytest.mark.parametrize(
    ("beam_size", "beams", "outcome"), [(1, [1, 1], "kept"), (4, [1, 1, 4], "replaced")]
)
def test_copied_sentence_is_decoded_again_or_has_a_warning(
    serve: Serve, script: Script, beam_size: int, beams: list[int], outcome: str
) -> None:
    server = serve(guard_beam_size=beam_size)
    body = server.translate(f"Hello. {LONG}").json()
    warnings = [{"sentence": 1, "guard": "copy"}] if outcome == "kept" else None
    assert body.get("warnings") == warnings
    assert (LONG in body["translatedText"]) == (outcome == "kept")
    assert [each.options.beam_size for each in script.admitted] == beams
    server.until_answered()
    for each in ("kept", "replaced"):
        labels = {"model": "en-pt", "guard": "copy", "outcome": each}
        assert server.sample("regard_rejected_translations_total", **labels) == (each == outcome)


def test_warnings_of_a_list_have_an_entry_for_each_text(serve: Serve) -> None:
    body = serve(guard_beam_size=1).translate(["Hello.", LONG]).json()
    assert body["warnings"] == [[], [{"sentence": 0, "guard": "copy"}]]


def test_reply_without_rejected_sentences_has_no_warnings(serve: Serve, script: Script) -> None:
    server = serve(guard_beam_size=4)
    assert server.translate(["Hello.", "Hi."]).json().keys() == {"translatedText"}
    assert len(script.admitted) == 2


def test_event_of_a_rejected_sentence_has_a_warning(serve: Serve) -> None:
    first, second, _ = lines(stream(serve(guard_beam_size=1), f"Hello. {LONG}"))
    assert "warnings" not in first
    assert second["warnings"] == [{"sentence": 1, "guard": "copy"}]


def test_second_decoding_fits_the_largest_beam(serve: Serve, script: Script) -> None:
    serve(guard_beam_size=4, max_beam_size=2).translate(LONG)
    assert [each.options.beam_size for each in script.admitted] == [1, 2]


def test_guards_can_be_turned_off(serve: Serve, script: Script) -> None:
    body = serve(guard_beam_size=0).translate(LONG).json()
    assert (body.keys(), len(script.admitted)) == ({"translatedText"}, 1)
