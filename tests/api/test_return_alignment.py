"""`return_alignment` of /translate with the built-in models."""

import json
from typing import Any

import pytest

from model.backends.native.library import LIBRARIES
from tests.api.servers import Server, translation
from tests.workers import until

pytestmark = pytest.mark.checkpoint


@pytest.fixture(params=["float_server", "real_server"])
def aligning(request: pytest.FixtureRequest) -> Server:
    """A server that aligns by a second pass, and a server that aligns by recorded attention.

    The decode steps of native code record their attention.
    """
    server: Server = request.getfixturevalue(request.param)
    return server


def num_passes(server: Server) -> float:
    labels = {"task": "attention", "model": "en-pt", "phase": "attention"}
    return server.sample("regard_batch_rows_sum", **labels)


def aligned(server: Server, q: str | list[str], **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = server.translated(q, return_alignment=True, **fields)
    return body


def words(text: str, spans: list[list[int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


def assert_sound(sentence: dict[str, Any], source: str, target: str) -> None:
    """Spans lie in their texts in order, and all words of the target have a source word."""
    for name, text in (("source_words", source), ("target_words", target)):
        ends = [0, *(at for span in sentence[name] for at in span)]
        assert ends == sorted(ends)
        assert ends[-1] <= len(text)
        assert all(word == word.strip() != "" for word in words(text, sentence[name]))
    assert [pair[1] for pair in sentence["pairs"]] == list(range(len(sentence["target_words"])))
    assert all(0 <= pair[0] < len(sentence["source_words"]) for pair in sentence["pairs"])
    assert all(0 < pair[2] <= 1 for pair in sentence["pairs"])
    assert sentence["pharaoh"] == " ".join(f"{s}-{t}" for s, t, _ in sentence["pairs"])


def test_words_of_a_text_are_aligned(aligning: Server) -> None:
    source = "The cat drinks milk."
    body = aligned(aligning, source)
    target = body["translatedText"]
    assert target == aligning.translate(source).json()["translatedText"]
    (sentence,) = body["alignment"]
    assert_sound(sentence, source, target)
    assert words(source, sentence["source_words"]) == ["The", "cat", "drinks", "milk", "."]
    goes_with = {
        words(target, sentence["target_words"])[t]: words(source, sentence["source_words"])[s]
        for s, t, _ in sentence["pairs"]
    }
    assert goes_with["gato"] == "cat"
    assert goes_with["leite"] == "milk"


def test_every_sentence_has_an_entry_with_spans_in_the_whole(aligning: Server) -> None:
    source = "  🎉 It is cold.\n\n🎉\nThe cat sleeps.  Dr. Smith has 12 dogs!"
    body = aligned(aligning, source)
    target = body["translatedText"]
    assert len(body["alignment"]) >= 3
    for sentence in body["alignment"]:
        assert_sound(sentence, source, target)
    spans = [span for sentence in body["alignment"] for span in sentence["source_words"]]
    assert spans == sorted(spans)
    assert {"cold", "cat", "12", "dogs"} <= {*words(source, spans)}
    dogs = body["alignment"][-1]
    pairs = {words(target, dogs["target_words"])[t]: s for s, t, _ in dogs["pairs"]}
    assert words(source, dogs["source_words"])[pairs["12"]] == "12"


def test_list_of_texts_has_a_list_of_lists(aligning: Server) -> None:
    texts = ["The cat sleeps. It is cold.", "🎉", "Good morning."]
    body = aligned(aligning, texts)
    assert [len(sentences) for sentences in body["alignment"]] == [2, 0, 1]
    for text, target, sentences in zip(
        texts, body["translatedText"], body["alignment"], strict=True
    ):
        for sentence in sentences:
            assert_sound(sentence, text, target)
        alone = aligned(aligning, text)
        assert [each["pharaoh"] for each in alone["alignment"]] == [
            each["pharaoh"] for each in sentences
        ]


@pytest.mark.parametrize("fields", [{"source": "en", "target": "en"}, {"q": "🎉"}])
def test_what_is_not_translated_is_not_aligned(aligning: Server, fields: dict[str, Any]) -> None:
    assert aligned(aligning, **{"q": "The cat.", **fields})["alignment"] == []


def test_it_goes_with_other_extras(aligning: Server) -> None:
    texts = ["O gato dorme. O cão também.", "The cat."]
    fields = {"source": "auto", "target": "en", "alternatives": 2, "return_scores": True}
    body = aligned(aligning, texts, **fields)
    assert [len(sentences) for sentences in body["alignment"]] == [2, 0]
    assert len(body["alternatives"]) == len(body["scores"]) == 2
    for sentence in body["alignment"][0]:
        assert_sound(sentence, texts[0], body["translatedText"][0])


@pytest.mark.skipif(not LIBRARIES, reason="nothing was compiled for this processor")
def test_greedy_search_needs_no_second_pass(real_server: Server) -> None:
    """Other searches do; the translation is the same with and without alignment."""
    texts = ["The cat sleeps. It is cold.", "The 12 dogs of Anna left in 1994."]
    before = num_passes(real_server)
    body = aligned(real_server, texts)
    assert body["translatedText"] == real_server.translate(texts).json()["translatedText"]
    assert len(aligned(real_server, texts, beam_size=2)["alignment"]) == 2
    until(lambda: num_passes(real_server) == before + 3)


def test_both_ways_align_the_same_words(float_server: Server, real_server: Server) -> None:
    text = "The 12 dogs of Anna left in 1994, and the cat slept."
    one, other = (aligned(server, text) for server in (float_server, real_server))
    assert one["translatedText"] == other["translatedText"]
    assert [each["pharaoh"] for each in one["alignment"]] == [
        each["pharaoh"] for each in other["alignment"]
    ]


@pytest.mark.parametrize(
    ("q", "fields"),
    [
        ("  🎉 It is cold.\n\n🎉\nThe cat sleeps.  Dr. Smith has 12 dogs!\n", {}),
        (["The cat sleeps. It is cold.", "🎉", "", "Bom dia. O gato dorme."], {"source": "auto"}),
        ("The cat sleeps. It is cold.", {"beam_size": 2}),
        ("The cat sleeps. It is cold.", {"split_sentences": False}),
    ],
)
def test_joined_alignments_of_a_stream_are_those_of_the_plain_reply(
    aligning: Server, q: str | list[str], fields: dict[str, Any]
) -> None:
    plain = aligned(aligning, q, **fields)
    body = translation(q, return_alignment=True, **fields)
    headers = {"Accept": "application/x-ndjson"}
    response = aligning.post("/translate", json=body, headers=headers)
    assert response.status_code == 200, response.text
    *events, done = map(json.loads, response.text.splitlines())
    assert done["sentences"] == len(events)
    for number, text in enumerate([q] if isinstance(q, str) else q):
        own = [event for event in events if event["input"] == number]
        found = [sentence for event in own for sentence in event["alignment"]]
        expected = plain["alignment"] if q == text else plain["alignment"][number]
        assert found == expected
        target = "".join(event["translatedText"] for event in own)
        for sentence in found:
            assert_sound(sentence, text, target)


SPANS = {
    "It costs £20 or ¥3000 for {name}.": ["£20", "¥3000", "{name}"],
    "See https://example.com/a?b=1 for Łukasz Żak, 🎉 too.": [
        "https://example.com/a?b=1",
        "Łukasz",
        "Żak",
        "🎉",
    ],
    "READ %s OR $y NOW!": ["%s", "$y"],
}


@pytest.mark.parametrize("source", SPANS)
def test_protected_spans_are_aligned_with_themselves(aligning: Server, source: str) -> None:
    body = aligned(aligning, source)
    target = body["translatedText"]
    assert target == aligning.translate(source).json()["translatedText"]
    (sentence,) = body["alignment"]
    assert_sound(sentence, source, target)
    read, written = (
        words(text, sentence[name])
        for name, text in (("source_words", source), ("target_words", target))
    )
    for span in SPANS[source]:
        assert [(read[s], weight) for s, t, weight in sentence["pairs"] if written[t] == span] == [
            (span, 1.0)
        ]


@pytest.mark.parametrize(
    "source",
    [
        "The infor\u00admation. The cafe\u0301 is\u200b open.",
        "\0The cat.",
        "She said “it’s old… now” — the cat—it slept. He left in 1914–1918, «ten»\u00a0km.",
    ],
)
def test_words_are_placed_in_the_text_as_it_was_given(aligning: Server, source: str) -> None:
    body = aligned(aligning, source)
    for sentence in body["alignment"]:
        assert_sound(sentence, source, body["translatedText"])
    spans = [span for sentence in body["alignment"] for span in sentence["source_words"]]
    assert [*words(source, spans)][:2] in (
        ["The", "infor\u00admation"],
        ["The", "cat"],
        ["She", "said"],
    )
    headers = {"Accept": "application/x-ndjson"}
    request = translation(source, return_alignment=True)
    *events, _ = map(
        json.loads, aligning.post("/translate", json=request, headers=headers).text.splitlines()
    )
    assert [each for event in events for each in event["alignment"]] == body["alignment"]
