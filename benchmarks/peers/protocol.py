"""JSON lines between the harness and an engine in a subprocess, so that engines can take turns.

The engine writes `{"ready": true}` once. Then it answers each line on stdin:

- `{"run": n}`: it runs over the whole file and writes `{"seconds": s}`.
- `{"outputs": true}`: it writes `{"outputs": [...]}`, the output of the last run.

The engine ends when stdin is closed.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Translate = Callable[[list[str]], list[str]]


def serve(sentences: list[str], translate: Translate) -> None:
    """Answers the harness until stdin ends."""
    replies = claim_stdout()
    outputs: list[str] = []

    def write(**message: Any) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    write(ready=True)
    for line in sys.stdin:
        if "run" in json.loads(line):
            start = time.perf_counter()
            outputs = translate(sentences)
            write(seconds=time.perf_counter() - start)
        else:
            write(outputs=outputs)


def claim_stdout() -> Any:
    """Returns stdout for the protocol alone; the output of native libraries goes to stderr."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def read_lines(path: str) -> list[str]:
    """Reads a file with one sentence per line."""
    with open(path, encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file]
