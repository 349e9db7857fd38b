"""Formats of output files: JSONL and Parquet.

Each computed chunk of rows is a small file. When all chunks of a shard exist, they are merged into
the file of the shard, in order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import orjson

from service.bulk.rows import Outcome, Row

ROW_GROUP_ROWS = 8192
"""Smallest number of rows in a row group of a Parquet file. The last group may have fewer rows."""


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
        rows: Sequence[Row],
        outcomes: Sequence[Outcome],
    ) -> None:
        """Writes a chunk.

        Args:
            file: Empty file.
            columns: Columns of the output.
            rows: Rows of the chunk.
            outcomes: Result of each row.
        """

    def merge(self, chunks: Iterable[Path], file: IO[bytes]) -> int:
        """Writes the rows of chunks into a file, in order, and returns the number of rows."""


class JsonLinesOutput:
    """One JSON object a line: the id, the result, and the error."""

    suffix = ".jsonl"
    chunk_suffix = ".jsonl"

    def write_chunk(
        self,
        file: IO[bytes],
        columns: OutputColumns,
        rows: Sequence[Row],
        outcomes: Sequence[Outcome],
    ) -> None:
        """Writes one line for each row."""
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
        for row, outcome in zip(rows, outcomes, strict=True):
            fields = {"id": row.id, columns.value: outcome.value, "error": outcome.error or None}
            file.write(orjson.dumps(fields, default=str, option=options))

    def merge(self, chunks: Iterable[Path], file: IO[bytes]) -> int:
        """Concatenates the chunks, and counts the lines."""
        num_rows = 0
        for path in chunks:
            data = path.read_bytes()
            num_rows += data.count(b"\n")
            file.write(data)
        return num_rows


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
        rows: Sequence[Row],
        outcomes: Sequence[Outcome],
    ) -> None:
        """Writes the rows as one batch."""
        import pyarrow

        arrays = {
            "id": id_column([row.id for row in rows], columns.has_numbers),
            columns.value: value_column(columns.value, outcomes),
            "error": pyarrow.array([each.error or None for each in outcomes], pyarrow.string()),
        }
        table = pyarrow.table(arrays)
        with pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def merge(self, chunks: Iterable[Path], file: IO[bytes]) -> int:
        """Writes row groups of at least ROW_GROUP_ROWS rows, and returns the number of all rows."""
        import pyarrow
        import pyarrow.parquet as parquet

        writer: Any = None
        waiting: list[Any] = []
        num_rows = 0
        for path in chunks:
            with pyarrow.ipc.open_file(path) as opened:
                waiting.append(opened.read_all())
            num_rows += len(waiting[-1])
            writer = writer or parquet.ParquetWriter(file, waiting[0].schema)
            if sum(map(len, waiting)) >= ROW_GROUP_ROWS:
                writer.write_table(pyarrow.concat_tables(waiting).combine_chunks())
                waiting = []
        if waiting:
            writer.write_table(pyarrow.concat_tables(waiting).combine_chunks())
        if writer is not None:
            writer.close()
        return num_rows


def id_column(ids: Sequence[Any], has_numbers: bool) -> Any:
    """Returns an Arrow array of ids: integers, or strings."""
    import pyarrow

    if has_numbers:
        return pyarrow.array(ids, pyarrow.int64())
    return pyarrow.array([each if each is None else str(each) for each in ids], pyarrow.string())


def value_column(name: str, outcomes: Sequence[Outcome]) -> Any:
    """Returns an Arrow array of strings, or of lists of float32."""
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
