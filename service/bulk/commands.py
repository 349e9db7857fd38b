"""The commands `regard bulk translate` and `regard bulk embed`."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from model.errors import ModelError
from service.bulk.actor import CORE_ENGINE, ActorSpec
from service.bulk.cluster import ClusterOptions, load_ray, run
from service.bulk.folder import OutputFolder
from service.bulk.inputs import Columns, find_files
from service.bulk.job import Job, JobOptions, check_same, plan, restore, touched
from service.bulk.journal import costs, read_totals
from service.bulk.rows import JobError
from service.console import read_settings, stop
from service.errors import ServiceError
from service.files.session import errors_shown, progress_bar, say
from service.ipc.machine import available_cores
from service.models.catalog import Catalog
from service.models.registry.errors import RegistryError
from service.models.registry.take import take_models
from service.settings import Settings
from service.tasks.embedding.embedder import prompted
from service.tasks.embedding.limits import check_dimensions

INTERRUPTED = "interrupted; committed rows are kept: run the same command to continue"
CHUNK_ROWS = 256
"""Number of rows that are committed together, by default."""

RESULT_SETTINGS = (
    "device",
    "dtype",
    "placements",
    "languages",
    "shortlist",
    "max_beam_size",
    "guard_beam_size",
    "max_source_tokens",
    "max_batch_tokens",
)
"""Settings that can change results."""

Sources = Annotated[list[Path], typer.Argument(help="files, or folders of files")]
Output = Annotated[Path, typer.Option("--output", "-o", help="folder for the results")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="jsonl or parquet; default: parquet for Parquet, else jsonl"),
]
TextColumn = Annotated[str, typer.Option(help="column of the texts")]
IdColumn = Annotated[str | None, typer.Option(help="column of the ids; by default row numbers")]
Models = Annotated[str | None, typer.Option(help="models, separated by commas (REGARD_MODELS)")]
Actors = Annotated[int, typer.Option(min=1, help="number of actors, each with its own models")]
Cpus = Annotated[
    int, typer.Option(min=0, help="cores of each actor; 0 divides this machine's cores equally")
]
Gpus = Annotated[int, typer.Option(min=0, help="GPUs of each actor; 0 uses the CPU")]
Address = Annotated[
    str | None, typer.Option(help="address of a Ray cluster, or auto; by default this machine")
]
Temp = Annotated[Path | None, typer.Option("--ray-temp", help="folder of Ray's logs")]
Price = Annotated[
    float | None, typer.Option(min=0, help="price of a machine for an hour, in any currency")
]
ShardRows = Annotated[int, typer.Option(min=1, help="rows of each output file")]
ChunkRows = Annotated[int, typer.Option(min=1, help="rows that are committed together")]

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """Options that both commands have.

    Attributes:
        sources: Files and folders.
        output: Output folder.
        format: Name of the output format; None for the default.
        models: Models, in the format of REGARD_MODELS; None to use REGARD_MODELS itself.
        shard_rows: Number of rows of each output file.
        chunk_rows: Number of rows that are committed together.
        price: Price of a machine for an hour; None if it is not known.
        cluster: Options of Ray.
        engine: Module and class of the engine.
    """

    sources: Sequence[Path]
    output: Path
    format: str | None
    models: str | None
    shard_rows: int
    chunk_rows: int
    price: float | None
    cluster: ClusterOptions
    engine: str = CORE_ENGINE


@app.command()
def translate(  # noqa: PLR0913 - one parameter is one flag
    sources: Sources,
    output: Output,
    target: Annotated[str, typer.Option("--to", help="target language")] = "",
    source: Annotated[str, typer.Option("--from", help="source language")] = "auto",
    to_column: Annotated[str | None, typer.Option(help="column of target languages")] = None,
    from_column: Annotated[str | None, typer.Option(help="column of source languages")] = None,
    text_column: TextColumn = "text",
    id_column: IdColumn = None,
    output_format: Format = None,
    models: Models = None,
    actors: Actors = 1,
    cpus: Cpus = 0,
    gpus: Gpus = 0,
    address: Address = None,
    temp: Temp = None,
    price: Price = None,
    shard_rows: ShardRows = 20_000,
    chunk_rows: ChunkRows = CHUNK_ROWS,
) -> None:
    """Translate each row of text, JSONL or Parquet files.

    Each row gets exactly one result, in the order of the input. After an interruption, run the
    same command to continue. A row that fails gets an error, and the others are translated.
    """
    if bool(target) == bool(to_column):
        raise stop("name either the target language with --to, or its column with --to-column")
    cluster = cluster_options(address, actors, cpus, gpus, temp)
    layout = Layout(sources, output, output_format, models, shard_rows, chunk_rows, price, cluster)
    columns = Columns(text_column, id_column, from_column, to_column)
    wanted = {
        "result": "translation",
        "source": None if source == "auto" else source,
        "target": target,
    }
    compute(layout, columns, wanted)


@app.command()
def embed(  # noqa: PLR0913 - one parameter is one flag
    sources: Sources,
    output: Output,
    model: Annotated[
        str | None, typer.Option(help="name as in /v1/models; default: first embedding model")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt-name", help="name of the prompt to add before each text")
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="keep only this many leading values of each vector")
    ] = None,
    is_normalized: Annotated[
        bool, typer.Option("--normalize/--no-normalize", help="scale vectors to length 1")
    ] = True,
    text_column: TextColumn = "text",
    id_column: IdColumn = None,
    output_format: Format = None,
    models: Models = None,
    actors: Actors = 1,
    cpus: Cpus = 0,
    gpus: Gpus = 0,
    address: Address = None,
    temp: Temp = None,
    price: Price = None,
    shard_rows: ShardRows = 20_000,
    chunk_rows: ChunkRows = CHUNK_ROWS,
) -> None:
    """Compute a vector for each row of text, JSONL or Parquet files.

    Each row gets exactly one result, in the order of the input. After an interruption, run the
    same command to continue. A row that fails gets an error, and the others are embedded.
    """
    cluster = cluster_options(address, actors, cpus, gpus, temp)
    layout = Layout(sources, output, output_format, models, shard_rows, chunk_rows, price, cluster)
    wanted = {
        "result": "vector",
        "model": model,
        "prompt_name": prompt,
        "dimensions": dimensions,
        "is_normalized": is_normalized,
    }
    compute(layout, Columns(text_column, id_column), wanted)


def cluster_options(
    address: str | None, actors: int, cpus: int, gpus: int, temp: Path | None
) -> ClusterOptions:
    """Returns the options of Ray. If `cpus` is 0, the actors share the cores of this machine."""
    return ClusterOptions(address, actors, cpus or max(1, available_cores() // actors), gpus, temp)


def compute(layout: Layout, columns: Columns, wanted: dict[str, Any]) -> None:
    """Computes a job, or continues it.

    Raises:
        typer.Exit: The job cannot start or continue, or was interrupted.
    """
    with errors_shown(INTERRUPTED):
        try:
            load_ray(layout.cluster.address is None)
            flags = {} if layout.models is None else {"models": layout.models}
            settings = take_models(read_settings(flags))
            if not layout.cluster.gpus:
                settings = settings.model_copy(update={"device": "cpu"})
            form, paths = find_files(layout.sources)
            options = job_options(layout, columns, wanted, settings, form)
            check_models(options, settings)
            compute_job(options, paths, settings, layout)
        except (JobError, ModelError, RegistryError, ServiceError) as error:
            raise stop(str(error)) from None


def job_options(
    layout: Layout, columns: Columns, wanted: dict[str, Any], settings: Settings, form: str
) -> JobOptions:
    """Returns the options of a job.

    Raises:
        JobError: The output format is unknown.
    """
    name = layout.format or ("parquet" if form == "parquet" else "jsonl")
    if name not in ("jsonl", "parquet"):
        raise JobError(f"--format {name} is unknown; choose jsonl or parquet")
    given = {
        "source": None,
        "target": "",
        "model": None,
        "prompt_name": None,
        "dimensions": None,
        "is_normalized": True,
    }
    changing = [f"{each}={getattr(settings, each)}" for each in RESULT_SETTINGS]
    return JobOptions(
        input_format=form,
        output_format=name,
        columns=columns,
        models=tuple(map(str, settings.models)),
        settings=(f"regard={version('regard')}", *changing),
        shard_rows=layout.shard_rows,
        chunk_rows=min(layout.chunk_rows, layout.shard_rows),
        **(given | wanted),
    )


def check_models(options: JobOptions, settings: Settings) -> None:
    """Checks that a model can translate between the languages of a job, or can embed its texts.

    Raises:
        JobError: The job has no embedding model, or the named model cannot embed texts.
        ServiceError: No model can translate between the languages.
        ModelError: The files of a model are damaged.
    """
    catalog = Catalog.load(settings.models, settings.offered, settings.aliases)
    if options.result == "vector":
        check_reader(options, settings, catalog)
        return
    target = catalog.language(options.target) if options.target else None
    if options.source is not None:
        source = catalog.language(options.source)
        if target is not None:
            catalog.route(source, target)


def check_reader(options: JobOptions, settings: Settings, catalog: Catalog) -> None:
    """Checks that the model of a job can embed texts with the job's prompt and dimensions.

    Raises:
        JobError: The job has no embedding model, or the named model cannot embed texts.
        ServiceError: The model does not have the prompt, or its vectors have fewer dimensions than
            the job needs.
    """
    readers = catalog.readers(settings.max_source_tokens)
    name = catalog.named(options.model) if options.model else next(iter(catalog.embedders), None)
    if name is None:
        raise JobError("no embedding model is served; add one to REGARD_MODELS, or use --model")
    if name not in readers:
        known = ", ".join(readers)
        raise JobError(f"{options.model} is not an embedding model; choose one of: {known}")
    reader = readers[name]
    prompted(reader, options.prompt_name)
    if reader.size is not None:
        check_dimensions(options.dimensions, reader.size)


def compute_job(options: JobOptions, paths: list[Path], settings: Settings, layout: Layout) -> None:
    """Computes the shards that are missing in the output folder, and writes the manifest.

    Raises:
        JobError: The job cannot start or continue.
    """
    folder = OutputFolder(layout.output.resolve())
    if is_complete(folder, options, paths):
        # The run that completed the job may have been killed before it deleted its work files.
        folder.delete_work()
        say(f"{layout.output} is complete; nothing is computed")
        return
    with folder.locked():
        job = open_job(folder, options, paths)
        unfinished = folder.unfinished(job)
        cores = layout.cluster.cpus
        spec = ActorSpec(folder.path, settings, cores, layout.engine)
        if unfinished:
            with progress_bar() as progress:
                bar = progress.add_task(str(layout.output), total=job.num_rows)
                run(
                    spec,
                    job,
                    unfinished,
                    layout.cluster,
                    lambda n: progress.update(bar, completed=n),
                )
        figures = costs(read_totals(folder.journal), job.num_rows, layout.price)
        folder.finish({"job": job.description(), **figures})
        report(layout, job, figures)


def is_complete(folder: OutputFolder, options: JobOptions, paths: Sequence[Path]) -> bool:
    """Reports whether the folder has the complete results of a job with these options and inputs.

    Raises:
        JobError: The folder has the results of another job.
    """
    manifest = folder.manifest()
    if manifest is None:
        return False
    check_same(restore(manifest.get("job", {})), options, paths)
    return True


def open_job(folder: OutputFolder, options: JobOptions, paths: Sequence[Path]) -> Job:
    """Returns the job of the folder, or begins a new one.

    Raises:
        JobError: The folder has another job, or an input cannot be read.
    """
    recorded = folder.recorded()
    if recorded is not None:
        check_same(recorded, options, paths)
        job = touched(recorded)
        folder.record(job)
        return job
    job = plan(options, paths)
    folder.begin(job)
    return job


def report(layout: Layout, job: Job, figures: dict[str, Any]) -> None:
    """Prints the figures of a complete job."""
    say(f"{layout.output}: {job.num_rows} rows in {len(job.table)} files")
    if failed := figures["failed_rows"]:
        say(f"{failed} rows failed; the column `error` gives the reasons")
    if figures["recomputed_share"]:
        share, runs = figures["recomputed_share"], figures["num_runs"]
        say(f"the job took {runs} runs; {share:.2%} of the rows were computed again")
    say(f"{figures['cpu_seconds_per_million']:.0f} CPU seconds for a million rows")
    if "price_per_million" in figures:
        price, per_million = figures["price"], figures["price_per_million"]
        say(f"cost: {price:.4g}, or {per_million:.4g} for a million rows")
