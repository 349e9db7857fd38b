"""Formats of output files: JSONL and Parquet.

Each chunk of rows has a small file with the results of the rows, and their positions in the shard.
When all chunks of a shard exist, their rows are merged into the file of the shard, in order.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import orjson

from service.bulk.chunks import Chunk
from service.bulk.rows import Outcome

ROW_GROUP_ROWS = 8192
"""Number of rows in a row group of a Parquet file. The last group may have fewer rows."""

POSITION = "position"
"""Name of the column of positions in a chunk. Only the chunks of Parquet output have columns."""


@dataclass(frozen=True, slots=True)
class OutputColumns:
    """Name of the result column, and type of the ids.

    Attributes:
        value: Name of the column of the results: `translation` or `vector`.
        has_numbers: Whether all ids are integers. If not, Parquet files store all ids as strings.
    """

    value: str
    has_numbers: bool


class OutputFormat(Protocol):
    """Writes chunks, and merges them into shards.

    Attributes:
        suffix: Extension of a shard.
        chunk_suffix: Extension of a chunk.
    """

    suffix: str
    chunk_suffix: str

    def write_chunk(
        self,
        file: IO[bytes],
        columns: OutputColumns,
        chunk: Chunk,
        outcomes: Sequence[Outcome],
    ) -> None:
        """Writes a chunk.

        Args:
            file: Empty file.
            columns: Columns of the output.
            chunk: The chunk.
            outcomes: Result of each row of the chunk.
        """

    def merge(self, chunks: Iterable[Path], file: IO[bytes]) -> int:
        """Writes the rows of chunks in the order of their positions, and returns their number.

        Rows with the same position count as one row.
        """


class JsonLinesOutput:
    """One JSON object a line: the id, the result, and the error."""

    suffix = ".jsonl"
    chunk_suffix = ".jsonl"

    def write_chunk(
        self,
        file: IO[bytes],
        columns: OutputColumns,
        chunk: Chunk,
        outcomes: Sequence[Outcome],
    ) -> None:
        """Writes one line for each row: its position, a space, and its JSON object."""
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
        for position, row, outcome in zip(chunk.positions, chunk.rows, outcomes, strict=True):
            fields = {"id": row.id, columns.value: outcome.value, "error": outcome.error or None}
            line = orjson.dumps(fields, default=str, option=options)
            file.write(b"%d %b" % (position, line))

    def merge(self, chunks: Iterable[Path], file: IO[bytes]) -> int:
        """Writes each JSON object at its offset, and returns the number of different positions.

        The chunks are read twice, because a shard of vectors may be too large for the memory. The
        first reading finds the size of each object. The sizes determine the offsets in the file.
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
    """Yields the position and the JSON object of each row of chunks, with the line break."""
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
        columns: OutputColumns,
        chunk: Chunk,
        outcomes: Sequence[Outcome],
    ) -> None:
        """Writes the rows to an Arrow file, as one record batch."""
        import pyarrow

        arrays = {
            POSITION: pyarrow.array(chunk.positions, pyarrow.int64()),
            "id": id_column([row.id for row in chunk.rows], columns.has_numbers),
            columns.value: value_column(columns.value, outcomes),
            "error": pyarrow.array([each.error or None for each in outcomes], pyarrow.string()),
        }
        table = pyarrow.table(arrays)
        with pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def merge(self, chunks: Iterable[Path], file: IO[bytes]) -> int:
        """Writes row groups of ROW_GROUP_ROWS rows; returns the number of different positions.

        All rows of the shard are in memory at once.
        """
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


def id_column(ids: Sequence[Any], has_numbers: bool) -> Any:
    """Returns an Arrow array of ids: integers, or strings."""
    import pyarrow

    if has_numbers:
        return pyarrow.array(ids, pyarrow.int64())
    return pyarrow.array([each if each is None else str(each) for each in ids], pyarrow.string())


def value_column(name: str, outcomes: Sequence[Outcome]) -> Any:
    """Returns the results as an Arrow array: lists of float32 for vectors, otherwise strings."""
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


FORMATS: dict[str, OutputFormat] = {"jsonl": JsonLinesOutput(), "parquet": ParquetOutput()}
