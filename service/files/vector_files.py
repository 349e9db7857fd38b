"""Files of vectors that are written row by row: numpy's `.npy`, and Parquet."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""n vectors of size D, as an array (n, D)."""

ROW_GROUP_ROWS = 8192
"""A Parquet file collects at least this many rows in memory before it writes a row group.

Only the last row group may have fewer rows.
"""


class VectorFileError(Exception):
    """A file of vectors cannot be written. The message names the remedy."""


class VectorFile(Protocol):
    """A file that gets one row for each text."""

    def write(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Appends rows.

        Args:
            texts: n texts.
            vectors: Vectors (n, D), with the same D in every call.
        """

    def finish(self) -> None:
        """Writes the end of the file, after the last row."""


class NpyFile:
    """A `.npy` file with one array: N rows of D little-endian float32, without the texts.

    The header contains the number of rows, which is known only at the end. `finish` therefore
    writes the header again. numpy leaves room in the header for a larger number.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.num_rows = self.size = 0

    def write(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Appends the vectors."""
        if not self.num_rows:
            self.size = vectors.shape[1]
            self._write_header()
        self.file.write(np.ascontiguousarray(vectors, "<f4").data)
        self.num_rows += len(vectors)

    def finish(self) -> None:
        """Writes the final number of rows into the header."""
        self.file.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        shape = (self.num_rows, self.size)
        fields = {"descr": "<f4", "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.file, fields)


class ParquetFile:
    """A Parquet file with the columns `text` and `vector`; a vector is a list of D float32."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.writer: Any = None
        self.texts: list[str] = []
        self.vectors: list[Vectors] = []

    def write(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Appends texts and vectors."""
        self.texts += texts
        self.vectors.append(vectors)
        if len(self.texts) >= ROW_GROUP_ROWS:
            self._write_group()

    def finish(self) -> None:
        """Writes the last row group and the index of the file."""
        self._write_group()
        self.writer.close()

    def _write_group(self) -> None:
        import pyarrow
        import pyarrow.parquet

        if not self.texts:
            return
        rows = np.concatenate(self.vectors)
        values = pyarrow.array(rows.reshape(-1), pyarrow.float32())
        vectors = pyarrow.FixedSizeListArray.from_arrays(values, rows.shape[1])
        table = pyarrow.table({"text": pyarrow.array(self.texts, "string"), "vector": vectors})
        if self.writer is None:
            self.writer = pyarrow.parquet.ParquetWriter(
                self.file, table.schema, use_dictionary=False
            )
        self.writer.write_table(table)
        self.texts, self.vectors = [], []


def vector_file_type(path: Path) -> type[NpyFile] | type[ParquetFile]:
    """Returns the class that writes files with the extension of a path."""
    match path.suffix.lower():
        case ".npy":
            return NpyFile
        case ".parquet":
            if importlib.util.find_spec("pyarrow") is None:
                raise VectorFileError(
                    f"{path} needs pyarrow, which is not installed: pip install 'regard[parquet]', "
                    "or choose a name that ends in .npy"
                )
            return ParquetFile
    raise VectorFileError(f"{path} is no known file of vectors; end its name in .npy or .parquet")
