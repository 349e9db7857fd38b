"""`return_alignment` of /translate with the built-in models."""

from typing import Any

import pytest

from tests.api.servers import Server

pytestmark = pytest.mark.checkpoint


def aligned(server: Server, q: str | list[str], **fields: Any) -> dict[str, Any]:
    response = server.translate(q, return_alignment=True, **fields)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
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


def test_words_of_a_text_are_aligned(real_server: Server) -> None:
    source = "The cat drinks milk."
    body = aligned(real_server, source)
    target = body["translatedText"]
    assert target == real_server.translate(source).json()["translatedText"]
    (sentence,) = body["alignment"]
    assert_sound(sentence, source, target)
    assert words(source, sentence["source_words"]) == ["The", "cat", "drinks", "milk", "."]
    goes_with = {
        words(target, sentence["target_words"])[t]: words(source, sentence["source_words"])[s]
        for s, t, _ in sentence["pairs"]
    }
    assert goes_with["gato"] == "cat"
    assert goes_with["leite"] == "milk"


def test_every_sentence_has_an_entry_with_spans_in_the_whole(real_server: Server) -> None:
    source = "  🎉 It is cold.\n\n🎉\nThe cat sleeps.  Dr. Smith has 12 dogs!"
    body = aligned(real_server, source)
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


def test_list_of_texts_has_a_list_of_lists(real_server: Server) -> None:
    texts = ["The cat sleeps. It is cold.", "🎉", "Good morning."]
    body = aligned(real_server, texts)
    assert [len(sentences) for sentences in body["alignment"]] == [2, 0, 1]
    for text, target, sentences in zip(
        texts, body["translatedText"], body["alignment"], strict=True
    ):
        for sentence in sentences:
            assert_sound(sentence, text, target)
        alone = aligned(real_server, text)
        assert [each["pharaoh"] for each in alone["alignment"]] == [
            each["pharaoh"] for each in sentences
        ]


@pytest.mark.parametrize("fields", [{"source": "en", "target": "en"}, {"q": "🎉"}])
def test_what_is_not_translated_is_not_aligned(real_server: Server, fields: dict[str, Any]) -> None:
    assert aligned(real_server, **{"q": "The cat.", **fields})["alignment"] == []


def test_it_goes_with_other_extras(real_server: Server) -> None:
    """The alignment is that of the best translation, in whichever models `auto` finds."""
    texts = ["O gato dorme. O cão também.", "The cat."]
    fields = {"source": "auto", "target": "en", "alternatives": 2, "return_scores": True}
    body = aligned(real_server, texts, **fields)
    assert [len(sentences) for sentences in body["alignment"]] == [2, 0]
    assert len(body["alternatives"]) == len(body["scores"]) == 2
    for sentence in body["alignment"][0]:
        assert_sound(sentence, texts[0], body["translatedText"][0])


def test_it_is_left_out_unless_asked_for(real_server: Server) -> None:
    assert "alignment" not in real_server.translate("The cat.").json()
    assert "alignment" not in real_server.translate("The cat.", return_alignment=False).json()
