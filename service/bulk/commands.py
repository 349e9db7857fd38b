"""The commands `regard bulk translate` and `regard bulk embed`."""

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import version
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from model.errors import ModelError
from service.bulk.folder import OutputFolder, costs, read_totals
from service.bulk.formats import OUTPUTS, Columns, find_files
from service.bulk.job import Job, JobOptions, check_same, plan, restore, touched
from service.bulk.rows import JobError
from service.bulk.work import Cluster, Engine, EngineSpec, compute_here, compute_on_ray, load_ray
from service.console import read_settings, say, stop
from service.errors import ServiceError, counted
from service.files.session import errors_shown, progress_bar
from service.ipc.machine import available_cores
from service.models.catalog import Catalog
from service.models.registry.commands import take_models
from service.models.registry.errors import RegistryError
from service.settings import Settings
from service.tasks.embedding.embedder import is_dense, other_kind, prompted
from service.tasks.embedding.limits import check_dimensions

INTERRUPTED = "interrupted; committed rows are kept: run the same command to continue"
RESULT_SETTINGS = (
    *("device", "dtype", "placements", "languages", "shortlist"),
    *("max_beam_size", "guard_beam_size", "phrase_beam_size"),
    *("max_source_tokens", "max_batch_tokens"),
)
"""Settings that can change results."""

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Layout:
    sources: Annotated[list[Path], typer.Argument(help="files, or folders of files")]
    output: Annotated[Path, typer.Option("--output", "-o", help="folder for the results")]
    text_column: Annotated[str, typer.Option(help="column of the texts")] = "text"
    id_column: Annotated[
        str | None, typer.Option(help="column of the ids; by default row numbers")
    ] = None
    output_format: Annotated[
        str | None,
        typer.Option("--format", help="jsonl or parquet; default: parquet for Parquet, else jsonl"),
    ] = None
    models: Annotated[
        str | None, typer.Option(help="models, separated by commas (REGARD_MODELS)")
    ] = None
    actors: Annotated[
        int, typer.Option(min=1, help="number of actors, each with its own models")
    ] = 1
    cpus: Annotated[
        int, typer.Option(min=0, help="cores of each actor; 0 divides this machine's cores equally")
    ] = 0
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each actor; 0 uses the CPU")] = 0
    address: Annotated[
        str | None, typer.Option(help="address of a Ray cluster, or auto; by default this machine")
    ] = None
    price: Annotated[
        float | None, typer.Option(min=0, help="price of a machine for an hour, in any currency")
    ] = None
    shard_rows: Annotated[int, typer.Option(min=1, help="rows of each output file")] = 20_000
    chunk_rows: Annotated[int, typer.Option(min=1, help="rows that are committed together")] = 256
    engine: type[Engine] | None = None  # not an option

    @property
    def cores(self) -> int:
        """Cores of each actor; on this machine, one engine has the cores of all actors."""
        each = self.cpus or max(1, available_cores() // self.actors)
        return each if self.address else each * self.actors


def with_layout(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of Layout: the first two before its own, the others after."""
    hints = get_type_hints(Layout, include_extras=True)
    shared = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(Layout)
        if field.name != "engine"
    ]
    own = [each for name, each in signature(command).parameters.items() if name != "layout"]

    @functools.wraps(command)
    def parsed(**given: Any) -> None:
        layout = Layout(**{each.name: given.pop(each.name) for each in shared})
        command(layout=layout, **given)

    ordered = [*shared[:2], *own, *shared[2:]]
    parsed.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    parsed.__annotations__ = {each.name: each.annotation for each in ordered}
    return parsed


@app.command()
@with_layout
def translate(
    *,
    layout: Layout,
    target: Annotated[str, typer.Option("--to", help="target language")] = "",
    source: Annotated[str, typer.Option("--from", help="source language")] = "auto",
    to_column: Annotated[str | None, typer.Option(help="column of target languages")] = None,
    from_column: Annotated[str | None, typer.Option(help="column of source languages")] = None,
) -> None:
    """Translate each row of text, JSONL or Parquet files.

    Each row gets exactly one result, in the order of the input. After an interruption, run the
    same command to continue. A row that fails gets an error, and the others are translated.
    """
    if bool(target) == bool(to_column):
        raise stop("name either the target language with --to, or its column with --to-column")
    columns = Columns(layout.text_column, layout.id_column, from_column, to_column)
    given = None if source == "auto" else source
    compute(layout, columns, {"result": "translation", "source": given, "target": target})


@app.command()
@with_layout
def embed(
    *,
    layout: Layout,
    model: Annotated[
        str | None, typer.Option(help="name as in /v1/models; default: first embedding model")
    ] = None,
    prompt_name: Annotated[
        str | None, typer.Option(help="name of the prompt to add before each text")
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="keep only this many leading values of each vector")
    ] = None,
    is_normalized: Annotated[
        bool, typer.Option("--normalize/--no-normalize", help="scale vectors to length 1")
    ] = True,
) -> None:
    """Compute a vector for each row of text, JSONL or Parquet files.

    Each row gets exactly one result, in the order of the input. After an interruption, run the
    same command to continue. A row that fails gets an error, and the others are embedded.
    """
    wanted = {
        "result": "vector",
        "model": model,
        "prompt_name": prompt_name,
        "dimensions": dimensions,
        "is_normalized": is_normalized,
    }
    compute(layout, Columns(layout.text_column, layout.id_column), wanted)


def compute(layout: Layout, columns: Columns, wanted: dict[str, Any]) -> None:
    """Computes or continues a job. `wanted` has the fields of JobOptions that the command sets."""
    with errors_shown(INTERRUPTED):
        try:
            if layout.address is not None:
                load_ray()
            settings = engine_settings(layout)
            form, paths = find_files(layout.sources)
            options = job_options(layout, columns, wanted, settings, form)
            check_models(options, settings)
            compute_job(options, paths, settings, layout)
        except (JobError, ModelError, RegistryError, ServiceError) as error:
            raise stop(str(error)) from None


def engine_settings(layout: Layout) -> Settings:
    """Returns the settings of the engines, and chooses the GPUs of an engine on this machine."""
    flags = {} if layout.models is None else {"models": layout.models}
    settings = take_models(read_settings(flags))
    if not layout.gpus:
        return settings.model_copy(update={"device": "cpu"})
    if layout.address is None:
        gpus = ",".join(map(str, range(layout.actors * layout.gpus)))
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", gpus)
    return settings


def job_options(
    layout: Layout, columns: Columns, wanted: dict[str, Any], settings: Settings, form: str
) -> JobOptions:
    name = layout.output_format or ("parquet" if form == "parquet" else "jsonl")
    if name not in OUTPUTS:
        raise JobError(f"--format {name} is unknown; choose jsonl or parquet")
    changing = [f"{each}={getattr(settings, each)}" for each in RESULT_SETTINGS]
    return JobOptions(
        input_format=form,
        output_format=name,
        columns=columns,
        models=tuple(map(str, settings.models)),
        settings=(f"regard={version('regard')}", *changing),
        shard_rows=layout.shard_rows,
        chunk_rows=min(layout.chunk_rows, layout.shard_rows),
        **wanted,
    )


def check_models(options: JobOptions, settings: Settings) -> None:
    """Checks that a model can translate between the languages of a job, or can embed its texts."""
    catalog = Catalog.load(settings.models, settings.offered, settings.aliases)
    if options.result == "vector":
        check_reader(options, settings, catalog)
        return
    given = (options.source, options.target or None)
    source, target = (None if code is None else catalog.language(code) for code in given)
    if source is not None and target is not None:
        catalog.route(source, target)


def check_reader(options: JobOptions, settings: Settings, catalog: Catalog) -> None:
    """Checks that the model of a job can embed texts with the job's prompt and dimensions."""
    readers = catalog.readers(settings.max_source_tokens)
    first = next((name for name in catalog.embedders if is_dense(readers[name])), None)
    name = catalog.named(options.model) if options.model else first
    if name is None:
        raise JobError("no embedding model is served; add one to REGARD_MODELS, or use --model")
    if name not in readers:
        known = ", ".join(readers)
        raise JobError(f"{options.model} is not an embedding model; choose one of: {known}")
    reader = readers[name]
    if not is_dense(reader):
        raise other_kind(reader)
    prompted(reader, options.prompt_name)
    if reader.size is not None:
        check_dimensions(options.dimensions, reader.size)


def compute_job(options: JobOptions, paths: list[Path], settings: Settings, layout: Layout) -> None:
    folder = OutputFolder(layout.output.resolve())
    if is_complete(folder, options, paths):
        # The run that completed the job may have been killed before it deleted its work files.
        folder.delete_work()
        say(f"{layout.output} is complete; nothing is computed")
        return
    with folder.locked():
        job = open_job(folder, options, paths)
        if unfinished := folder.unfinished(job):
            spec = EngineSpec(folder.path, settings, layout.cores, layout.engine)
            with progress_bar() as progress:
                done = folder.num_rows_done(job)
                bar = progress.add_task(str(layout.output), total=job.num_rows, completed=done)
                advance = functools.partial(progress.advance, bar)
                if layout.address is None:
                    compute_here(spec, unfinished, advance)
                else:
                    cluster = Cluster(layout.address, layout.actors, layout.gpus)
                    compute_on_ray(spec, job, unfinished, cluster, advance)
        figures = costs(read_totals(folder.journal), job.num_rows, layout.price)
        folder.finish({"job": job.description(), **figures})
        report(layout, job, figures)


def is_complete(folder: OutputFolder, options: JobOptions, paths: Sequence[Path]) -> bool:
    manifest = folder.manifest()
    if manifest is None:
        return False
    check_same(restore(manifest.get("job", {})), options, paths)
    return True


def open_job(folder: OutputFolder, options: JobOptions, paths: Sequence[Path]) -> Job:
    recorded = folder.recorded()
    if recorded is None:
        job = plan(options, paths)
        folder.begin(job)
    else:
        check_same(recorded, options, paths)
        job = touched(recorded)
        folder.record(job)
    return job


def report(layout: Layout, job: Job, figures: dict[str, Any]) -> None:
    say(f"{layout.output}: {counted(job.num_rows, 'row')} in {counted(len(job.table), 'file')}")
    if failed := figures["failed_rows"]:
        say(f"{failed} rows failed; the column `error` gives the reasons")
    if figures["recomputed_share"]:
        share, runs = figures["recomputed_share"], figures["num_runs"]
        say(f"the job took {runs} runs; {share:.2%} of the rows were computed again")
    say(f"{figures['cpu_seconds_per_million']:.0f} CPU seconds for a million rows")
    if "price" in figures:
        say("cost: {price:.4g}, or {price_per_million:.4g} for a million rows".format(**figures))
