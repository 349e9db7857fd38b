"""Jobs for tests of `regard bulk`, with the echo engine.

As a program, the module runs a job with a slow engine, so that a test can kill the process. A third
argument is the address of a cluster.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from service.bulk.commands import INTERRUPTED, Layout, compute_job, job_options
from service.bulk.formats import Columns, find_files
from service.bulk.job import JobOptions
from service.files.session import errors_shown
from service.settings import Settings
from tests.echo_engine import EchoEngine, SlowEngine

SETTINGS = Settings.model_validate({"models": "folder"})
TRANSLATE: dict[str, Any] = {"result": "translation", "source": "en", "target": "pt"}


def layout_of(source: Path, output: Path, **options: Any) -> Layout:
    layout = Layout([source], output, cpus=1, shard_rows=100, chunk_rows=10, engine=EchoEngine)
    return replace(layout, **options)


def options_of(
    layout: Layout, columns: Columns | None = None, settings: Settings = SETTINGS, **wanted: Any
) -> tuple[JobOptions, list[Path]]:
    form, paths = find_files(layout.sources)
    return job_options(layout, columns or Columns(), TRANSLATE | wanted, settings, form), paths


def run_job(source: Path, output: Path, address: Annotated[str | None, Argument()] = None) -> None:
    layout = layout_of(source, output, engine=SlowEngine, address=address)
    with errors_shown(INTERRUPTED):
        compute_job(*options_of(layout), SETTINGS, layout)


if __name__ == "__main__":
    typer.run(run_job)
