"""The command `regard translate`."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from service.console import console, stop
from service.documents.base import DocumentError
from service.documents.formats import read_document
from service.file_translation.client import ServerError, TranslationClient
from service.file_translation.files import Job, default_target, jobs_of, write_complete

STANDARD_INPUT = "-"
INTERRUPTED = 130
WINDOW_LINES = 2000
"""Number of lines of the standard input that are translated, and then written, at a time."""


app = typer.Typer()


@app.command()
def translate(
    source: Annotated[str, typer.Argument(help="a file, a folder, or - for lines from stdin")],
    target_language: Annotated[str, typer.Option("--to", help="target language")],
    source_language: Annotated[str, typer.Option("--from", help="source language")] = "auto",
    target: Annotated[
        Path | None, typer.Option("--output", "-o", help="file or folder for the translation")
    ] = None,
    url: Annotated[
        str, typer.Option(envvar="REGARD_URL", help="address of a running server")
    ] = "http://127.0.0.1:8000",
    api_key: Annotated[str, typer.Option(help="key of the server, if it needs one")] = "",
    requests: Annotated[int, typer.Option(min=1, max=64, help="number of requests at a time")] = 4,
    is_forced: Annotated[
        bool, typer.Option("--force", help="replace translations that exist")
    ] = False,
) -> None:
    """Translate a file, all documents of a folder, or lines of text with a running server.

    A file is skipped if its translation exists and is not older than the file. After an
    interruption, the same command therefore continues. Exits with 1 if a file fails.
    """
    with _errors_shown():
        client = TranslationClient(url, source_language, target_language, api_key, requests)
        try:
            if source == STANDARD_INPUT:
                _translate_lines(client, target)
            else:
                _translate_files(client, Path(source), target, is_forced)
        finally:
            client.stop()


@contextmanager
def _errors_shown() -> Iterator[None]:
    try:
        yield
    except (ServerError, OSError) as error:
        raise stop(str(error)) from error
    except KeyboardInterrupt as error:
        raise stop(
            "interrupted; complete files are kept, and the same command continues", INTERRUPTED
        ) from error


def _translate_lines(client: TranslationClient, target: Path | None) -> None:
    """Translates the standard input line by line; the output has the same number of lines."""
    opened = nullcontext(sys.stdout.buffer) if target is None else target.open("wb")
    with opened as output:
        lines = _read_lines(sys.stdin.buffer)
        while window := list(islice(lines, WINDOW_LINES)):
            texts = [line.strip() for line in window]
            translations = iter(client.translate([text for text in texts if text]))
            for line, text in zip(window, texts, strict=True):
                end = "\n" if line.endswith("\n") else ""
                written = " ".join(next(translations).splitlines()) if text else ""
                output.write((written + end).encode())
            output.flush()


def _read_lines(file: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise stop(f"line {number} of the standard input is not UTF-8") from error


def _translate_files(
    client: TranslationClient, source: Path, target: Path | None, is_forced: bool
) -> None:
    """Translates files one after the other, and continues after a file that has failed.

    Raises:
        typer.Exit: A file could not be translated.
        ServerError: The server cannot be reached.
    """
    if not source.exists():
        raise stop(f"{source} does not exist")
    jobs = list(jobs_of(source, target or default_target(source, client.target)))
    faults = []
    with _progress() as progress:
        for job in jobs:
            if job.is_done and not is_forced:
                _say(f"{job.target} exists already; --force replaces it")
                continue
            try:
                _translate_file(client, job, progress)
            except (DocumentError, OSError) as error:
                faults.append(f"{job.source}: {error}")
                _say(faults[-1])
    if not jobs:
        raise stop(f"{source} has no documents of a known format")
    if faults:
        raise stop(f"{len(faults)} of {len(jobs)} files could not be translated")


def _translate_file(client: TranslationClient, job: Job, progress: Progress) -> None:
    if job.source.resolve() == job.target.resolve():
        raise DocumentError("the translation would replace the file; choose another --output")
    document = read_document(job.source.name, job.source.read_bytes())
    texts = document.texts()
    task = progress.add_task(str(job.source), total=len(texts))
    translations = client.translate(
        texts, lambda number: progress.advance(task, number), document.is_html
    )
    write_complete(job.target, document.write(translations, client.target))
    if not console.is_terminal:
        _say(f"{job.source} -> {job.target}: {len(texts)} texts")


def _progress() -> Progress:
    columns: Iterable[TextColumn | BarColumn | TimeRemainingColumn] = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
