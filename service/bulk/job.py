"""The options of a job, the fingerprint of its inputs, and its shards."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from service.bulk.formats import INPUTS, Columns, Shard
from service.bulk.rows import JobError

Table = NDArray[np.int64]
"""The file, position, number of rows and first row of each shard; an array of shape (shards, 4)."""

NO_SHARDS: Table = np.zeros((0, 4), np.int64)


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options that decide the content of the output. A resumed job needs the same options."""

    result: Literal["translation", "vector"]  # also the name of the column of the results
    input_format: str
    output_format: str
    columns: Columns
    models: tuple[str, ...]  # as in REGARD_MODELS
    settings: tuple[str, ...]  # other settings that change results, and the version of Regard
    shard_rows: int
    chunk_rows: int
    source: str | None = None  # of each row without a language in its column; None to detect it
    target: str = ""  # "" if a column has the target language, or if the job embeds texts
    model: str | None = None  # served name of the embedding model; None for the first one
    prompt_name: str | None = None
    dimensions: int | None = None
    is_normalized: bool = True


@dataclass(frozen=True, slots=True)
class InputFile:
    path: str
    num_bytes: int
    modified_ns: int
    sha256: str
    num_rows: int

    @property
    def is_untouched(self) -> bool:
        try:
            state = Path(self.path).stat()
        except OSError:
            return False
        return (state.st_size, state.st_mtime_ns) == (self.num_bytes, self.modified_ns)


@dataclass(frozen=True, slots=True)
class Job:
    options: JobOptions
    files: tuple[InputFile, ...]  # in the order of their rows
    has_numbers: bool  # whether all ids are integers
    table: Table

    @property
    def num_rows(self) -> int:
        return sum(file.num_rows for file in self.files)

    def shard(self, index: int) -> Shard:
        return Shard(*map(int, self.table[index]))

    def num_chunks(self, index: int) -> int:
        return -(-self.shard(index).num_rows // self.options.chunk_rows)

    def description(self) -> dict[str, Any]:
        return {
            "options": asdict(self.options),
            "files": [asdict(file) for file in self.files],
            "rows": self.num_rows,
            "shards": len(self.table),
            "has_numbers": self.has_numbers,
        }


def plan(options: JobOptions, paths: Sequence[Path]) -> Job:
    form = INPUTS[options.input_format]
    files, rows, first_row, has_numbers = [], [], 0, True
    for index, path in enumerate(paths):
        state = path.stat()
        found = form.scan(path, options.columns, options.shard_rows)
        total, has_numbers = found.num_rows, has_numbers and found.has_numbers
        files.append(InputFile(str(path), state.st_size, state.st_mtime_ns, found.sha256, total))
        for place, position in enumerate(found.positions):
            before = place * options.shard_rows
            num_rows = min(options.shard_rows, total - before)
            rows.append((index, position, num_rows, first_row + before))
        first_row += total
    if not rows:
        raise JobError(f"{paths[0]} has no rows; there is nothing to compute")
    return Job(options, tuple(files), has_numbers, np.array(rows, np.int64))


def restore(description: dict[str, Any], table: Table = NO_SHARDS) -> Job:
    """Returns the job that `Job.description` has described. A manifest has no table of shards."""
    try:
        values = dict(description["options"])
        values["columns"] = Columns(**values["columns"])
        for name in ("models", "settings"):
            values[name] = tuple(values[name])
        files = tuple(InputFile(**file) for file in description["files"])
        return Job(JobOptions(**values), files, description["has_numbers"], table)
    except (KeyError, TypeError):
        raise JobError(
            "the job in this folder is from another version of Regard; choose another --output, or "
            "delete the folder to start again"
        ) from None


def check_same(recorded: Job, options: JobOptions, paths: Sequence[Path]) -> None:
    """Checks that a recorded job has these options, and that its inputs have not changed.

    A file is hashed again only if its modification time has changed.
    """
    remedy = "choose another --output, or delete the folder to start again"
    for each in fields(JobOptions):
        before, now = getattr(recorded.options, each.name), getattr(options, each.name)
        if before != now:
            raise JobError(
                f"the job in this folder has {each.name} {before}, and now it is {now}; {remedy}"
            )
    before_paths, now_paths = [file.path for file in recorded.files], [str(p) for p in paths]
    if before_paths != now_paths:
        raise JobError(
            f"the job in this folder reads {', '.join(before_paths)}, and now the inputs are "
            f"{', '.join(now_paths)}; {remedy}"
        )
    for file in recorded.files:
        if not file.is_untouched and not has_hash(file, options):
            raise JobError(f"{file.path} has changed since the job was started; {remedy}")


def has_hash(file: InputFile, options: JobOptions) -> bool:
    path = Path(file.path)
    if not path.exists() or path.stat().st_size != file.num_bytes:
        return False
    found = INPUTS[options.input_format].scan(path, options.columns, options.shard_rows)
    return found.sha256 == file.sha256


def touched(job: Job) -> Job:
    files = (replace(f, modified_ns=Path(f.path).stat().st_mtime_ns) for f in job.files)
    return replace(job, files=tuple(files))
