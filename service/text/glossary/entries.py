"""Reads and writes the entries of a glossary as tab-separated or comma-separated values."""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from service.errors import SHOWN_CHARS, InvalidRequestError
from service.text.letters import has_words

EntriesFormat = Literal["tsv", "csv"]

MAX_TERM_BYTES = 1024
"""Largest size of a term in UTF-8. DeepL has the same limit."""

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\U000f0000-\U0010ffff]")


def read_entries(text: str, entries_format: EntriesFormat) -> dict[str, str]:
    """Returns the target term of each source term. White space around a term is removed.

    Args:
        text: One entry a line. Empty lines are skipped. In `csv`, a line with only empty columns is
            skipped too.
        entries_format: `tsv` or `csv`. A line of `csv` may have two more columns for the languages.
            These two columns are ignored.

    Raises:
        InvalidRequestError: A line is not an entry, a term is invalid, a source term occurs twice,
            or there is no entry.
    """
    entries: dict[str, str] = {}
    for number, columns in _rows(text, entries_format):
        terms = [column.strip() for column in columns]
        if len(terms) not in ((2, 4) if entries_format == "csv" else (2,)):
            raise _invalid(number, f"it has {len(terms)} columns; send source term and target term")
        source, target = terms[:2]
        if source in entries:
            raise _invalid(number, f"the source term {source[:SHOWN_CHARS]} is there twice")
        for term in (source, target):
            if fault := _fault(term):
                raise _invalid(number, fault)
        if not has_words(source):
            raise _invalid(number, f"{source[:SHOWN_CHARS]} has neither a letter nor a digit")
        entries[source] = target
    if not entries:
        raise _wrong("there is no entry; send at least one")
    return entries


def write_tsv(entries: Mapping[str, str]) -> str:
    """Returns entries as tab-separated values, one a line."""
    return "\n".join(f"{source}\t{target}" for source, target in entries.items())


def _rows(text: str, entries_format: EntriesFormat) -> Iterable[tuple[int, list[str]]]:
    if entries_format == "tsv":
        lines = re.split(r"\r\n|\r|\n", text)
        return [(n, line.split("\t")) for n, line in enumerate(lines, 1) if line.strip()]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return [(reader.line_num, columns) for columns in reader if any(columns)]
    except csv.Error as error:
        raise _invalid(reader.line_num, str(error)) from None


def _fault(term: str) -> str:
    """Returns the reason why a term is invalid; "" if it is valid."""
    if not term:
        return "a term is empty"
    if _FORBIDDEN.search(term):
        return f"{term[:SHOWN_CHARS]!a} has a control or private-use character"
    if (size := len(term.encode())) > MAX_TERM_BYTES:
        return f"a term has {size} bytes in UTF-8; the limit is {MAX_TERM_BYTES}"
    return ""


def _invalid(line: int, reason: str) -> InvalidRequestError:
    return _wrong(f"line {line}: {reason}")


def _wrong(reason: str) -> InvalidRequestError:
    return InvalidRequestError("Invalid glossary entries provided", details=reason)
