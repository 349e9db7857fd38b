"""The command `regard translate`."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from service.console import console, say, stop
from service.disk import complete_file
from service.documents.base import DocumentError
from service.documents.formats import FORMATS, extension_of, read_document, written_extension
from service.errors import counted
from service.files.client import Client, RefusedError, ServerError, in_requests
from service.files.session import (
    STANDARD_INPUT,
    ApiKey,
    Models,
    Requests,
    Url,
    connected,
    errors_shown,
    opened_lines,
    progress_bar,
    read_lines,
)

# Number of lines of the standard input that are read, translated and written at a time.
WINDOW_LINES = 2000

app = typer.Typer()


@app.command()
def translate(  # noqa: PLR0913 - one parameter is one flag
    source: Annotated[str, typer.Argument(help="a file, a folder, or - for lines from stdin")],
    target_language: Annotated[str, typer.Option("--to", help="target language")],
    source_language: Annotated[str, typer.Option("--from", help="source language")] = "auto",
    target: Annotated[
        Path | None, typer.Option("--output", "-o", help="file or folder for the translation")
    ] = None,
    url: Url = None,
    models: Models = None,
    api_key: ApiKey = "",
    requests: Requests = 4,
    keeps_fuzzy: Annotated[
        bool,
        typer.Option(
            "--keep-fuzzy", envvar="REGARD_KEEP_FUZZY", help="keep this flag in .po files"
        ),
    ] = False,
    is_forced: Annotated[
        bool, typer.Option("--force", help="replace translations that exist")
    ] = False,
) -> None:
    """Translate a file, all documents of a folder, or lines of text.

    Without --url, the command starts a server of its own. A file is skipped if its translation
    exists and is not older than the file. After an interruption, the same command therefore
    continues. The command exits with 1 if a file fails.
    """
    with errors_shown("interrupted; complete files are kept: run the same command to continue"):
        if source == STANDARD_INPUT:
            with connected(url, models, api_key, requests) as client:
                _translate_lines(TextTranslator(client, source_language, target_language), target)
            return
        jobs = _unfinished_jobs(Path(source), target, target_language, is_forced)
        if jobs:
            with connected(url, models, api_key, requests) as client:
                translator = TextTranslator(client, source_language, target_language)
                _translate_files(translator, jobs, keeps_fuzzy)


@dataclass(frozen=True, slots=True)
class Job:
    source: Path
    target: Path

    @property
    def is_done(self) -> bool:
        return self.target.is_file() and self.target.stat().st_mtime >= self.source.stat().st_mtime


def default_target(source: Path, language: str) -> Path:
    """Returns the path of a translation: `book.pt.docx` for `book.docx`, `texts.pt` for `texts`."""
    named = source.resolve() if source.name in ("", "..") else source
    return named.with_name(f"{named.stem}.{language}{written_extension(named)}")


def jobs_of(source: Path, target: Path) -> Iterator[Job]:
    """Yields one job for a file, or one for each document in a folder, sorted by path.

    Hidden files and folders are left out, and so is `target` if it is inside `source`.
    """
    if not source.is_dir():
        yield Job(source, target / source.name if target.is_dir() else target)
        return
    root, translations = source.resolve(), target.resolve()
    has_subfolder = root in translations.parents
    for path in sorted(source.rglob("*")):
        below = path.relative_to(source)
        is_left_out = any(part.startswith(".") for part in below.parts) or (
            has_subfolder and (root / below).is_relative_to(translations)
        )
        if not is_left_out and extension_of(path.name) in FORMATS and path.is_file():
            yield Job(path, (target / below).with_suffix(written_extension(below)))


@dataclass(frozen=True, slots=True)
class TextTranslator:
    """Translates texts by `POST /translate`."""

    client: Client
    source: str
    target: str

    def translate(
        self,
        texts: Sequence[str],
        advance: Callable[[int], object] = lambda number: None,
        is_html: bool = False,
    ) -> list[str]:
        """Returns the translations in the order of the texts.

        Equal texts are sent once, and empty texts are not sent. `advance` gets the number of texts
        that each request finished.
        """
        counts = Counter(filter(None, texts))
        requests = list(in_requests(counts))
        known = {"": ""}
        send = partial(self._send, is_html=is_html)
        for batch, translations in zip(requests, self.client.in_order(send, requests), strict=True):
            known.update(zip(batch, translations, strict=True))
            advance(sum(counts[text] for text in batch))
        return [known[text] for text in texts]

    def _send(self, texts: Sequence[str], is_html: bool) -> list[str]:
        fields = {"q": texts, "source": self.source, "target": self.target}
        if is_html:
            fields["format"] = "html"
        value = self.client.send("/translate", fields).value
        translations = value.get("translatedText") if isinstance(value, dict) else None
        if not isinstance(translations, list) or len(translations) != len(texts):
            raise ServerError(
                f"{self.client.url} did not answer with one translation for each text"
            )
        return [str(translation) for translation in translations]


def _translate_lines(translator: TextTranslator, target: Path | None) -> None:
    opened = nullcontext(sys.stdout.buffer) if target is None else target.open("wb")
    with opened as output, opened_lines(STANDARD_INPUT) as file:
        lines = read_lines(file)
        while window := list(islice(lines, WINDOW_LINES)):
            translations = translator.translate([line.strip() for line in window])
            for line, translation in zip(window, translations, strict=True):
                end = "\n" if line.endswith("\n") else ""
                output.write((" ".join(translation.splitlines()) + end).encode())
            output.flush()


def _unfinished_jobs(
    source: Path, target: Path | None, language: str, is_forced: bool
) -> list[Job]:
    if not source.exists():
        raise stop(f"{source} does not exist")
    try:
        target = target or default_target(source, language)
    except ValueError:  # the folder is `/`, or a file name cannot contain the language
        raise stop(f"no name for the translation of {source}; give --output") from None
    jobs = list(jobs_of(source, target))
    if not jobs:
        raise stop(f"{source} has no documents of a known format")
    sources = {job.source.resolve() for job in jobs}
    if clash := next((job.target for job in jobs if job.target.resolve() in sources), None):
        raise stop(f"a translation would replace the file {clash}; choose another --output")
    if is_forced:
        return jobs
    for job in jobs:
        if job.is_done:
            say(f"{job.target} exists already; --force replaces it")
    return [job for job in jobs if not job.is_done]


def _translate_files(translator: TextTranslator, jobs: Sequence[Job], keeps_fuzzy: bool) -> None:
    num_faults = 0
    with progress_bar() as progress:
        for job in jobs:
            try:
                _translate_file(translator, job, progress, keeps_fuzzy)
            except (DocumentError, RefusedError, OSError) as error:
                num_faults += 1
                say(f"{job.source}: {error}")
    if num_faults:
        raise stop(f"{num_faults} of {len(jobs)} files could not be translated")


def _translate_file(
    translator: TextTranslator, job: Job, progress: Progress, keeps_fuzzy: bool
) -> None:
    document = read_document(job.source.name, job.source.read_bytes(), keeps_fuzzy)
    texts = document.texts()
    task = progress.add_task(str(job.source), total=len(texts))
    translations = translator.translate(
        texts, lambda number: progress.advance(task, number), document.is_html
    )
    with complete_file(job.target) as file:
        file.write(document.write(translations, translator.target))
    if not console.is_terminal:
        say(f"{job.source} -> {job.target}: {counted(len(texts), 'text')}")
