"""Console, settings and error exits of the `regard` commands."""

import logging
from typing import Any

import typer
from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails
from rich.console import Console
from rich.markup import escape

from service import logs
from service.settings import Settings

logger = logging.getLogger("regard")

console = Console(stderr=True)

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def read_settings(flags: dict[str, Any]) -> Settings:
    try:
        return Settings(**flags)
    except ValidationError as error:
        raise stop("; ".join(map(describe_fault, error.errors()))) from None


def describe_fault(fault: ErrorDetails) -> str:
    """Returns the error message for an invalid setting. It never quotes a key."""
    field = str(fault["loc"][0])
    known = Settings.model_fields.get(field)
    is_secret = known is not None and known.annotation is SecretStr
    shown = "not valid" if is_secret else repr(fault["input"])
    reason = fault["msg"].removeprefix("Value error, ")  # of a validator of our own
    return f"REGARD_{field.upper()} is {shown}: {reason}"


def stop(message: str, code: int = 1) -> typer.Exit:
    """Prints or logs why the program ends; returns the exception that the caller must raise."""
    if logs.is_json():  # the server then writes only JSON
        logger.critical("%s", message)
    else:
        console.print(f"[bold red]regard:[/] {escape(message)}", soft_wrap=True, highlight=False)
    return typer.Exit(code)


def say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
