"""Reads YAML, within limits."""

from typing import Any

import yaml

YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""Errors that `load_yaml` raises, and errors that arise when code takes values from its result.

For malformed dates, booleans and numbers, PyYAML raises built-in errors instead of a YAMLError. For
deep nesting, it raises a RecursionError.
"""

MAX_VALUES = 100_000


def load_yaml(text: str | bytes) -> Any:
    """Returns the content of a YAML text.

    An alias repeats an earlier part of the text. Nested aliases can stand for billions of values.
    An error message that prints them would use up the memory, so such a text is refused.

    Raises:
        ValueError: With its aliases, the text has more than MAX_VALUES values.
        Exception: Another error of YAML_ERRORS; the text is damaged.
    """
    content = yaml.safe_load(text)
    if (number := _num_values(content, {})) > MAX_VALUES:
        raise ValueError(f"with its aliases it has {number} values; the limit is {MAX_VALUES}")
    return content


def _num_values(content: Any, known: dict[int, int]) -> int:
    """Returns the number of values, with repetitions.

    Args:
        content: Content of a YAML text.
        known: Numbers of the lists and mappings that have been counted, by the id of the object.
    """
    if not isinstance(content, dict | list | tuple | set):
        return 1
    if id(content) not in known:
        values = content.values() if isinstance(content, dict) else content
        known[id(content)] = 1 + sum(_num_values(value, known) for value in values)
    return known[id(content)]
