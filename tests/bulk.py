"""Jobs for tests of `regard bulk`, with the echo engine.

As a program, the module runs a job with a slow engine, so that a test can kill the process.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.bulk.cluster import ClusterOptions
from service.bulk.commands import Layout, compute_job, job_options
from service.bulk.inputs import Columns, find_files
from service.bulk.job import JobOptions
from service.settings import Settings

ENGINE = "tests.echo_engine:EchoEngine"
SETTINGS = Settings.model_validate({"models": "folder"})
TRANSLATE: dict[str, Any] = {"result": "translation", "source": "en", "target": "pt"}


def layout_of(source: Path, output: Path, **options: Any) -> Layout:
    """Returns the layout of a job with one actor on one core."""
    cluster = ClusterOptions(None, 1, 1, 0, None)
    layout = Layout([source], output, None, None, 100, 10, None, cluster, ENGINE)
    return replace(layout, **options)


def options_of(
    layout: Layout,
    columns: Columns | None = None,
    settings: Settings = SETTINGS,
    **wanted: Any,
) -> tuple[JobOptions, list[Path]]:
    """Returns the options of a job, and its input files."""
    form, paths = find_files(layout.sources)
    return job_options(layout, columns or Columns(), TRANSLATE | wanted, settings, form), paths


def run_job(layout: Layout) -> None:
    """Runs a job with Ray."""
    options, paths = options_of(layout)
    compute_job(options, paths, SETTINGS, layout)


if __name__ == "__main__":
    given, wanted = map(Path, sys.argv[1:])
    run_job(layout_of(given, wanted, engine="tests.echo_engine:SlowEngine"))
