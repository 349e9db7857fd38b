"""`regard keys`: makes lines for the file of keys, and checks the file."""

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from service.console import console, stop
from service.errors import counted
from service.settings.keys import DEFAULT_SCOPES, HASH, checked_name, digest_of, read_keys

KEY_BYTES = 32
"""Number of random bytes in a key. Brute force cannot find a key of this length from its hash."""

app = typer.Typer(help="Make and check API keys.", no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Option(help="name of the key, shown in error messages")] = "",
    scopes: Annotated[str, typer.Option(help="scopes, separated by commas")] = ",".join(
        DEFAULT_SCOPES
    ),
    requests: Annotated[int, typer.Option(min=0, help="requests a minute; 0 for no limit")] = 0,
    characters: Annotated[int, typer.Option(min=0, help="characters a minute; 0 for no limit")] = 0,
) -> None:
    """Make a key. Its line for the file of keys goes to stdout, and the key itself to stderr."""
    if not scopes.strip():
        raise stop("the scopes are empty; name one or more, separated by commas")
    key = secrets.token_urlsafe(KEY_BYTES)
    options = {
        "name": name,
        "scopes": scopes if scopes != ",".join(DEFAULT_SCOPES) else "",
        "requests": requests,
        "characters": characters,
    }
    line = " ".join(
        [
            HASH + digest_of(key),
            *(f"{option}={value}" for option, value in options.items() if value),
        ]
    )
    try:
        checked_name(name)
        read_keys(line)
    except ValueError as error:
        raise stop(str(error).removeprefix("line 1: ")) from None
    sys.stdout.write(line + "\n")
    console.print(
        f"The key, which is shown only now: {key}", soft_wrap=True, highlight=False, markup=False
    )


@app.command()
def check(file: Annotated[Path, typer.Argument(help="file of keys")]) -> None:
    """Check a file of keys before a server reads it."""
    try:
        keys = read_keys(file.read_text("utf-8"))
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise stop(f"{file} cannot be read: {reason}") from None
    except ValueError as error:
        raise stop(f"{file}: {error}") from None
    sys.stdout.write(f"{file} has {counted(len(keys), 'key')}\n")
