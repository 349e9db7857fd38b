"""Formats of output files: JSONL and Parquet.

The results of each chunk of rows stand in a small file, with the position of each row in the shard.
When all chunks of a shard exist, their rows are merged into the file of the shard, in order.
"""

import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import orjson

from service.bulk.chunks import Chunk
from service.bulk.rows import Outcome

ROW_GROUP_ROWS = 8192
"""Number of rows in a row group of a Parquet file. The last group may have fewer rows."""

POSITION = "position"
"""Name of the column of positions in a chunk of Parquet output, which is an Arrow file."""


@dataclass(frozen=True, slots=True)
class OutputColumns:
    """Name of the result column, and type of the ids.

    Attributes:
        value: Name of the column of the results: `translation` or `vector`.
        has_numbers: Whether all ids are integers. If not, a Parquet file has all ids as strings.
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
        """Writes the rows of chunks in the order of their positions; returns the number of rows."""


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
        """Writes the JSON objects in order, and returns their number.

        The function only maps the chunk files into memory, because a shard of vectors may be large.
        """
        places: list[tuple[int, mmap.mmap, int, int]] = []
        for path in chunks:
            with path.open("rb") as opened:
                data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            begin = 0
            while line := data.readline():
                end = begin + len(line)
                places.append((int(line[: line.index(b" ")]), data, begin, end))
                begin = end
        places.sort(key=itemgetter(0))
        for position, data, begin, end in places:
            file.write(data[begin + len(b"%d " % position) : end])
        return len(places)


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
        """Writes row groups of ROW_GROUP_ROWS rows, and returns the number of all rows.

        The function only maps the chunk files into memory, because a shard of vectors may be large.
        """
        import pyarrow
        import pyarrow.parquet as parquet

        opened = [pyarrow.ipc.open_file(pyarrow.memory_map(str(path))) for path in chunks]
        table = pyarrow.concat_tables([each.read_all() for each in opened])
        order = np.argsort(table.column(POSITION).to_numpy())
        rows = table.drop_columns([POSITION])
        with parquet.ParquetWriter(file, rows.schema) as writer:
            for first in range(0, len(order), ROW_GROUP_ROWS):
                writer.write_table(rows.take(order[first : first + ROW_GROUP_ROWS]))
        return len(order)


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
