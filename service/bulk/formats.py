"""Formats of input and output files: text with one row a line, JSONL, and Parquet.

An input format divides a file into shards, which are ranges of rows. An output format writes the
results of each chunk of a shard. At the end it merges the chunks into the file of the shard.
"""

import hashlib
import importlib.util
import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import orjson

from service.bulk.rows import Chunk, JobError, Outcome, Row

BLOCK_BYTES = 1 << 20
BATCH_ROWS = 1024
NEWLINE = 0x0A


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of an input. A text file has no columns."""

    text: str = "text"
    id: str | None = None  # None numbers the rows
    source: str | None = None
    target: str | None = None

    @property
    def names(self) -> list[str]:
        return [*dict.fromkeys(filter(None, (self.text, self.id, self.source, self.target)))]


@dataclass(frozen=True, slots=True)
class Shard:
    file: int  # index of the file
    position: int  # start of the range: an offset in bytes, or a row number in a Parquet file
    num_rows: int
    first_row: int  # number of the first row, counted over all files from 0


class Scan(NamedTuple):
    sha256: str
    num_rows: int
    positions: Sequence[int]  # of each shard
    has_numbers: bool  # whether all ids are integers


class TextInput:
    """Text with one row a line, in UTF-8. Blank lines are rows too."""

    def scan(self, path: Path, columns: Columns, shard_rows: int) -> Scan:
        if columns != Columns():
            raise JobError(f"{path} is a text file and has no columns; omit the column options")
        return scan_lines(path, columns, shard_rows)

    def read(self, path: Path, columns: Columns, shard: Shard) -> Iterator[Row]:
        """Yields the rows of a shard. A row that cannot be read has an error."""
        for number, line in read_lines(path, shard):
            try:
                yield Row(number, line.decode("utf-8"))
            except UnicodeDecodeError:
                yield unreadable(number, columns, "is not UTF-8")


class JsonLinesInput:
    def scan(self, path: Path, columns: Columns, shard_rows: int) -> Scan:
        return scan_lines(path, columns, shard_rows)

    def read(self, path: Path, columns: Columns, shard: Shard) -> Iterator[Row]:
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
                yield unreadable(number, columns, "is no JSON object")


class ParquetInput:
    def scan(self, path: Path, columns: Columns, shard_rows: int) -> Scan:
        import pyarrow
        import pyarrow.parquet as parquet

        try:
            with parquet.ParquetFile(path) as file:
                num_rows, schema = file.metadata.num_rows, file.schema_arrow
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
            raise JobError(f"{path} is no readable Parquet file: {error}") from None
        if missing := [name for name in columns.names if name not in schema.names]:
            raise JobError(
                f"{path} has no column {', '.join(missing)}; it has {', '.join(schema.names)}. "
                "Name the columns with --text-column, --id-column, --from-column and --to-column"
            )
        kind = pyarrow.int64() if columns.id is None else schema.field(columns.id).type
        has_numbers = pyarrow.types.is_integer(kind) and not pyarrow.types.is_uint64(kind)
        with path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return Scan(digest, num_rows, range(0, num_rows, shard_rows), bool(has_numbers))

    def read(self, path: Path, columns: Columns, shard: Shard) -> Iterator[Row]:
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
                        yield unreadable(number, columns, "is not UTF-8")
                    else:
                        yield row_of(number, fields, columns)
                first += batch.num_rows


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
    """Returns the row groups with rows from `start` to `end` - 1, and their first row."""
    found: list[int] = []
    first = begin = 0
    for group in range(metadata.num_row_groups):
        behind = begin + metadata.row_group(group).num_rows
        if begin < end and behind > start:
            first = first if found else begin
            found.append(group)
        begin = behind
    return found, first


def unreadable(number: int, columns: Columns, fault: str) -> Row:
    return Row(None if columns.id else number, None, error=f"row {number} {fault}")


def row_of(number: int, fields: dict[str, Any], columns: Columns) -> Row:
    row_id = number if columns.id is None else fields.get(columns.id)
    try:
        if row_id is None:
            raise ValueError(f"row {number} has no value in the column {columns.id}")
        if columns.text not in fields:
            raise ValueError(f"row {number} has no column {columns.text}")
        names = (columns.text, columns.source, columns.target)
        text, source, target = (string_of(fields, name) for name in names)
        if columns.target is not None and not target:
            raise ValueError(f"row {number} has no value in the column {columns.target}")
    except ValueError as error:
        return Row(row_id, None, error=str(error))
    return Row(row_id, text, source or None, target or "")


def string_of(fields: dict[str, Any], column: str | None) -> str | None:
    value = None if column is None else fields.get(column)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"the column {column} has a {type(value).__name__}, not a string")


def scan_lines(path: Path, columns: Columns, shard_rows: int) -> Scan:
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
    return Scan(digest.hexdigest(), num_rows, positions[:num_shards], columns.id is None)


def read_lines(path: Path, shard: Shard) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        file.seek(shard.position)
        for number in range(shard.first_row, shard.first_row + shard.num_rows):
            start = file.tell()
            line = file.readline().rstrip(b"\r\n")
            yield number, line if start else line.removeprefix(BOM_UTF8)


InputFormat = TextInput | JsonLinesInput | ParquetInput
INPUTS: dict[str, InputFormat] = {
    "text": TextInput(),
    "jsonl": JsonLinesInput(),
    "parquet": ParquetInput(),
}
SUFFIXES = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def find_files(sources: Sequence[Path]) -> tuple[str, list[Path]]:
    """Returns the name of the format, and the files. Files of a folder are sorted by name.

    A file with an unknown extension counts as text if it is named, and is left out in a folder.
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
        raise JobError("Parquet files need pyarrow: pip install 'regard[parquet]'")
    return name, [file.resolve() for file in files]


ROW_GROUP_ROWS = 8192

POSITION = "position"
"""Name of the column of positions in a chunk. Only the chunks of Parquet output have columns."""


class JsonLinesOutput:
    """One JSON object a line: the id, the result, and the error."""

    suffix = ".jsonl"
    chunk_suffix = ".jsonl"

    def write_chunk(
        self, file: IO[bytes], name: str, _: bool, chunk: Chunk, outcomes: Sequence[Outcome]
    ) -> None:
        """Writes one line for each row: its position, a space, and its JSON object."""
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
        for position, row, outcome in zip(chunk.positions, chunk.rows, outcomes, strict=True):
            fields = {"id": row.id, name: outcome.value, "error": outcome.error or None}
            line = orjson.dumps(fields, default=str, option=options)
            file.write(b"%d %b" % (position, line))

    def merge(self, chunks: Iterable[Path], file: IO[bytes]) -> int:
        """Writes the rows in the order of their positions, and returns their number.

        The chunks are read twice, because a shard of vectors may be too large for the memory. The
        first reading finds the size of each object, and thus its offset in the file.
        """
        paths = [*chunks]
        sizes = {position: len(line) for position, line in read_positioned(paths)}
        places, end = dict[int, int](), 0
        for position in sorted(sizes):
            places[position] = end
            end += sizes[position]
        for position, line in read_positioned(paths):
            os.pwrite(file.fileno(), line, places[position])
        return len(sizes)


def read_positioned(chunks: Iterable[Path]) -> Iterator[tuple[int, bytes]]:
    for path in chunks:
        with path.open("rb") as file:
            for line in file:
                position, _, found = line.partition(b" ")
                yield int(position), found


class ParquetOutput:
    """Writes Parquet files with three columns: the id, the result, and the error.

    A chunk is an Arrow file, because Arrow files are written and read faster than Parquet files.
    """

    suffix = ".parquet"
    chunk_suffix = ".arrow"

    def write_chunk(
        self,
        file: IO[bytes],
        name: str,
        has_numbers: bool,
        chunk: Chunk,
        outcomes: Sequence[Outcome],
    ) -> None:
        import pyarrow

        ids: list[Any] = [row.id for row in chunk.rows]
        if not has_numbers:
            ids = [each if each is None else str(each) for each in ids]
        arrays = {
            POSITION: pyarrow.array(chunk.positions, pyarrow.int64()),
            "id": pyarrow.array(ids, pyarrow.int64() if has_numbers else pyarrow.string()),
            name: value_column(name, outcomes),
            "error": pyarrow.array([each.error or None for each in outcomes], pyarrow.string()),
        }
        table = pyarrow.table(arrays)
        with pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def merge(self, chunks: Iterable[Path], file: IO[bytes]) -> int:
        """Merges chunks; all rows of the shard are in memory at once."""
        import pyarrow
        import pyarrow.parquet as parquet

        opened = [pyarrow.ipc.open_file(path.read_bytes()) for path in chunks]
        table = pyarrow.concat_tables([each.read_all() for each in opened])
        positions, order = np.unique(table.column(POSITION).to_numpy(), return_index=True)
        rows = table.drop_columns([POSITION])
        with parquet.ParquetWriter(file, rows.schema) as writer:
            for first in range(0, len(order), ROW_GROUP_ROWS):
                writer.write_table(rows.take(order[first : first + ROW_GROUP_ROWS]))
        return len(positions)


def value_column(name: str, outcomes: Sequence[Outcome]) -> Any:
    import pyarrow

    values = [each.value for each in outcomes]
    if name != "vector":
        return pyarrow.array(values, pyarrow.string())
    sizes = [0 if value is None else len(value) for value in values]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    found = [np.asarray(value, np.float32) for value in values if value is not None]
    numbers = np.concatenate(found) if found else np.zeros(0, np.float32)
    is_null = pyarrow.array([value is None for value in values])
    return pyarrow.ListArray.from_arrays(
        pyarrow.array(offsets), pyarrow.array(numbers, pyarrow.float32()), mask=is_null
    )


OutputFormat = JsonLinesOutput | ParquetOutput
OUTPUTS: dict[str, OutputFormat] = {"jsonl": JsonLinesOutput(), "parquet": ParquetOutput()}
