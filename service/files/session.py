"""Options, errors, progress and lines of `regard translate`, `embed` and `mcp`."""

import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NoReturn

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from service.console import INTERRUPTED, console, stop
from service.files.client import Client, ServerError
from service.files.private_server import ServerStartError, running_server, serve_command

STANDARD_INPUT = "-"
TERMINATED = 128 + signal.SIGTERM
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Url = Annotated[
    str | None,
    typer.Option(
        envvar="REGARD_URL", help="address of a running server; without it, a server is started"
    ),
]
Models = Annotated[
    str | None,
    typer.Option(help="models of the started server, separated by commas (REGARD_MODELS)"),
]
ApiKey = Annotated[
    str, typer.Option(envvar="REGARD_API_KEY", help="key of the server, if it needs one")
]
Requests = Annotated[int, typer.Option(min=1, max=64, help="number of requests at a time")]


class FileError(Exception):
    """A file cannot be read or written. The message names the remedy."""


@contextmanager
def reached(url: str | None, models: str | None) -> Iterator[str]:
    """Yields the address of the server at a URL, or of a private server for this command."""
    if url is not None and models is not None:
        raise stop(f"--models does not apply to the server at {url}; leave out --models or the URL")
    command = partial(serve_command, models=models)
    with ExitStack() as opened:
        with console.status("The models are loading") if console.is_terminal else nullcontext():
            address = opened.enter_context(running_server(url, command))
        yield address


@contextmanager
def connected(
    url: str | None, models: str | None, api_key: str, num_requests: int
) -> Iterator[Client]:
    with reached(url, models) as address, Client(address, api_key, num_requests) as client:
        yield client


@contextmanager
def errors_shown(interrupted: str) -> Iterator[None]:
    """Prints the message of an error, or `interrupted` after Ctrl-C, and ends with an exit code.

    Only the main thread may call the function, because it sets handlers of signals.
    """
    before = {number: signal.signal(number, _end) for number in ENDING_SIGNALS}
    try:
        yield
    except (ServerError, ServerStartError, FileError, OSError) as error:
        raise stop(str(error)) from error
    except KeyboardInterrupt as error:
        raise stop(interrupted, INTERRUPTED) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: Any) -> NoReturn:
    for each in ENDING_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGTERM:
        raise SystemExit(TERMINATED)  # asyncio would catch typer.Exit in a callback, and go on
    raise KeyboardInterrupt


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(separator="/"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def opened_lines(source: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if source == STANDARD_INPUT else open(source, "rb")


def count_lines(path: Path) -> int:
    """Returns the number of lines of a file. A last line without a line break also counts."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


def read_lines(file: BinaryIO) -> Iterator[str]:
    """Yields the lines of a file in UTF-8, each with its line break, without a byte order mark."""
    name = "the standard input" if file is sys.stdin.buffer else file.name
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            message = f"line {number} of {name} is not UTF-8; save the text with the encoding UTF-8"
            raise FileError(message) from None
