"""Console, settings and error exits of the `regard` commands."""

from typing import Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from service.settings import Settings

console = Console(stderr=True)


def read_settings(flags: dict[str, Any]) -> Settings:
    """Reads the settings from flags and the environment.

    Args:
        flags: Values that override the environment.

    Raises:
        typer.Exit: A value is not valid; the message names variable and value.
    """
    try:
        return Settings(**flags)
    except ValidationError as error:
        faults = [
            f"REGARD_{str(fault['loc'][0]).upper()} is {fault['input']!r}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise stop("; ".join(faults)) from error


def stop(message: str, code: int = 1) -> typer.Exit:
    """Prints why the program ends, and returns the exception that the caller must raise."""
    console.print(f"[bold red]regard:[/] {escape(message)}", soft_wrap=True, highlight=False)
    return typer.Exit(code)
