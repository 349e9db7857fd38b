"""POST /translate: what goes in, what comes out, and that nothing of it is lost."""

import pytest

from tests.api.conftest import Serve
from tests.api.servers import Server
from tests.workers import Script

LONG = " ".join(f"word{number} and" for number in range(200))


def test_multipart_text_may_be_as_large_as_a_body(serve: Serve) -> None:
    """The parser has a limit of its own, 1 MiB a part."""
    server = serve(max_pending_tokens=1_000_000)
    text = "a word\n" * 200_000
    fields = {"q": (None, text), "source": (None, "en"), "target": (None, "en")}
    response = server.post("/translate", files=fields)
    assert response.status_code == 200, response.text
    assert response.json() == {"translatedText": text}


def test_source_auto_is_detected_for_each_text(server: Server, script: Script) -> None:
    texts = ["The weather is very nice today.", "O tempo está muito bom hoje.", "🎉"]
    body = server.translate(texts, source="AUTO ").json()
    assert body.keys() == {"translatedText", "detectedLanguage"}
    assert body["translatedText"] == texts
    assert [found["language"] for found in body["detectedLanguage"]] == ["en", "pt", "en"]
    assert all(found.keys() == {"confidence", "language"} for found in body["detectedLanguage"])
    confidences = [found["confidence"] for found in body["detectedLanguage"]]
    assert 50 < confidences[0] <= 100
    assert 50 < confidences[1] <= 100
    assert confidences[2] == 0
    assert len(script.admitted) == 1  # the text that is Portuguese already is no work


def test_text_that_needs_no_model_counts_under_that_of_the_others(serve: Serve) -> None:
    server = serve()
    texts = ["The weather is very nice today.", "12"]
    assert server.translate(texts, source="auto").json()["translatedText"] == texts
    assert server.num_requests("ok") == 1


def test_identical_source_and_target_give_the_text_back(server: Server, script: Script) -> None:
    text = "  Nothing\u00a0to do.\r\n\x00 Really?"
    body = server.translate(
        text, source="pt", target="pt", alternatives=2, return_scores=True
    ).json()
    assert body == {"translatedText": text, "alternatives": [], "scores": []}
    assert not script.admitted


def test_sentence_that_is_too_long_is_cut_and_nothing_lost(serve: Serve, script: Script) -> None:
    server = serve(max_source_tokens=32)
    body = server.translate(LONG + ".").json()
    assert body["translatedText"].split() == f"{LONG}.".split()
    assert len(script.admitted) > 10
    assert all(len(sequence.source) <= 32 for sequence in script.admitted)
    labels = {"task": "translate", "model": "en-pt"}
    assert server.sample("regard_truncated_inputs_total", **labels) == 1
    server.translate("It is short.")
    assert server.sample("regard_truncated_inputs_total", **labels) == 1


@pytest.mark.parametrize(
    ("fields", "beam"), [({}, 1), ({"beam_size": 5}, 5), ({"beam_size": 2, "alternatives": 3}, 4)]
)
def test_beam_is_as_wide_as_asked_for_and_needed(
    server: Server, script: Script, fields: dict[str, int], beam: int
) -> None:
    server.translate("Hello.", **fields)
    assert script.admitted[0].options.beam_size == beam


def test_scores_come_a_sentence_at_a_time(server: Server) -> None:
    body = server.translate(["One. Two.", "Three."], return_scores=True).json()
    assert [len(scores) for scores in body["scores"]] == [2, 1]
    for scores in body["scores"]:
        for sentence in scores:
            assert sentence.keys() == {"score", "tokens"}
            assert {token["log_prob"] for token in sentence["tokens"]} == {-0.5}
            assert sentence["tokens"][-1]["token"] == "</s>"
    single = server.translate("One. Two.", return_scores=True).json()
    assert single["scores"] == body["scores"][0]


def test_text_is_one_sentence_where_it_is_not_to_be_split(server: Server, script: Script) -> None:
    assert server.translate(" One. Two.\n", split_sentences=False).json() == {
        "translatedText": " One. Two.\n"
    }
    assert len(script.admitted) == 1
    server.translate("One. Two.", split_sentences=True)
    assert len(script.admitted) == 3


@pytest.mark.parametrize("form", [{"split_sentences": "false"}, {"split_sentences": "0"}])
def test_forms_spell_booleans(server: Server, script: Script, form: dict[str, str]) -> None:
    fields = {"q": "One. Two.", "source": "en", "target": "pt", **form}
    assert server.post("/translate", data=fields).status_code == 200
    assert len(script.admitted) == 1


@pytest.mark.checkpoint
@pytest.mark.parametrize("beam_size", [1, 3])
def test_scores_add_up(real_server: Server, beam_size: int) -> None:
    text = "The cat sat on the mat."
    fields = {"beam_size": beam_size, "return_scores": True}
    body = real_server.translate(text, **fields).json()
    (sentence,) = body["scores"]
    log_probs = [token["log_prob"] for token in sentence["tokens"]]
    assert all(log_prob <= 0 for log_prob in log_probs)
    assert sentence["score"] == pytest.approx(sum(log_probs) / len(log_probs), abs=1e-5)
    *pieces, end = [token["token"] for token in sentence["tokens"]]
    assert end == "</s>"
    assert "".join(pieces).replace("▁", " ").strip() == body["translatedText"]
    plain = real_server.translate(text, beam_size=beam_size).json()
    assert plain == {"translatedText": body["translatedText"]}


@pytest.mark.checkpoint
def test_alternatives_of_the_model_differ(real_server: Server) -> None:
    body = real_server.translate("Good morning, my friend.", alternatives=3).json()
    assert len({body["translatedText"], *body["alternatives"]}) == 1 + len(body["alternatives"])
    assert len(body["alternatives"]) == 3


@pytest.mark.checkpoint
@pytest.mark.parametrize(
    "text", ["\x00", "a\x00b", "שלום עולם", "word " * 300, "x" * 5000, "你好" * 300]
)
def test_model_takes_whatever_comes(real_server: Server, text: str) -> None:
    assert real_server.translate(text).status_code == 200
