"""What a vocabulary cannot represent comes back unchanged, in every translation."""

import pytest

from tests.api.servers import AnyServer

KEPT = {
    "Hello {name}, you have {count} new messages.": ["{name}", "{count}"],
    "If 5 < 6, then 6 > 5.": ["<"],
    "I <3 you": ["<3"],
    "{x} $y %s %(name)s": ["{x}", "$y", "%s", "%(name)s"],
    "See https://example.com/a?b=c for details.": ["https://example.com/a?b=c"],
    "It is cold today 🎉": ["🎉"],
    "🎉🎉": ["🎉🎉"],
    "The 🐈 sat on the mat.": ["🐈"],
    "President Erdoğan paid €50 in Łódź.": ["Erdoğan", "€50", "Łódź"],
    "Click <b>here</b> now.": ["<b>", "</b>"],
    "• first\n• second": ["•"],
}


@pytest.mark.parametrize("text", KEPT)
def test_spans_come_back(real_server: AnyServer, text: str) -> None:
    response = real_server.translate(text)
    assert response.status_code == 200, response.text
    translated = response.json()["translatedText"]
    for span in KEPT[text]:
        assert translated.count(span) == text.count(span), translated
    assert not any(word in translated for word in ("XYZ", "A1B", "(1)"))
