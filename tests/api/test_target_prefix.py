"""`target_prefix` of /translate with the built-in models, and the requests that it refuses."""

from typing import Any

import pytest

from service.errors import InvalidRequestError
from tests.api.servers import Server, assert_error
from tests.api.test_return_alignment import aligning

__all__ = ["aligning"]  # a fixture

pytestmark = pytest.mark.checkpoint

KIDS = "The kids were scared of the lions, so they left right away."
LION = "The lion slept."


def test_translation_continues_its_prefix(aligning: Server) -> None:
    own = aligning.translated(KIDS)["translatedText"]
    words = own.split()
    for prefix in (words[0], " ".join(words[:4]) + " ", own):
        assert aligning.translated(KIDS, target_prefix=prefix)["translatedText"] == own
    body = aligning.translated(KIDS, target_prefix="As meninas", return_alignment=True)
    assert body["translatedText"].startswith("As meninas ")
    assert len(body["translatedText"]) > 40
    for q, prefix in (
        ("the kids slept.", "As"),
        ("THE KIDS SLEPT.", "As crianças"),
        ("the house", "A casa."),
        ("He said “yes” to me.", "Ele disse “sim"),
    ):
        found = aligning.translated(q, target_prefix=prefix)["translatedText"]
        assert found.startswith(prefix), found
    (sentence,) = body["alignment"]
    first = [body["translatedText"][a:b] for a, b in sentence["target_words"][:2]]
    assert first == ["As", "meninas"]


def test_prefixes_of_a_list(real_server: Server) -> None:
    plain = real_server.translated([KIDS, LION])["translatedText"]
    found = real_server.translated([KIDS, LION], target_prefix=["", "Um leão"])["translatedText"]
    assert found[0] == plain[0]
    assert found[1] != plain[1]
    assert found[1].startswith("Um leão ")
    both = real_server.translated([KIDS, LION], target_prefix="Um")["translatedText"]
    assert all(text.startswith("Um") for text in both)


def test_beams_begin_with_the_prefix(real_server: Server) -> None:
    fields = {"target_prefix": "As meninas", "alternatives": 3, "return_scores": True}
    body = real_server.translated(KIDS, **fields)
    texts = [body["translatedText"], *body["alternatives"]]
    assert len(texts) > 1
    assert all(text.startswith("As meninas ") for text in texts)
    assert [each["log_prob"] for each in body["scores"][0]["tokens"][:2]] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("q", "fields", "message"),
    [
        (f"{KIDS} {LION}", {}, "needs a text of one sentence, not of 2; send each"),
        ("1234", {}, "not of 0"),
        (KIDS, {"format": "html"}, "target_prefix and format=html cannot be used together"),
        (KIDS, {"target_prefix": "Um \U0001f981"}, "the model does not write: \U0001f981"),
        (LION, {"target_prefix": "Um leão " * 20}, "tokens; the limit for this text is"),
        ([KIDS], {"target_prefix": ["Um", "Um"]}, "has 2 strings and q has 1 text; send one"),
    ],
)
def test_prefix_that_cannot_be_used_is_refused(
    real_server: Server, q: Any, fields: dict[str, Any], message: str
) -> None:
    response = real_server.translate(q, **{"target_prefix": "Um", **fields})
    assert_error(response, InvalidRequestError, message)
