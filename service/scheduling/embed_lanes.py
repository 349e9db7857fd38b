"""Where texts wait to be embedded: by length, and for each in two lanes as sentences do."""

from collections.abc import Iterator

from service.items.length_buckets import LEVELS, level_of
from service.scheduling.lanes import BULK_SHARE, Job, Lane


class EmbedLane:
    """One lane over all levels, as its gauges see it."""

    def __init__(self) -> None:
        self.levels = [Lane() for _ in range(LEVELS)]

    def __len__(self) -> int:
        return sum(map(len, self.levels))

    @property
    def tokens(self) -> int:
        """Of all who wait."""
        return sum(lane.tokens for lane in self.levels)

    @property
    def oldest_age(self) -> float:
        """Seconds that the first has waited; 0 where none waits."""
        return max(lane.oldest_age for lane in self.levels)


class EmbedQueue:
    """The texts that wait for one model."""

    def __init__(self) -> None:
        self.interactive = EmbedLane()
        self.bulk = EmbedLane()
        self.passed = [0] * LEVELS  # texts that went before those of the bulk lane

    @property
    def lanes(self) -> tuple[EmbedLane, EmbedLane]:
        """In the order of LANES."""
        return self.interactive, self.bulk

    def __len__(self) -> int:
        return len(self.interactive) + len(self.bulk)

    def jobs(self) -> Iterator[Job]:
        """All who wait."""
        for lane in self.lanes:
            for level in lane.levels:
                yield from level.jobs.values()

    def lane(self, job: Job) -> Lane:
        """Where a job waits."""
        return (self.bulk if job.is_bulk else self.interactive).levels[level_of(job.tokens)]

    def count(self, level: int) -> int:
        """How many wait at a level."""
        return len(self.interactive.levels[level]) + len(self.bulk.levels[level])

    def take(self, level: int) -> Job:
        """The next of a level, at which one waits: while both lanes do, one in BULK_SHARE of bulk.

        The count of those that passed is kept over many calls, as of rows of translations.
        """
        interactive, bulk = self.interactive.levels[level], self.bulk.levels[level]
        if not (len(interactive) and len(bulk)):
            self.passed[level] = 0
            return (interactive if len(interactive) else bulk).take_first()
        if self.passed[level] >= BULK_SHARE - 1:
            self.passed[level] = 0
            return bulk.take_first()
        self.passed[level] += 1
        return interactive.take_first()
