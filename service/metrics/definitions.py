"""Defines the Prometheus metrics of the server: help texts, labels and buckets.

The metrics of single processes, `regard_process_*`, are in `processes`.

The metrics are in their own registry, not in the default registry of the client library.

Label values come from closed sets. No label holds a text, a key, an address or another value that
a client chooses freely.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, repeat

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from model.sequence import BatchStats
from service.items import TRANSLATE
from service.metrics.figures import (
    CALL_OUTCOMES,
    DETECT,
    DOCUMENT,
    GUARDS,
    MCP,
    NO_MODEL,
    OUTCOMES,
    REJECTION_OUTCOMES,
    SHARING,
    STAGES,
    Ended,
    WorkerFigures,
)
from service.metrics.processes import ProcessMetrics
from service.metrics.prometheus import Amounts, Exposition, Histogram, Series, observe

# Upper bounds of the buckets of histograms.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
STAGE_SECONDS = (0.00025, 0.0005, *SECONDS)
POWERS = tuple(float(2**n) for n in range(11))
TOKENS = tuple(float(2**n) for n in range(16))
RATIOS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class TaskSeries:
    """The series of one task kind, by phases of model calls and by `source` and `target`."""

    phases: Sequence[str]
    sides: Sequence[str]


class Metrics:
    def __init__(self, version: str = "", series: Mapping[str, TaskSeries] | None = None) -> None:
        self.task_series = dict(series or {})
        self.tasks = {
            phase: task for task, found in self.task_series.items() for phase in found.phases
        }
        disable_created_metrics()  # a series more for each counter, which no query of ours uses
        self.registry = CollectorRegistry()
        self.exposition = Exposition(self.registry)
        self.openmetrics = Exposition(self.registry, is_openmetrics=True)
        self.counts = Amounts(self.registry).waiting
        # Successful requests, and characters that DeepL's routes have translated, since the start.
        self.num_ok = self.num_billed = 0
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.processes = ProcessMetrics(self.registry)
        self._make_requests()
        self._make_batches()
        self._make_queue()
        self._make_server()
        self.build_info.labels(version).set(1)
        for task in (*self.task_series, DETECT, DOCUMENT, MCP):
            self._make_request_series(task, NO_MODEL)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"regard_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"regard_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"regard_{name}", text, labels, buckets, self.registry)

    def _make_requests(self) -> None:
        counter, histogram = self._counter, self._histogram
        kind = ("task", "model")
        self.requests = counter("requests", "HTTP requests that have ended.", *kind, "outcome")
        self.inputs = counter("inputs", "Texts of the requests that have ended.", *kind, "outcome")
        self.request_duration = histogram(
            "request_duration_seconds",
            "Time from the end of a request's headers to the last byte of its response.",
            SECONDS,
            *kind,
            "outcome_class",
        )
        self.stage_duration = histogram(
            "stage_duration_seconds",
            "Time of a request in a stage. `queue` and `device` are times of its slowest sentence.",
            STAGE_SECONDS,
            *kind,
            "stage",
        )
        self.first_sentence = histogram(
            "first_sentence_seconds",
            "Time from the end of a request's headers to the first sentence of its stream.",
            SECONDS,
            "model",
        )
        self.tokens = counter(
            "tokens",
            "Tokens that were read (source), written (target) or computed as padding.",
            *kind,
            "kind",
        )
        self.source_tokens = histogram(
            "source_tokens", "Number of source tokens of a sentence.", POWERS, *kind
        )
        self.target_tokens = histogram(
            "target_tokens", "Number of target tokens of a sentence.", POWERS, *kind
        )
        self.cancelled = counter(
            "cancelled", "Items that were given up because their request had ended.", *kind, "where"
        )
        self.truncated_inputs = counter(
            "truncated_inputs",
            "Sentences or texts over the length limit. "
            "Translation splits them, and embedding truncates them.",
            *kind,
        )
        self.billed_characters = counter(
            "billed_characters", "Characters of the texts translated by DeepL's routes."
        )

        self.remote_calls = counter(
            "remote_calls",
            "Requests to the endpoints of remote models, second attempts included. "
            "The outcome `replaced` counts sentences that a model of this server translated.",
            "model",
            "outcome",
        )
        self.rejected_translations = counter(
            "rejected_translations",
            "Translations that a guard rejected. They were replaced, or kept with a warning.",
            "model",
            "guard",
            "outcome",
        )
        self.shared_sentences = counter(
            "shared_sentences",
            "Sentences that were not computed, because an equal one was running or cached.",
            "model",
            "state",
        )

    def _make_batches(self) -> None:
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        kind = ("task", "model")
        self.batches = counter("batches", "Model calls.", *kind, "phase")
        self.batch_rows = histogram(
            "batch_rows", "Number of rows in one model call.", POWERS, *kind, "phase"
        )
        self.batch_tokens = histogram(
            "batch_tokens", "Number of tokens in one model call.", TOKENS, *kind, "phase"
        )
        self.batch_padding_ratio = histogram(
            "batch_padding_ratio", "Share of padding in one model call.", RATIOS, *kind
        )
        self.decode_slots = gauge(
            "decode_slots", "Batch rows of all workers, used or free.", "model", "state"
        )
        self.oom = counter("oom", "Number of times that the device ran out of memory.", "model")
        self.batch_splits = counter(
            "batch_splits", "Batches that were split to find the item that fails.", "model"
        )
        self.engine_restarts = counter(
            "engine_restarts", "Device workers that were restarted after they died or hung."
        )
        self.frontend_restarts = counter(
            "frontend_restarts", "HTTP processes that were restarted after they died."
        )

    def _make_queue(self) -> None:
        gauge = self._gauge
        place = ("task", "model", "lane")
        self.queue_depth = gauge("queue_depth", "Number of waiting sentences or texts.", *place)
        self.queue_tokens = gauge(
            "queue_tokens", "Number of source tokens of the waiting sentences or texts.", *place
        )
        self.queue_oldest_age = gauge(
            "queue_oldest_age_seconds", "Time that the oldest sentence or text has waited.", *place
        )
        self.inflight_requests = gauge("inflight_requests", "Requests in progress.", "task")
        self.admission_limit = gauge(
            "admission_limit", "Limit on the requests or tokens in progress.", "kind"
        )

    def _make_server(self) -> None:
        counter, gauge = self._counter, self._gauge
        self.ready = gauge(
            "ready", "Is 1 while at least one device worker is ready, and 0 at other times."
        )
        self.draining = gauge(
            "draining", "Is 1 after SIGTERM, while open requests run to their end, and 0 before."
        )
        self.state_usable = gauge(
            "state_usable", "Is 1 if the state can be stored in REGARD_STATE, and 0 if it cannot."
        )
        self.device_memory = gauge(
            "device_memory_bytes", "Resident memory and GPU memory of a worker.", "worker", "kind"
        )
        self.model_memory = gauge(
            "model_memory_bytes",
            "Memory of a model in a worker: its weights and the state of its rows.",
            "worker",
            "model",
        )
        self.model_load = gauge(
            "model_load_seconds",
            "Time from reading the files to readiness, in the slowest worker.",
            "model",
        )
        self.model_loads = counter(
            "model_loads", "Loads of models while the server ran.", "outcome"
        )
        for outcome in ("loaded", "failed"):
            self.model_loads.labels(outcome)
        self.model_evictions = counter(
            "model_evictions", "Models on demand that were unloaded for another one."
        )
        self.model_misses = counter(
            "model_misses", "Requests that needed a model on demand that was not loaded."
        )
        self.build_info = gauge(
            "build_info", "Version of the server. The value is always 1.", "version"
        )
        self.model_info = gauge(
            "model_info",
            "Properties of each loaded model. The value is always 1.",
            "model",
            "source",
            "target",
            "device",
            "dtype",
            "revision",
        )

    def add_model(self, name: str, kinds: Collection[str]) -> None:
        """Creates the series of a model for its task kinds, with value zero."""
        for task in kinds:
            self._make_request_series(task, name)
            self._make_task_series(task, name)
        if TRANSLATE in kinds:
            self.first_sentence.labels(name)
            for state in SHARING:
                self.shared_sentences.labels(name, state)
            for labels in product(GUARDS, REJECTION_OUTCOMES):
                self.rejected_translations.labels(name, *labels)
        self.oom.labels(name)
        self.batch_splits.labels(name)

    def add_remote_model(self, name: str) -> None:
        self._make_request_series(TRANSLATE, name)
        for outcome in CALL_OUTCOMES:
            self.remote_calls.labels(name, outcome)

    def forget_model(self, name: str) -> None:
        """Removes the gauges of an unloaded model. Its counters and histograms stay."""
        queue = (self.queue_depth, self.queue_tokens, self.queue_oldest_age, self.decode_slots)
        for metric in (self.model_info, self.model_load, self.model_memory, *queue):
            metric.remove_by_labels({"model": name})

    def _make_request_series(self, task: str, model: str) -> None:
        self.inflight_requests.labels(task)
        for outcome in OUTCOMES:
            self.requests.labels(task, model, outcome)
            self.inputs.labels(task, model, outcome)
        self.request_duration.labels(task, model, "2xx")

    def _make_task_series(self, task: str, model: str) -> None:
        for stage in STAGES:
            self.stage_duration.labels(task, model, stage)
        for phase in self.task_series[task].phases:
            for metric in (self.batches, self.batch_rows, self.batch_tokens):
                metric.labels(task, model, phase)
        for where in ("queued", "running"):
            self.cancelled.labels(task, model, where)
        self.tokens.labels(task, model, "padding")
        self.batch_padding_ratio.labels(task, model)
        sides = self.task_series[task].sides
        for side, metric in zip(sides, (self.source_tokens, self.target_tokens), strict=False):
            self.tokens.labels(task, model, side)
            metric.labels(task, model)
        if sides:
            self.truncated_inputs.labels(task, model)

    def begin(self, task: str) -> None:
        self.counts[self.inflight_requests, task] += 1

    def end(self, ended: Ended) -> None:
        task, model, counts = ended.task, ended.model, self.counts
        counts[self.inflight_requests, task] -= 1
        counts[self.requests, task, model, ended.outcome] += 1
        self.num_ok += ended.outcome == "ok"
        counts[self.inputs, task, model, ended.outcome] += ended.num_inputs
        durations, stages = self.request_duration.series, self.stage_duration.series
        samples = [(durations[task, model, f"{ended.status // 100}xx"], ended.seconds)]
        for stage, seconds in ended.stages.items():
            samples.append((stages[task, model, stage], seconds))
        observe(samples, 1, ended.trace_id)
        if ended.first_sentence_seconds is not None:
            observe([(self.first_sentence.series[model,], ended.first_sentence_seconds)])
        for name, count in ended.num_cut.items():
            counts[self.truncated_inputs, task, name] += count
        for labels, count in ended.rejected.items():
            counts[self.rejected_translations, *labels] += count
        if ended.billed_characters:
            self.billed_characters.inc(ended.billed_characters)
            self.num_billed += ended.billed_characters

    def count_refused(self, task: str, number: int) -> None:
        self.counts[self.requests, task, NO_MODEL, "rejected_queue"] += number
        observe([(self.request_duration.series[task, NO_MODEL, "4xx"], 0.0)], number)

    def count_call(self, model: str, outcome: str) -> None:
        self.counts[self.remote_calls, model, outcome] += 1

    def lose(self, task: str, count: int) -> None:
        """Counts the open requests of an HTTP process that has died; their outcome is `error`."""
        self.counts[self.inflight_requests, task] -= count
        self.counts[self.requests, task, NO_MODEL, "error"] += count

    def observe_lengths(self, task: str, model: str, lengths: Sequence[tuple[int, ...]]) -> None:
        metrics = (self.source_tokens, self.target_tokens)
        samples: list[tuple[Series, float]] = []
        for side, metric, tokens in zip(
            self.task_series[task].sides, metrics, zip(*lengths, strict=True), strict=False
        ):
            samples += zip(repeat(metric.series[task, model]), tokens)
            self.counts[self.tokens, task, model, side] += sum(tokens)
        observe(samples)

    def observe_report(self, worker: str, report: WorkerFigures) -> None:
        for model, batches in report.batches.items():
            self._observe_batches(model, batches)
        for model, count in report.splits.items():
            self.batch_splits.labels(model).inc(count)
        for model, count in report.out_of_memory.items():
            self.oom.labels(model).inc(count)
        for kind, size in report.memory_bytes.items():
            self.device_memory.labels(worker, kind).set(size)

    def _observe_batches(self, model: str, batches: Mapping[BatchStats, int]) -> None:
        for stats, count in batches.items():
            phase, tokens, padding = stats.phase, stats.tokens, stats.padding_tokens
            task = self.tasks[phase]
            self.counts[self.batches, task, model, phase] += count
            ratio = padding / (tokens + padding) if padding else 0.0
            samples: list[tuple[Series, float]] = [
                (self.batch_rows.series[task, model, phase], stats.rows),
                (self.batch_tokens.series[task, model, phase], tokens),
                (self.batch_padding_ratio.series[task, model], ratio),
            ]
            observe(samples, count)
            if padding:
                self.counts[self.tokens, task, model, "padding"] += padding * count
