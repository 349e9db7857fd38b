"""The command `regard embed`, and its files of vectors: numpy's `.npy`, and Parquet."""

import binascii
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.lib import format as npy
from numpy.typing import NDArray

from service.console import console, say
from service.disk import complete_file
from service.errors import counted
from service.files.client import Client, ServerError, in_requests
from service.files.session import (
    STANDARD_INPUT,
    ApiKey,
    FileError,
    Models,
    Requests,
    Url,
    connected,
    count_lines,
    errors_shown,
    opened_lines,
    progress_bar,
    read_lines,
)

TRUNCATED_HEADER = "X-Truncated-Inputs"

Vectors = NDArray[np.float32]
"""n vectors of size D, as an array (n, D)."""
ROW_GROUP_ROWS = 8192
"""A Parquet file collects at least this many rows in memory before it writes a row group."""

app = typer.Typer()


@app.command()
def embed(  # noqa: PLR0913 - one parameter is one flag
    source: Annotated[str, typer.Argument(help="a text file, or - for lines from stdin")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="file for the vectors: *.npy or *.parquet")
    ],
    model: Annotated[
        str | None, typer.Option(help="name as in /v1/models; default: first embedding model")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt-name", help="name of the prompt to add before each line")
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="keep only this many leading values of each vector")
    ] = None,
    is_normalized: Annotated[
        bool, typer.Option("--normalize/--no-normalize", help="scale vectors to length 1")
    ] = True,
    is_truncated: Annotated[
        bool, typer.Option("--truncate/--no-truncate", help="cut lines that are too long")
    ] = True,
    url: Url = None,
    models: Models = None,
    api_key: ApiKey = "",
    requests: Requests = 4,
) -> None:
    """Compute a vector for each line of a text file.

    Row i of the output belongs to line i; a blank line gets zeros. Without --url, the command
    starts a server of its own. An existing output is replaced when all vectors are complete.
    """
    named = {"model": model, "prompt_name": prompt, "dimensions": dimensions}
    given = {name: value for name, value in named.items() if value is not None}
    options = {**given, "truncate": is_truncated}
    with errors_shown(f"interrupted; {output} was not written"):
        file_type = vector_file_type(output)
        is_file = source != STANDARD_INPUT and Path(source).is_file()  # counting empties a pipe
        total = count_lines(Path(source)) if is_file else None
        with (
            opened_lines(source) as file,
            complete_file(output) as written,
            connected(url, models, api_key, requests) as client,
        ):
            lines = (line.rstrip("\r\n") for line in read_lines(file))
            vectors = file_type(written)
            # Only the request of a blank file has no text.
            batches = (each for each in in_requests(lines) if any(map(str.strip, each)))
            work = partial(_embed, client=client, is_normalized=is_normalized, options=options)
            embedded = client.in_order(work, batches)
            num_lines, num_truncated = _write_rows(embedded, vectors, source, total)
            vectors.finish()
        report = f"{source} -> {output}: {counted(num_lines, 'line')}"
        if num_truncated:
            say(f"{report}; {num_truncated} of them were too long, and have been truncated")
        elif not console.is_terminal:
            say(report)


class EmbeddedLines(NamedTuple):
    """The n lines of one request and their vectors (n, D). A blank line has a vector of zeros."""

    lines: Sequence[str]
    vectors: Vectors
    num_truncated: int


def _embed(
    lines: Sequence[str], client: Client, is_normalized: bool, options: Mapping[str, Any]
) -> EmbeddedLines:
    """Embeds lines by `POST /v1/embeddings`, or by `POST /embed` for unscaled vectors.

    The first route can return vectors in base64, which server and client convert quickly.
    """
    places = [number for number, line in enumerate(lines) if line.strip()]
    texts = [lines[number] for number in places]
    try:
        if is_normalized:
            fields = {"input": texts, "encoding_format": "base64", **options}
            reply = client.send("/v1/embeddings", fields)
            data = [binascii.a2b_base64(each["embedding"]) for each in reply.value["data"]]
            vectors = np.frombuffer(b"".join(data), "<f4").reshape(len(data), -1)
        else:
            reply = client.send("/embed", {"inputs": texts, "normalize": False, **options})
            vectors = np.array(reply.value, np.float32)
        rows = np.zeros((len(lines), vectors.shape[1]), np.float32)
        rows[places] = vectors.reshape(len(texts), -1)  # fails for another number
        return EmbeddedLines(lines, rows, int(reply.headers.get(TRUNCATED_HEADER, 0)))
    except (LookupError, TypeError, ValueError):
        raise ServerError(
            f"{client.url} did not answer with one vector for each text; is it a Regard server?"
        ) from None


def _write_rows(
    embedded: Iterator[EmbeddedLines], file: "NpyFile | ParquetFile", name: str, total: int | None
) -> tuple[int, int]:
    """Writes one row for each line; returns the numbers of lines and of truncated lines."""
    size = num_lines = num_truncated = 0
    with progress_bar() as progress:
        task = progress.add_task(name, total=total)
        for each in embedded:
            given, size = size, each.vectors.shape[1]
            if given not in (0, size):
                sizes = f"{given} and of {size}"
                raise ServerError(f"the server answered with vectors of {sizes} values")
            file.write(each.lines, each.vectors)
            num_lines += len(each.lines)
            num_truncated += each.num_truncated
            progress.advance(task, len(each.lines))
    if not num_lines:
        raise FileError(f"{name} has no text: all its lines are blank")
    return num_lines, num_truncated


class NpyFile:
    """A `.npy` file with one array: N rows of D little-endian float32, without the texts.

    The number of rows is known only at the end. The header has room for a larger number.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.num_rows = self.size = 0

    def write(self, texts: Sequence[str], vectors: Vectors) -> None:
        self.size = vectors.shape[1]
        if not self.num_rows:
            self.finish()
        self.file.write(np.ascontiguousarray(vectors, "<f4").data)
        self.num_rows += len(vectors)

    def finish(self) -> None:
        self.file.seek(0)
        shape = (self.num_rows, self.size)
        fields = {"descr": "<f4", "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.file, fields)


class ParquetFile:
    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.writer: Any = None
        self.texts: list[str] = []
        self.vectors: list[Vectors] = []

    def write(self, texts: Sequence[str], vectors: Vectors) -> None:
        self.texts += texts
        self.vectors.append(vectors)
        if len(self.texts) >= ROW_GROUP_ROWS:
            self._write_group()

    def finish(self) -> None:
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
    suffix = path.suffix.lower()
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise FileError(
            f"{path} needs pyarrow, which is not installed: pip install 'regard[parquet]', or "
            "choose a name that ends in .npy"
        )
    if suffix not in (".npy", ".parquet"):
        raise FileError(f"{path} is no known file of vectors; end its name in .npy or .parquet")
    return NpyFile if suffix == ".npy" else ParquetFile
