"""Translates with fxtranslate, a Rust engine for Firefox's models, in WORKERS processes.

    python -m benchmarks.peers.fxtranslate SOURCE WORKERS MODEL SOURCE_VOCAB TARGET_VOCAB SHORTLIST

Each process translates one sentence after the other, because the engine makes no batches. With an
empty SHORTLIST its output is the whole vocabulary.
"""

import multiprocessing
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers import protocol

SENTENCES = 8  # sentences that a process receives at once

engines: list[Any] = []  # the engine of this process, which must stay in the thread that made it


def load(*paths: str) -> None:
    from fxtranslate import Translator

    engines.append(Translator(*(Path(path).read_bytes() for path in paths if path)))


def translate(text: str) -> Any:
    return engines[0].translate(text)


def main() -> None:
    source, workers, *paths = sys.argv[1:]
    with multiprocessing.Pool(int(workers), load, paths) as pool:
        lines = protocol.read_lines(source)
        protocol.serve(lines, lambda texts: pool.map(translate, texts, SENTENCES))


if __name__ == "__main__":
    main()
