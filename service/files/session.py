"""Options, errors and progress that `regard translate` and `regard embed` share."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Annotated, Any, NoReturn

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from service.console import console, stop
from service.files.client import Client, ServerError
from service.files.lines import LineError
from service.files.vector_files import VectorFileError
from service.private_server import ServerStartError, running_server, serve_command

INTERRUPTED = 130
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
ApiKey = Annotated[str, typer.Option(help="key of the server, if it needs one")]
Requests = Annotated[int, typer.Option(min=1, max=64, help="number of requests at a time")]


@contextmanager
def connected(
    url: str | None, models: str | None, api_key: str, num_requests: int
) -> Iterator[Client]:
    """Yields a client of the server at a URL, or of a private server for this command.

    Args:
        url: Address of a running server, or None to start one.
        models: Models of the started server. If it is None, REGARD_MODELS names the models.
        api_key: Key of the running server. If it is "", no key is sent.
        num_requests: Number of requests at a time.
    """
    if url is not None and models is not None:
        raise stop(f"--models does not apply to the server at {url}; leave out --models or the URL")
    command = partial(serve_command, models=models)
    with ExitStack() as opened:
        with console.status("The models are loading") if console.is_terminal else nullcontext():
            address = opened.enter_context(running_server(url, command))
        yield opened.enter_context(Client(address, api_key, num_requests))


@contextmanager
def errors_shown(interrupted: str) -> Iterator[None]:
    """Prints the message of an error, and ends the command with an exit code.

    SIGTERM ends the command without a message. The function sets handlers of SIGINT and SIGTERM, so
    only the main thread may call the function. The old handlers are restored at the end.

    Args:
        interrupted: Message after Ctrl-C.
    """
    before = {number: signal.signal(number, _end) for number in ENDING_SIGNALS}
    try:
        yield
    except (ServerError, ServerStartError, LineError, VectorFileError, OSError) as error:
        raise stop(str(error)) from error
    except KeyboardInterrupt as error:
        raise stop(interrupted, INTERRUPTED) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: Any) -> NoReturn:
    """Ends the command after a signal.

    The exception ends the open contexts, which remove temporary files and stop the private
    server. Later signals are ignored, so that they do not interrupt these steps.
    """
    for each in ENDING_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGTERM:
        raise typer.Exit(TERMINATED)
    raise KeyboardInterrupt


def progress_bar() -> Progress:
    """Returns a progress bar on the standard error. The bar is shown only on a terminal."""
    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(separator="/"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


def say(text: str) -> None:
    """Prints a line on the standard error."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
