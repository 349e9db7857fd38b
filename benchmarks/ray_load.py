"""A load that runs while `ray_cluster` changes the cluster, and the times of its replies."""

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import load
from benchmarks.bench.sentences import built_in_sentences

WINDOW_SECONDS = 2.0
FULL_SHARE = 0.95
WARMUP_SECONDS = 5.0

Figures = dict[str, Any]


@dataclass
class Replies:
    """The ends of all requests of a load."""

    # time and status of each request; numbers from 600 are failures without a status
    ends: list[tuple[float, int]]
    figures: Figures  # figures of the load generator

    def rate(self, begin: float, end: float) -> float:
        return sum(begin <= at < end for at, status in self.ends if status == 200) / (end - begin)

    def failures(self) -> dict[str, int]:
        return dict(Counter(str(status) for _, status in self.ends if status != 200))

    def full_from(self, begin: float, rate: float) -> float | None:
        """Returns the first time from `begin` on with nearly this rate; None if there is none."""
        last = self.ends[-1][0] - WINDOW_SECONDS
        steps = int((last - begin) / 0.1)
        times = [begin + 0.1 * step for step in range(max(0, steps))]
        return next((t for t in times if self._window(t) >= FULL_SHARE * rate), None)

    def lowest(self, begin: float, end: float) -> float:
        steps = int((min(end, self.ends[-1][0] - WINDOW_SECONDS) - begin) / 0.1)
        return min(self._window(begin + 0.1 * step) for step in range(max(1, steps)))

    def _window(self, begin: float) -> float:
        return self.rate(begin, begin + WINDOW_SECONDS)


class Sending:
    """A load that runs during a context; `replies` has its outcome afterwards."""

    def __init__(self, port: int, clients: int, seconds: float) -> None:
        self.port, self.clients, self.seconds = port, clients, seconds
        self.replies = Replies([], {})
        self.on_mark: Callable[[str], None] = lambda _: None

    def __enter__(self) -> "Sending":
        load.compile_program()
        self.folder = tempfile.TemporaryDirectory()
        bodies, times = (Path(self.folder.name, name) for name in ("bodies", "times"))
        lines = load.translate_bodies(built_in_sentences("en"), "en-pt")
        bodies.write_text("\n".join(lines) + "\n", "utf-8")
        command = [str(load.PROGRAM), "--port", str(self.port), "--path", "/translate"]
        command += ["--bodies", str(bodies), "--times", str(times)]
        shape = load.Shape(self.clients, seconds=self.seconds, warmup=WARMUP_SECONDS)
        self.process = subprocess.Popen(
            command + shape.arguments(), stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                self.replies.figures = json.loads(line)
            else:
                self.on_mark(line.strip())
        self.process.wait()
        lines = Path(self.folder.name, "times").read_text("ascii").split("\n")[:-1]
        self.replies.ends = [(float(at), int(kind)) for at, kind in map(str.split, lines)]
        self.folder.cleanup()
