"""The command `regard embed`."""

import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from service.console import console, stop
from service.files.client import Client, Reply, ServerError, in_requests
from service.files.complete_file import complete_file
from service.files.lines import STANDARD_INPUT, count_lines, opened_lines, read_lines
from service.files.session import (
    ApiKey,
    Models,
    Requests,
    Url,
    connected,
    errors_shown,
    progress_bar,
    say,
)
from service.files.vector_files import VectorFile, Vectors, vector_file_type

TRUNCATED_HEADER = "X-Truncated-Inputs"

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
    options = EmbedOptions(model, prompt, dimensions, is_normalized, is_truncated)
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
            embedder = LineEmbedder(client, options)
            count = _write_rows(embedder.embed(lines), vectors, source, total)
            vectors.finish()
        report = f"{source} -> {output}: {count.lines} lines"
        if count.truncated:
            say(f"{report}; {count.truncated} of them were too long, and have been truncated")
        elif not console.is_terminal:
            say(report)


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """Options of a request for embeddings, as `/embed` describes them."""

    model: str | None = None
    prompt_name: str | None = None
    dimensions: int | None = None
    is_normalized: bool = True
    is_truncated: bool = True

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of every request. A field without a value is left out.

        `is_normalized` is not among the fields, because it selects the route.
        """
        fields = {
            "model": self.model,
            "prompt_name": self.prompt_name,
            "dimensions": self.dimensions,
            "truncate": self.is_truncated,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class EmbeddedLines:
    """The lines of one request, and their vectors.

    Attributes:
        lines: Lines of the request, blank lines included.
        vectors: Vectors of D values for the m lines that are not blank, as an array (m, D).
        num_truncated: Number of lines that the server has truncated.
    """

    lines: Sequence[str]
    vectors: Vectors
    num_truncated: int = 0


@dataclass(slots=True)
class LineCount:
    """The numbers of written rows and of truncated lines."""

    lines: int = 0
    truncated: int = 0


class LineEmbedder:
    """Embeds lines by `POST /v1/embeddings`, or by `POST /embed` for unscaled vectors.

    The first route always scales vectors to length 1. It can return vectors in base64, which server
    and client convert quickly. The second route returns unscaled vectors as JSON numbers.

    Args:
        client: Client of the server.
        options: Options of each request.
    """

    def __init__(self, client: Client, options: EmbedOptions) -> None:
        self.client = client
        self.options = options

    def embed(self, lines: Iterable[str]) -> Iterator[EmbeddedLines]:
        """Yields the lines in order, with vectors for all lines that are not blank."""
        return self.client.in_order(self._embed, in_requests(lines))

    def _embed(self, lines: Sequence[str]) -> EmbeddedLines:
        texts = [line for line in lines if line.strip()]
        if not texts:
            return EmbeddedLines(lines, np.zeros((0, 0), np.float32))
        try:
            reply, vectors = self._request(texts)
            return EmbeddedLines(lines, vectors, int(reply.headers.get(TRUNCATED_HEADER, 0)))
        except (LookupError, TypeError, ValueError):
            raise ServerError(
                f"{self.client.url} did not answer with one vector for each text; is it a Regard "
                "server?"
            ) from None

    def _request(self, texts: Sequence[str]) -> tuple[Reply, Vectors]:
        fields = self.options.fields
        if self.options.is_normalized:
            fields = {"input": texts, "encoding_format": "base64", **fields}
            reply = self.client.send("/v1/embeddings", fields)
            data = [binascii.a2b_base64(each["embedding"]) for each in reply.value["data"]]
            vectors = np.frombuffer(b"".join(data), "<f4").reshape(len(data), -1)
        else:
            reply = self.client.send("/embed", {"inputs": texts, "normalize": False, **fields})
            vectors = np.array(reply.value, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(f"{vectors.shape} for {len(texts)} texts")
        return reply, vectors


def _write_rows(
    embedded: Iterator[EmbeddedLines], file: VectorFile, name: str, total: int | None
) -> LineCount:
    """Writes one row for each line, and returns the counts; a blank line gets zeros."""
    first = next(embedded, None)
    if first is None or not first.vectors.size:
        raise stop(f"{name} has no text: all its lines are blank")
    size = first.vectors.shape[1]
    count = LineCount()
    with progress_bar() as progress:
        task = progress.add_task(name, total=total)
        for each in chain([first], embedded):
            is_text = np.array([bool(line.strip()) for line in each.lines])
            if is_text.any() and each.vectors.shape[1] != size:
                sizes = f"{size} and of {each.vectors.shape[1]}"
                raise ServerError(f"the server answered with vectors of {sizes} values")
            rows = np.zeros((len(each.lines), size), np.float32)
            rows[is_text] = each.vectors.reshape(-1, size)
            file.write(each.lines, rows)
            count.lines += len(each.lines)
            count.truncated += each.num_truncated
            progress.advance(task, len(each.lines))
    return count
