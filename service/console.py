"""What the `regard` commands share: where they speak, and how they stop."""

from typing import Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from service.settings import Settings

console = Console(stderr=True)


def read_settings(flags: dict[str, Any]) -> Settings:
    """Settings from the environment and flags; a bad value ends the program, named."""
    try:
        return Settings(**flags)
    except ValidationError as error:
        faults = [
            f"REGARD_{str(fault['loc'][0]).upper()} is {fault['input']!r}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise stop("; ".join(faults)) from error


def stop(message: str, code: int = 1) -> typer.Exit:
    """Says why the program ends."""
    console.print(f"[bold red]regard:[/] {escape(message)}", soft_wrap=True, highlight=False)
    return typer.Exit(code)
