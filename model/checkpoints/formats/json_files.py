"""JSON files of a checkpoint."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from model.errors import CheckpointFormatError, CheckpointNotFoundError

MAX_SIZE = 2**24
"""No table has more rows or columns; what a damaged file says must not become an allocation."""


def read_json(path: Path) -> Any:
    """What is in the file.

    Raises:
        CheckpointNotFoundError: There is no such file.
        CheckpointFormatError: It is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointNotFoundError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is one
        raise CheckpointFormatError(f"{path} is not JSON: {error}") from error


def read_options(path: Path) -> dict[str, Any]:
    """The object in the file.

    Raises:
        CheckpointNotFoundError: There is no such file.
        CheckpointFormatError: It is not JSON, or no object.
    """
    options = read_json(path)
    if not isinstance(options, dict):
        raise CheckpointFormatError(f"{path} holds no JSON object")
    return options


def read_options_if_there(path: Path) -> dict[str, Any]:
    """The object in a file that a folder need not have; empty without it.

    Raises:
        CheckpointFormatError: It is not JSON, or no object.
    """
    return read_options(path) if path.is_file() else {}


def unsupported(options: Mapping[str, Any], supported: Mapping[str, Collection[Any]]) -> list[str]:
    """What options ask for that is not implemented, a reason each.

    Args:
        options: What is in the file.
        supported: The values that are implemented, by option; the first is what a file means that
            does not name it.
    """
    return [
        f"{name} is {options[name]!r}, supported: {next(iter(values))!r}"
        for name, values in supported.items()
        if name in options and options[name] not in values
    ]


def positive_integer(
    options: Mapping[str, Any],
    name: str,
    default: int,
    reasons: list[str],
    most: int = MAX_SIZE,
) -> int:
    """An option that counts something; a wrong one adds to the reasons to refuse the file."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        reasons.append(f"{name} is {value!r}, it must be an integer from 1 to {most}")
        return default
    return value
