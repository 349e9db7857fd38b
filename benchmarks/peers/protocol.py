"""JSON lines between the harness and an engine in a subprocess, so that rounds can interleave.

The engine says `{"ready": true}` once. Then each `{"run": n}` on stdin is answered by
`{"seconds": s}` when the whole file has been translated, and `{"outputs": true}` by
`{"outputs": [...]}`, what the last run gave. The end of stdin ends the engine.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Translate = Callable[[list[str]], list[str]]


def serve(sentences: list[str], translate: Translate) -> None:
    """Answers until stdin ends."""
    replies = claim_stdout()
    outputs: list[str] = []

    def say(**message: Any) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    say(ready=True)
    for line in sys.stdin:
        if "run" in json.loads(line):
            start = time.perf_counter()
            outputs = translate(sentences)
            say(seconds=time.perf_counter() - start)
        else:
            say(outputs=outputs)


def claim_stdout() -> Any:
    """Stdout for the protocol alone: native libraries that print find stderr in its place."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def read_lines(path: str) -> list[str]:
    """One sentence a line."""
    with open(path, encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file]
