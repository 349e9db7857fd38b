"""Formats of input files: text with one row a line, JSONL, and Parquet.

A shard is a range of rows in one file. A format finds the ranges when a job starts, and reads the
rows of a shard when the shard is computed.
"""

import hashlib
import importlib.util
import json
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson

from service.bulk.rows import JobError, Row

BLOCK_BYTES = 1 << 20
BATCH_ROWS = 1024
NEWLINE = 0x0A


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of an input. A text file has no columns.

    Attributes:
        text: Column with the texts.
        id: Column with the ids; None to number the rows.
        source: Column with the source languages; None if the rows do not name a source language.
        target: Column with the target languages; None if the rows do not name a target language.
    """

    text: str = "text"
    id: str | None = None
    source: str | None = None
    target: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns that are read."""
        return [*dict.fromkeys(filter(None, (self.text, self.id, self.source, self.target)))]


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of rows in one file.

    Attributes:
        file: Index of the file.
        position: Start of the range: an offset in bytes, or a row number in a Parquet file.
        num_rows: Number of rows.
        first_row: Number of the first row, counted over all files from 0.
    """

    file: int
    position: int
    num_rows: int
    first_row: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan of one file.

    Attributes:
        sha256: Hash of the bytes.
        num_rows: Number of rows.
        positions: Position of the first row of each shard.
    """

    sha256: str
    num_rows: int
    positions: Sequence[int]


class InputFormat(Protocol):
    """Reads files of one format."""

    def scan(self, path: Path, columns: Columns, shard_rows: int) -> Scan:
        """Reads a file once, and finds its ranges of `shard_rows` rows.

        Raises:
            JobError: The file is damaged, or does not have the columns.
        """

    def read(self, path: Path, columns: Columns, shard: Shard) -> Iterator[Row]:
        """Yields the rows of a shard. A row that cannot be read has an error."""

    def has_numbers(self, path: Path, columns: Columns) -> bool:
        """Reports whether all ids of a file are certain to be integers."""


class TextInput:
    """Text with one row a line, in UTF-8. Blank lines are rows too."""

    def scan(self, path: Path, columns: Columns, shard_rows: int) -> Scan:
        """Reads a file once, and finds the offsets of its ranges."""
        if columns != Columns():
            raise JobError(f"{path} is a text file and has no columns; omit the column options")
        return scan_lines(path, shard_rows)

    def read(self, path: Path, columns: Columns, shard: Shard) -> Iterator[Row]:
        """Yields one row for each line."""
        for number, line in read_lines(path, shard):
            try:
                yield Row(number, line.decode("utf-8"))
            except UnicodeDecodeError:
                yield Row(number, None, error=f"row {number} is not UTF-8")

    def has_numbers(self, path: Path, columns: Columns) -> bool:
        """Returns True, because the ids are the numbers of the lines."""
        return True


class JsonLinesInput:
    """One JSON object a line."""

    def scan(self, path: Path, columns: Columns, shard_rows: int) -> Scan:
        """Reads a file once, and finds the offsets of its ranges."""
        return scan_lines(path, shard_rows)

    def read(self, path: Path, columns: Columns, shard: Shard) -> Iterator[Row]:
        """Yields one row for each line."""
        for number, line in read_lines(path, shard):
            try:
                fields = orjson.loads(line)
            except ValueError:
                fields = None
            if isinstance(fields, dict):
                if isinstance(fields.get(columns.id), float):
                    # orjson rounds integers of more than 64 bits.
                    with suppress(RecursionError):  # a line that is nested 1,000 levels deep
                        fields[columns.id] = json.loads(line, parse_int=str)[columns.id]
                yield row_of(number, fields, columns)
            else:
                error = f"row {number} is no JSON object"
                yield Row(None if columns.id else number, None, error=error)

    def has_numbers(self, path: Path, columns: Columns) -> bool:
        """Reports whether the ids are the numbers of the lines."""
        return columns.id is None


class ParquetInput:
    """Reads Parquet files. A shard may begin within a row group."""

    def scan(self, path: Path, columns: Columns, shard_rows: int) -> Scan:
        """Hashes a file, and divides its rows into ranges."""
        import pyarrow.parquet as parquet

        try:
            with parquet.ParquetFile(path) as file:
                num_rows, known = file.metadata.num_rows, file.schema_arrow.names
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
            raise JobError(f"{path} is no readable Parquet file: {error}") from None
        if missing := [name for name in columns.names if name not in known]:
            raise JobError(
                f"{path} has no column {', '.join(missing)}; it has {', '.join(known)}. "
                "Name the columns with --text-column, --id-column, --from-column and --to-column"
            )
        with path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return Scan(digest, num_rows, range(0, num_rows, shard_rows))

    def read(self, path: Path, columns: Columns, shard: Shard) -> Iterator[Row]:
        """Yields the rows of a shard."""
        import pyarrow.parquet as parquet

        end = shard.position + shard.num_rows
        with parquet.ParquetFile(path) as file:
            groups, first = row_groups(file.metadata, shard.position, end)
            for batch in file.iter_batches(BATCH_ROWS, groups, columns.names, use_threads=False):
                skipped = max(0, shard.position - first)
                for place, fields in enumerate(fields_of(batch.slice(skipped)), first + skipped):
                    if place == end:
                        return
                    number = shard.first_row + place - shard.position
                    if fields is None:
                        row_id = None if columns.id else number
                        yield Row(row_id, None, error=f"row {number} is not UTF-8")
                    else:
                        yield row_of(number, fields, columns)
                first += batch.num_rows

    def has_numbers(self, path: Path, columns: Columns) -> bool:
        """Returns whether each id is a row number or an integer that fits into int64."""
        import pyarrow
        import pyarrow.parquet as parquet

        if columns.id is None:
            return True
        kind = parquet.read_schema(path).field(columns.id).type
        return bool(pyarrow.types.is_integer(kind) and not pyarrow.types.is_uint64(kind))


def fields_of(batch: Any) -> list[dict[str, Any] | None]:
    """Returns the rows of an Arrow record batch; None for a row with text that is not UTF-8."""
    try:
        rows: list[dict[str, Any] | None] = batch.to_pylist()
    except UnicodeDecodeError:
        if batch.num_rows == 1:
            return [None]
        half = batch.num_rows // 2
        return [*fields_of(batch.slice(0, half)), *fields_of(batch.slice(half))]
    return rows


def row_groups(metadata: Any, start: int, end: int) -> tuple[list[int], int]:
    """Returns the row groups that have rows from `start` to `end` - 1.

    The second value is the position in the file at which the first of these row groups begins,
    counted in rows from 0.
    """
    found: list[int] = []
    first = begin = 0
    for group in range(metadata.num_row_groups):
        behind = begin + metadata.row_group(group).num_rows
        if begin < end and behind > start:
            first = first if found else begin
            found.append(group)
        begin = behind
    return found, first


def row_of(number: int, fields: dict[str, Any], columns: Columns) -> Row:
    """Returns the row with these fields.

    The row has an error if its id, text column or target is missing, or if a text or language is
    not a string. If the text is null, the row has no error, and its text is None.
    """
    row = Row(number if columns.id is None else fields.get(columns.id), None)
    if columns.id is not None and row.id is None:
        row.error = f"row {number} has no value in the column {columns.id}"
    elif columns.text not in fields:
        row.error = f"row {number} has no column {columns.text}"
    else:
        row.text, row.error = string_of(fields[columns.text], columns.text)
    if columns.source is not None and not row.error:
        row.source, row.error = string_of(fields.get(columns.source), columns.source)
        row.source = row.source or None
    if columns.target is not None and not row.error:
        target, row.error = string_of(fields.get(columns.target), columns.target)
        row.target = target or ""
        if not (row.target or row.error):
            row.error = f"row {number} has no value in the column {columns.target}"
    if row.error:
        row.text = None
    return row


def string_of(value: Any, column: str) -> tuple[str | None, str]:
    """Returns a pair of a value and an error.

    For a string or None, the error is empty. For other values, the first part is None.
    """
    if value is None or isinstance(value, str):
        return value, ""
    return None, f"the column {column} has a {type(value).__name__}, not a string"


def scan_lines(path: Path, shard_rows: int) -> Scan:
    """Hashes a file, counts its lines, and finds the offset of the first line of each shard."""
    digest, num_rows, offset, positions, last = hashlib.sha256(), 0, 0, [0], NEWLINE
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == NEWLINE)
            first = shard_rows - num_rows % shard_rows - 1
            positions += [offset + int(end) + 1 for end in ends[first::shard_rows]]
            num_rows += len(ends)
            offset += len(block)
            last = block[-1]
    num_rows += last != NEWLINE
    num_shards = -(-num_rows // shard_rows)
    return Scan(digest.hexdigest(), num_rows, positions[:num_shards])


def read_lines(path: Path, shard: Shard) -> Iterator[tuple[int, bytes]]:
    """Yields the number and the bytes of each line of a shard, without the line break.

    A byte order mark at the start of the file is left out.
    """
    with path.open("rb") as file:
        file.seek(shard.position)
        for number in range(shard.first_row, shard.first_row + shard.num_rows):
            start = file.tell()
            line = file.readline().rstrip(b"\r\n")
            yield number, line if start else line.removeprefix(BOM_UTF8)


FORMATS: dict[str, InputFormat] = {
    "text": TextInput(),
    "jsonl": JsonLinesInput(),
    "parquet": ParquetInput(),
}
SUFFIXES = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


def find_files(sources: Sequence[Path]) -> tuple[str, list[Path]]:
    """Returns the name of the format, and the files. Files of a folder are sorted by name.

    A source with an unknown extension counts as a text file. Files with unknown extensions inside a
    folder are left out.

    Raises:
        JobError: A source is missing or has no file, the formats differ, or a library is missing.
    """
    files: list[Path] = []
    for source in sources:
        if not source.exists():
            raise JobError(f"{source} does not exist")
        if source.is_dir():
            inside = sorted(each for each in source.iterdir() if each.suffix.lower() in SUFFIXES)
            if not inside:
                raise JobError(f"{source} has no file that ends in {', '.join(SUFFIXES)}")
            files += inside
        else:
            files.append(source)
    formats = {SUFFIXES.get(file.suffix.lower(), "text"): file for file in files}
    if len(formats) > 1:
        named = ", ".join(str(file) for file in formats.values())
        raise JobError(f"the files have different formats: {named}; start one job for each format")
    (name,) = formats
    if name == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise JobError("Parquet files need pyarrow: pip install 'regard[ray]'")
    return name, [file.resolve() for file in files]
