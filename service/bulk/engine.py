"""The engine of a job: the core of the server with its device workers, without HTTP.

A text therefore gets the same translation or vector as from `/translate` or `/embed`.
"""

import asyncio
import resource
import time
from collections.abc import Sequence

from model.sequence import DecodingOptions
from service.bulk.job import JobOptions
from service.bulk.rows import JobError, Outcome, Row, isolated
from service.core import Core, build_core
from service.errors import ServiceError
from service.ipc.machine import freeze_heap, uses_gpu, worker_devices
from service.models.catalog import Catalog
from service.remote.endpoint import Endpoints
from service.remote.routing import admitter_of
from service.settings import Settings
from service.tasks.context import RequestContext
from service.tasks.embedding.embedder import Embedder
from service.tasks.embedding.inputs import EmbedParameters, EmbedQuery
from service.tasks.translation.translator import TranslationRequest, Translator
from service.text.detection import LanguageDetector

START_SECONDS = 600.0
POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 3600.0
UNLIMITED = 1_000_000_000

BATCH_ROWS = {False: 64, True: 1024}
"""Assumed number of rows in a batch of a device worker, by whether it uses a GPU."""

BATCHES_IN_FLIGHT = 12
"""Number of batches of rows that are in progress at a time for each device worker."""

ROWS_AHEAD = 192
"""Number of sentences for each model that a device worker may hold in addition to its batch.

They fill the batch rows of finished sentences. With 48, workers with short sentences still waited.
"""


class CoreEngine:
    def __init__(self, options: JobOptions, settings: Settings, cores: int) -> None:
        self.options = options
        self.cores = cores
        self.settings = unlimited(settings)
        batch_rows = settings.max_rows or BATCH_ROWS[uses_gpu(settings.device)]
        devices = worker_devices(settings.workers, settings.device, cores)
        self.rows_in_flight = BATCHES_IN_FLIGHT * batch_rows * len(devices)
        self.decoding = DecodingOptions()
        self.failure: str | None = None

    async def start(self) -> None:
        settings = self.settings
        self.catalog = Catalog.load(settings.models, settings.offered, settings.aliases)
        files = self.catalog.files
        self.core: Core = build_core(
            settings, files, on_failure=self._fail, cores=self.cores, rows_ahead=ROWS_AHEAD
        )
        self.endpoints = Endpoints(settings, self.core.recorder)
        admitter = admitter_of(self.catalog, self.core, self.endpoints)
        detector = LanguageDetector(self.catalog.languages)
        self.translator = Translator(self.catalog, admitter, detector, settings)
        self.embedder = Embedder(self.catalog, self.core, settings)
        self.core.start()
        try:
            await self._until_ready()
        except BaseException:
            await self.stop()
            raise
        freeze_heap()

    async def compute(self, rows: Sequence[Row]) -> list[Outcome]:
        """Returns an outcome for each row. Blank texts are not sent to a model."""
        outcomes = [outcome_without_model(row, self.options.result) for row in rows]
        pairs: dict[tuple[str | None, str], list[int]] = {}
        for index, (row, outcome) in enumerate(zip(rows, outcomes, strict=True)):
            if outcome is None:
                pairs.setdefault((row.source, row.target), []).append(index)
        parts = [[rows[index] for index in indices] for indices in pairs.values()]
        computed = await asyncio.gather(*[isolated(part, self._compute) for part in parts])
        for indices, found in zip(pairs.values(), computed, strict=True):
            for index, outcome in zip(indices, found, strict=True):
                outcomes[index] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    async def stop(self) -> None:
        await self.core.stop()
        await self.endpoints.aclose()

    def cpu_seconds(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return self.core.metrics.processes.cpu_seconds() + ended.ru_utime + ended.ru_stime

    async def _compute(self, rows: Sequence[Row]) -> list[Outcome]:
        await self._until_ready()  # while a worker starts again, all attempts would fail
        context = RequestContext("bulk", timeout_seconds=TIMEOUT_SECONDS)
        texts = [row.text or "" for row in rows]
        try:
            if self.options.result == "translation":
                return await self._translate(texts, rows[0], context)
            return await self._embed(texts, context)
        except ServiceError:
            self._check()
            raise
        finally:
            context.release()

    async def _translate(
        self, texts: list[str], row: Row, context: RequestContext
    ) -> list[Outcome]:
        source, target = row.source or self.options.source, row.target or self.options.target
        request = TranslationRequest(
            texts,
            None if source is None else self.catalog.language(source),
            self.catalog.language(target),
            self.decoding,
        )
        found = await self.translator.translate(request, context)
        return [Outcome(each.text) for each in found]

    async def _embed(self, texts: list[str], context: RequestContext) -> list[Outcome]:
        options = self.options
        query = EmbedQuery(
            texts,
            "text",
            EmbedParameters.model_validate({"prompt_name": options.prompt_name}),
            options.model,
            options.dimensions,
            options.is_normalized,
        )
        vectors, _ = await self.embedder.embed(query, context)
        return [Outcome(vector) for vector in vectors]

    async def _until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.core.supervisor.is_ready:
            if time.monotonic() > deadline:
                self._fail(f"the models were not loaded in {START_SECONDS:g} s")
            self._check()
            await asyncio.sleep(POLL_SECONDS)

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or reason

    def _check(self) -> None:
        if self.failure is not None:
            raise JobError(self.failure)


def outcome_without_model(row: Row, result: str) -> Outcome | None:
    """Returns the outcome of a row without a text to compute; None if the row needs a model."""
    if row.error:
        return Outcome(None, row.error)
    if row.text is None or not row.text.strip():
        return Outcome(row.text if result == "translation" else None)
    return None


def unlimited(settings: Settings) -> Settings:
    """Returns settings without the limits that protect a server with several users.

    All sentences wait in the interactive lane. For sentences in the bulk lane, the scheduler would
    leave some rows of a batch free for interactive requests.
    """
    pending = ("max_pending_requests", "max_pending_tokens", "max_pending_detections")
    changed: dict[str, float] = dict.fromkeys(("max_inputs", "bulk_sentences", *pending), UNLIMITED)
    changed["request_timeout_seconds"] = TIMEOUT_SECONDS
    return settings.model_copy(update=changed)
