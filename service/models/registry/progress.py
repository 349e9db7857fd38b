"""Bars for files that are being fetched. rich, which draws them, is here for the tables anyway."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from service.models.registry.download import Report


class Bars:
    """One bar a file on a terminal; one line a file elsewhere, as logs want it.

    Args:
        console: Where they are shown.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def open(self, name: str, size: int | None) -> Iterator[Report]:
        """The display of one file; what is reported is shown in it."""
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(name, total=size)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        if not self.console.is_terminal:
            self.console.print(f"  {name}", markup=False, highlight=False, soft_wrap=True)
