"""The beginning and the end of each stage of a traced request."""

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class StageTimes:
    """The beginning and the end of each stage of a traced request.

    Attributes:
        trace_id: Id of the trace, 32 hexadecimal digits.
        intervals: Maps a stage to its first beginning and its last end, by time.perf_counter.
    """

    trace_id: str
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, name: str, seconds: float, seconds_ago: float) -> None:
        """Adds a part of a stage.

        Args:
            name: Name of the stage.
            seconds: Duration of the part.
            seconds_ago: Seconds since the end of the part.
        """
        end = time.perf_counter() - seconds_ago
        start = end - seconds
        if name in self.intervals:
            first, last = self.intervals[name]
            start, end = min(start, first), max(end, last)
        self.intervals[name] = start, end
