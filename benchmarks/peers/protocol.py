"""Protocol between the benchmark harness and an engine in a subprocess, in lines of JSON.

The harness sends a line to start each run of an engine, so engines can take turns. The engine
writes `{"ready": true}` once. Then it answers each line on stdin:

- `{"run": n}`: it translates all of its sentences and writes `{"seconds": s}`.
- `{"outputs": true}`: it writes `{"outputs": [...]}`, the output of the last run.

The engine ends when stdin is closed.

The module also starts the worker processes of an engine. It makes the words of models with random
weights too, so that every engine gets the same texts.
"""

import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

Translate = Callable[[list[str]], list[str]]
Load = Callable[[], Translate]
"""Loads an engine in a worker process, and returns its function."""


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


def serve_embedder(load: Callable[[str, str, int, int], Translate]) -> None:
    """Serves an embedder, with the arguments SOURCE FOLDER DTYPE BATCH WORKERS of the command."""
    source, folder, dtype, batch, workers = sys.argv[1:]
    serve(read_lines(source), load(folder, dtype, int(batch), int(workers)))


def start_workers(load: Load, count: int) -> list[Connection]:
    """Starts worker processes that end with this process, and waits until they have loaded.

    A worker answers each list of texts that it receives.
    """
    context = multiprocessing.get_context("spawn")
    connections = []
    for _ in range(count):
        here, there = context.Pipe()
        context.Process(target=_work, args=(there, load), daemon=True).start()
        connections.append(here)
    for connection in connections:
        connection.recv()
    return connections


def _work(connection: Connection, load: Load) -> None:
    translate = load()
    connection.send(None)
    with suppress(EOFError):  # the other process has ended
        while True:
            connection.send(translate(connection.recv()))


def claim_stdout() -> Any:
    """Returns a file that writes to stdout. All other output of the process then goes to stderr.

    Native libraries may print to stdout, and would otherwise damage the lines of the protocol.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def read_lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file]


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(number: int) -> str:
    """Returns the word of a number from 0 on: `a`, `b`, ... `z`, `ba`, `bb` and so on."""
    digits = ""
    while True:
        number, digit = divmod(number, len(LETTERS))
        digits = LETTERS[digit] + digits
        if not number:
            return digits


def vocabulary(size: int) -> list[str]:
    return ["</s>", "<unk>", *map(word, range(size - 2))]


def sentences(count: int, tokens: int, vocab_size: int) -> list[str]:
    """Returns random sentences of `tokens - 1` words, each a token.

    The engine adds EOS as the last token.
    """
    generator = random.Random(1)
    words = vocabulary(vocab_size - 1)[2:]
    return [" ".join(generator.choices(words, k=tokens - 1)) for _ in range(count)]
