"""Embeds texts with sentence-transformers in one process, for `benchmarks.peers.protocol`.

    python -m benchmarks.peers.sentence_transformers SOURCE FOLDER DTYPE BATCH WORKERS

PyTorch uses WORKERS threads. The library sorts the texts of a call by length. With BATCH 1 each
text is a call of its own.
"""

from benchmarks.peers import protocol, vectors


def load(folder: str, dtype: str, batch: int, workers: int) -> protocol.Translate:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(workers)
    settings = {"dtype": getattr(torch, dtype)}
    model = SentenceTransformer(folder, device="cpu", model_kwargs=settings)

    def run(texts: list[str]) -> list[str]:
        groups = [[text] for text in texts] if batch == 1 else [texts]
        encoded = [model.encode(group, batch_size=batch) for group in groups]
        return [packed for group in encoded for packed in vectors.pack(group)]

    return run


if __name__ == "__main__":
    protocol.serve_embedder(load)
