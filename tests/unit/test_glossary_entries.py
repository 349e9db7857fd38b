"""Entries of glossaries: tab-separated and comma-separated values, and their faults."""

import pytest

from service.errors import InvalidRequestError
from service.text.glossary import EntriesFormat, read_entries, write_tsv


@pytest.mark.parametrize(
    ("text", "entries_format", "expected"),
    [
        ("a\tb", "tsv", {"a": "b"}),
        ("a\tb\r\n\n c d \te, f \n", "tsv", {"a": "b", "c d": "e, f"}),
        ("a,b\nc,d\n", "csv", {"a": "b", "c": "d"}),
        ('"a, ""b""",c\n', "csv", {'a, "b"': "c"}),
        ("a,b,en,pt\n\n", "csv", {"a": "b"}),
        ("猫\tcat", "tsv", {"猫": "cat"}),
    ],
)
def test_entries_are_read(
    text: str, entries_format: EntriesFormat, expected: dict[str, str]
) -> None:
    entries = read_entries(text, entries_format)
    assert entries == expected
    assert read_entries(write_tsv(entries), "tsv") == expected


@pytest.mark.parametrize(
    ("text", "entries_format", "reason"),
    [
        ("", "tsv", "there is no entry"),
        ("\n \n", "tsv", "there is no entry"),
        ("a", "tsv", "line 1: it has 1 columns"),
        ("a\tb\nc,d", "tsv", "line 2: it has 1 columns"),
        ("a\tb\tc", "tsv", "line 1: it has 3 columns"),
        ("a,b,c", "csv", "line 1: it has 3 columns"),
        ("a\tb\na\tc", "tsv", "line 2: the source term a is there twice"),
        ("a\t ", "tsv", "line 1: a term is empty"),
        (" \tb", "tsv", "line 1: a term is empty"),
        ("a\tb\x07", "tsv", r"line 1: 'b\x07' has a control"),
        ("a\u2028c\tb", "tsv", r"line 1: 'a\u2028c' has a control"),
        ("a\t\U000f0000", "tsv", "has a control or private-use"),
        ("a\t" + "é" * 513, "tsv", "line 1: a term has 1026 bytes in UTF-8; the limit is 1024"),
        ("...\tb", "tsv", "line 1: ... has neither a letter nor a digit"),
        ('"a,b', "csv", "line 1: unexpected end of data"),
    ],
)
def test_invalid_entry_is_named(text: str, entries_format: EntriesFormat, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match="^Invalid glossary entries provided$") as caught:
        read_entries(text, entries_format)
    assert reason in caught.value.details
