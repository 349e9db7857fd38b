"""Reads the JSON files of a checkpoint."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from model.errors import CheckpointFormatError, CheckpointNotFoundError
from model.regular_files import check_file

MAX_SIZE = 2**24
"""Largest value that `positive_integer` accepts by default. Without a limit, a wrong number in a
damaged file could cause a huge allocation."""


def read_json(path: Path) -> Any:
    """Returns the content of the file.

    Raises:
        CheckpointNotFoundError: There is no such file, or it cannot be read.
        CheckpointFormatError: The file is not JSON, is too large, or is not a regular file.
    """
    try:
        check_file(path)
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointNotFoundError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise CheckpointFormatError(f"{path} is not JSON: {error}") from error


def read_options(path: Path) -> dict[str, Any]:
    """Returns the JSON object in the file.

    Raises:
        CheckpointNotFoundError: There is no such file, or it cannot be read.
        CheckpointFormatError: `read_json` refuses the file, or the file does not hold an object.
    """
    options = read_json(path)
    if not isinstance(options, dict):
        raise CheckpointFormatError(f"{path} holds no JSON object")
    return options


def read_options_if_there(path: Path) -> dict[str, Any]:
    """Returns the JSON object in an optional file; an empty dictionary if the file is missing.

    Raises:
        CheckpointNotFoundError: The file cannot be read.
        CheckpointFormatError: `read_json` refuses the file, or the file does not hold an object.
    """
    return read_options(path) if path.is_file() else {}


def unsupported(options: Mapping[str, Any], supported: Mapping[str, Collection[Any]]) -> list[str]:
    """Returns the reasons to refuse the file: one for each option whose value is not implemented.

    Args:
        options: The content of the file.
        supported: The implemented values of each option. The first value is the default.
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
    """Returns an option that is a count.

    If the value is not an integer from 1 to `most`, an entry is added to `reasons`, and the default
    is returned.
    """
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        reasons.append(f"{name} is {value!r}, it must be an integer from 1 to {most}")
        return default
    return value
