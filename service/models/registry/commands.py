"""`regard models`: lists, fetches, checks and describes models.

Functions import the clients of the registries, which would delay every start by 0.2 s.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from model.errors import ModelError
from service.console import INTERRUPTED, read_settings, say, stop
from service.models.registry.cache import ModelCache, Record
from service.models.registry.errors import RegistryError
from service.models.registry.files import differing
from service.models.registry.locate import (
    LocatedModel,
    broken_pins,
    describe,
    files_of,
    installed_sums,
    locate,
    missing_files,
    place_of,
    placements_of,
    root_of,
)
from service.models.registry.references import ModelEntry, Source, parse_reference, read_entries
from service.settings import Settings

ALL_FIREFOX = f"{Source.FIREFOX.value}*"
COLUMNS = ("model", "state", "size", "revision", "folder")

app = typer.Typer(help="Fetch, check and describe models.", no_args_is_help=True)
output = Console()

_MODELS = typer.Argument(
    help="references or manifests; by default those in REGARD_MODELS", show_default=False
)
_CACHE = typer.Option("--cache", help="folder of pulled models, in place of REGARD_MODEL_CACHE")
Models = Annotated[list[str] | None, _MODELS]
Cache = Annotated[str | None, _CACHE]


@contextmanager
def _chosen(
    models: list[str] | None, folder: str | None
) -> Iterator[tuple[list[ModelEntry], ModelCache, Settings]]:
    """Yields the models of a command, their cache and the settings; shows errors."""
    try:
        settings = read_settings({} if folder is None else {"model_cache": folder})
        cache = ModelCache.at(settings.model_cache)
        yield read_entries(models or settings.models), cache, settings
    except (RegistryError, ModelError) as error:
        raise stop(str(error)) from error
    except KeyboardInterrupt as error:
        raise stop(
            "interrupted; complete files are kept: run the same command to continue", INTERRUPTED
        ) from error


@app.command("list")
def list_models(
    folder: Cache = None,
    published: Annotated[
        bool, typer.Option("--published", help="list Mozilla's published language pairs instead")
    ] = False,
) -> None:
    """List the models of REGARD_MODELS and of the cache, and whether their files are on disk."""
    with _chosen(None, folder) as (entries, cache, settings):
        if published:
            _list_published(settings)
            return
        columns = [Column(name, overflow="fold") for name in COLUMNS]
        table = Table(*columns, box=box.SIMPLE)
        named = {str(entry) for entry in entries}
        for entry in entries:
            table.add_row(*_row(entry, cache), style="bold")
        for record in (r for r in cache.records() if r.reference not in named):
            state = "incomplete" if cache.missing(record) else "not served"
            table.add_row(record.reference, state, *_columns(record, cache))
        output.print(table)


def _list_published(settings: Settings) -> None:
    from service.models.registry.download import HttpClient
    from service.models.registry.firefox import read_index

    if settings.offline:
        raise RegistryError("REGARD_OFFLINE forbids asking the registry; unset it")
    models = read_index(HttpClient(), settings.firefox_registry)
    for pair, entries in sorted(models.items()):
        kinds = (
            f"{e.get('architecture')} ({e.get('releaseStatus') or 'not released'})" for e in entries
        )
        typer.echo(f"{Source.FIREFOX.value}{pair}: {', '.join(kinds)}")


def _row(entry: ModelEntry, cache: ModelCache) -> tuple[str, ...]:
    name = str(entry)
    if entry.source is Source.OPENAI:
        return name, "endpoint", "", "", ""
    if not entry.is_pulled:
        return name, "on disk" if _exists(name) else "missing", "", "", name
    record = cache.record(entry)
    if record is None:
        return name, "not pulled", "", "", ""
    state = "incomplete" if cache.missing(record) else "pulled"
    return name, state, *_columns(record, cache)


def _exists(place: str) -> bool:
    try:
        return root_of(place).exists()
    except RegistryError:  # a package that is not installed
        return False


def _columns(record: Record, cache: ModelCache) -> tuple[str, str, str]:
    return f"{record.num_bytes / 1e6:.1f} MB", record.revision[:12], str(cache.folder(record))


@app.command()
def pull(models: Models = None, folder: Cache = None) -> None:
    """Fetch models into the cache, and check each file."""
    with _chosen(models, folder) as (entries, cache, settings):
        pull_models(entries, cache, settings)


def pull_models(entries: list[ModelEntry], cache: ModelCache, settings: Settings) -> None:
    """Fetches missing files of models and checks that the models can be served."""
    from service.models.registry.download import HttpClient
    from service.models.registry.pull import Puller

    puller = Puller(cache, settings, HttpClient())
    for entry in entries:
        if entry.source is Source.OPENAI:
            continue
        if not entry.is_pulled:
            say(f"{entry} needs no download: {describe(place_of(entry, cache).place)}")
            continue
        say(f"{entry}:")
        record = puller.pull(entry)
        folder = str(cache.folder(record))
        say(f"{entry} is in {folder}: {describe(folder)}")


@app.command()
def verify(models: Models = None, folder: Cache = None) -> None:
    """Compare each file with its checksums in the cache, the package or the manifest."""
    with _chosen(models, folder) as (entries, cache, _):
        faults = []
        for entry in entries:
            try:
                faults += _verify(entry, cache)
            except (RegistryError, ModelError) as error:
                faults.append(f"{entry}: {error}")
    if faults:
        raise stop("; ".join(faults))


def _missing(entry: ModelEntry, cache: ModelCache) -> list[str]:
    faults = missing_files(entry, cache)
    return [*faults, f"run `regard models pull {entry}`"] if faults else []


def _verify(entry: ModelEntry, cache: ModelCache) -> list[str]:
    if faults := _missing(entry, cache):
        return faults
    located = place_of(entry, cache)
    does = describe(located.place)
    if located.record is not None:
        faults, is_compared = cache.damaged(located.record), True
    elif located.place.startswith(Source.PACKAGE):
        sums = installed_sums(entry.name)
        files = {file.name: sums[file.name] for file in files_of(located) if file.name in sums}
        faults = differing(root_of(located.place), files)
        is_compared = bool(files)
    else:
        is_compared = False
    if not (is_compared or entry.pins):
        does += ", but its files could not be compared: no checksums are known. "
        does += "`regard models info --toml` prints a manifest with their checksums"
    faults += broken_pins(entry, cache)
    if not faults:
        say(f"{entry}: good, {does}")
    return [f"{entry}: {fault}" for fault in faults]


@app.command()
def info(
    models: Models = None,
    folder: Cache = None,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="print a manifest with checksums")
    ] = False,
) -> None:
    """Describe models on disk: their tasks, and each file with its size and sha256 checksum."""
    with _chosen(models, folder) as (entries, cache, _):
        for entry in entries:
            _describe(entry, cache, as_toml)


def _describe(entry: ModelEntry, cache: ModelCache, as_toml: bool) -> None:
    if faults := _missing(entry, cache):
        raise RegistryError("; ".join(faults))
    located = place_of(entry, cache)
    files = files_of(located)
    if as_toml:
        typer.echo(_to_toml(_fixed(located), {file.name: str(file.sha256) for file in files}))
        return
    revision = "" if located.record is None else f" @ {located.record.revision[:12]}"
    typer.echo(f"{entry}{revision}: {describe(located.place)}, in {located.place}")
    for file in files:
        typer.echo(f"{file.sha256} {file.size:>12} {file.name}")


def _fixed(located: LocatedModel) -> ModelEntry:
    """Returns the entry of a model, with the pulled commit in place of a branch."""
    entry, record = located.entry, located.record
    if record is None or entry.source is not Source.HUB:
        return entry
    return replace(entry, revision=record.revision)


def _to_toml(entry: ModelEntry, sums: dict[str, str]) -> str:
    options = {"reference": str(entry), "device": entry.device, "dtype": entry.dtype}
    lines = [f"{name} = {_quoted(value)}" for name, value in options.items() if value]
    pins = [f"{_quoted(name)} = {_quoted(value)}" for name, value in sums.items()]
    return "\n".join(["[[model]]", *lines, "", "[model.sha256]", *pins, ""])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def take_models(settings: Settings) -> Settings:
    """Returns settings in which each local model is a complete folder or package on this disk.

    A server calls this once, before any other process starts. Only if REGARD_PULL is true are
    requests sent to registries.
    """
    cache = ModelCache.at(settings.model_cache)
    references = [*expanded(settings.models, cache, settings)]
    later: list[str] = []  # pulled when a request needs them
    if settings.pull and settings.is_on_demand:
        firefox = [each for each in references if each.startswith(Source.FIREFOX)]
        later = [each for each in firefox if missing_files(parse_reference(each), cache)]
    now = [each for each in references if each not in later]
    if settings.pull:
        entries = read_entries(now)
        pull_models([e for e in entries if missing_files(e, cache)], cache, settings)
    located = locate(now, cache, settings.offline)
    return settings.with_models(
        [*(model.place for model in located), *later], placements_of(located)
    )


def expanded(references: Iterable[str], cache: ModelCache, settings: Settings) -> Iterator[str]:
    """Yields references, with all published or pulled pairs in place of `firefox:*`."""
    for reference in references:
        if reference != ALL_FIREFOX:
            yield reference
        elif settings.pull:
            from service.models.registry.download import HttpClient
            from service.models.registry.firefox import read_index

            for pair in sorted(read_index(HttpClient(), settings.firefox_registry)):
                yield f"{Source.FIREFOX.value}{pair}"
        else:
            records = [each.reference for each in cache.records()]
            pairs = [each for each in records if each.startswith(Source.FIREFOX)]
            if not pairs:
                raise RegistryError(
                    f"{ALL_FIREFOX}: no model of Firefox was pulled into {cache.root}; "
                    "start the server with REGARD_PULL=true"
                )
            yield from pairs
