"""Runs Regard's engine in int8 with random weights of a well-known shape.

    python -m benchmarks.ours_shape opus-mt --workers 2 --sentences 256

The command obeys `benchmarks.peers.protocol`. Each source and each translation has 30 tokens.
There are `--workers` processes with one thread each.
"""

import argparse
import multiprocessing
from collections import deque
from multiprocessing.connection import Connection

import torch

from benchmarks.peers import protocol
from benchmarks.random_weights import CASES, Shape, random_model, random_sources
from model.checkpoints.build import new_engine
from model.checkpoints.quantize import quantize_floats
from model.engine.engine import Engine
from model.sequence import EngineLimits, Sequence


def load(shape: Shape, rows: int) -> Engine:
    model = random_model(shape.config(), torch.device("cpu"), torch.float32)
    quantize_floats(model)
    return new_engine(model, EngineLimits(max_rows=rows))


def translate(engine: Engine, sources: list[list[int]], tokens: int) -> None:
    """Decodes all sources, as many at once as the engine has rows."""
    waiting = deque(Sequence(number, source) for number, source in enumerate(sources))
    while waiting or engine.num_rows:
        free = min(engine.free_rows, len(waiting))
        if free:
            engine.admit([waiting.popleft() for _ in range(free)])
        for finished in engine.step():
            assert len(finished.hypotheses[0].tokens) == tokens
    engine.drain_stats()


def work(connection: Connection, name: str, rows: int, sentences: int) -> None:
    """Runs a worker process: translates the sentences for each message, until it receives None."""
    torch.set_num_threads(1)
    shape = CASES[name]
    engine = load(shape, rows)
    sources = random_sources(shape, sentences).tolist()
    connection.send(None)  # ready
    while connection.recv() is not None:
        translate(engine, sources, shape.tokens)
        connection.send(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=CASES)
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--rows", type=int, default=64, help="sentences decoded at once")
    parser.add_argument(
        "--sentences", type=int, default=64, help="sentences to divide among the processes"
    )
    args = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    connections = []
    for _ in range(args.workers):
        here, there = context.Pipe()
        words = (there, args.shape, args.rows, args.sentences // args.workers)
        context.Process(target=work, args=words, daemon=True).start()
        connections.append(here)
    for connection in connections:
        connection.recv()

    def run(_: list[str]) -> list[str]:
        for connection in connections:
            connection.send(0)
        for connection in connections:
            connection.recv()
        return []

    protocol.serve([], run)
    for connection in connections:
        connection.send(None)


if __name__ == "__main__":
    main()
