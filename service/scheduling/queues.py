"""Where the work for each model waits."""

from collections.abc import Collection, Iterable, Sequence

from service.errors import NotFoundError
from service.metrics.definitions import LANES, Metrics
from service.metrics.sources import WatchedLane
from service.scheduling.embed_lanes import EmbedQueue
from service.scheduling.lanes import Job, Lane, ModelQueue
from service.workers.messages import AttentionTask, EmbedTask


class Queues:
    """The queues of all models, which may become more and fewer.

    Args:
        metrics: Which lanes are watched by.

    Attributes:
        rows: Sentences, of translation models.
        texts: Of models that embed.
        attention: Of all models.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.rows: dict[str, ModelQueue] = {}
        self.texts: dict[str, EmbedQueue] = {}
        self.attention: dict[str, Lane] = {}

    def add(self, model: str) -> None:
        """Those of a translation model."""
        self.rows[model] = ModelQueue()
        self._watch("translate", model, self.rows[model].lanes)
        self._add_attention(model)

    def add_texts(self, model: str) -> None:
        """Those of a model that embeds, which may translate as well."""
        self.texts[model] = EmbedQueue()
        self._watch("embed", model, self.texts[model].lanes)
        self._add_attention(model)

    def _watch(self, task: str, model: str, lanes: Sequence[WatchedLane]) -> None:
        for name, lane in zip(LANES, lanes, strict=True):
            self.metrics.watch_lane(task, model, name, lane)

    def _add_attention(self, model: str) -> None:
        if model not in self.attention:
            self.attention[model] = Lane()
            self.metrics.watch_lane("attention", model, "attention", self.attention[model])

    def remove(self, model: str) -> list[Job]:
        """Drops those of a model; gives what waits in them."""
        left = [job for job in self.jobs() if job.model == model]
        for queues in (self.rows, self.texts, self.attention):
            queues.pop(model, None)
        return left

    def lane(self, job: Job) -> Lane:
        """Where a job waits."""
        if isinstance(job.work, AttentionTask):
            return self.attention[job.model]
        queues = self.texts if isinstance(job.work, EmbedTask) else self.rows
        return queues[job.model].lane(job)

    def drop(self, job: Job) -> bool:
        """Takes a job out; False if it does not wait."""
        return job.model in self.attention and self.lane(job).remove(job)

    def asked(self) -> list[str]:
        """Models whose attention somebody waits for, the longest first: they share its places."""
        waiting = [model for model, lane in self.attention.items() if len(lane)]
        return sorted(waiting, key=lambda model: self.attention[model].oldest_age, reverse=True)

    def jobs(self) -> list[Job]:
        """All who wait."""
        waiting = [job for queue in self.rows.values() for job in queue.jobs()]
        waiting += [job for texts in self.texts.values() for job in texts.jobs()]
        return waiting + [job for lane in self.attention.values() for job in lane.jobs.values()]


def check_known(models: Iterable[str], known: Collection[str]) -> None:
    """Refuses work for a model that was unloaded after its request had come.

    Raises:
        NotFoundError: One of the models is not among the known.
    """
    for model in models:
        if model not in known:
            raise unloaded(model)


def unloaded(model: str) -> NotFoundError:
    """The error of who comes too late for a model."""
    return NotFoundError(f"the model {model} has been unloaded", param="model")
