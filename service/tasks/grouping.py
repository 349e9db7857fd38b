"""Groups consecutive items up to a limit of their total size."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def grouped(items: Iterable[T], size_of: Callable[[T], int], limit: int) -> list[list[T]]:
    """Returns the items in groups, in order. An item over the limit is a group of its own."""
    groups: list[list[T]] = []
    total = 0
    for item in items:
        size = size_of(item)
        if not groups or total + size > limit:
            groups.append([])
            total = 0
        groups[-1].append(item)
        total += size
    return groups
