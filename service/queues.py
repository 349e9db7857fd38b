"""Where the work for each model waits."""

from collections.abc import Collection, Iterable

from service.embed_lanes import EmbedQueue
from service.errors import NotFoundError
from service.lanes import Job, Lane, ModelQueue
from service.messages import EmbedTask
from service.metrics import EMBED_LANES, LANES, Metrics


class Queues:
    """The queues of all models, which may become more and fewer.

    Args:
        metrics: Which lanes are watched by.

    Attributes:
        rows: Of translation models: sentences, and attention.
        texts: Of models that embed.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.rows: dict[str, ModelQueue] = {}
        self.texts: dict[str, EmbedQueue] = {}

    def add(self, model: str) -> None:
        """One for a translation model."""
        queue = self.rows[model] = ModelQueue()
        for name, lane in zip(LANES, queue.lanes, strict=True):
            self.metrics.watch_lane(model, name, lane)

    def add_texts(self, model: str) -> None:
        """One for a model that embeds."""
        queue = self.texts[model] = EmbedQueue()
        for name, lane in zip(EMBED_LANES, queue.lanes, strict=True):
            self.metrics.watch_lane(model, name, lane, "embed")

    def remove(self, model: str) -> list[Job]:
        """Drops those of a model; gives what waits in them."""
        queues = self.rows.pop(model, None), self.texts.pop(model, None)
        return [job for queue in queues if queue is not None for job in queue.jobs()]

    def lane(self, job: Job) -> Lane:
        """Where a job waits."""
        if isinstance(job.work, EmbedTask):
            return self.texts[job.model].lane(job)
        return self.rows[job.model].lane(job)

    def drop(self, job: Job) -> bool:
        """Takes a job out; False if it does not wait."""
        known = self.texts if isinstance(job.work, EmbedTask) else self.rows
        return job.model in known and self.lane(job).remove(job)

    def jobs(self) -> list[Job]:
        """All who wait."""
        return [job for each in (self.rows, self.texts) for q in each.values() for job in q.jobs()]


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
