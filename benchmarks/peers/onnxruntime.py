"""Embeds texts with ONNX Runtime in one process, for `benchmarks.peers.protocol`.

    python -m benchmarks.peers.onnxruntime SOURCE FOLDER DTYPE BATCH WORKERS

ONNX Runtime uses WORKERS threads. Texts are sorted by length. BATCH texts are padded to the longest
of them. In int8 the weights are quantised, and the inputs of products while it computes.
"""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers import encoders, protocol, vectors


def session(folder: str, dtype: str, workers: int) -> Any:
    import onnxruntime
    import torch
    from onnxruntime.quantization import quantize_dynamic

    encoder, example = encoders.mean_encoder(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = workers
    with tempfile.TemporaryDirectory() as work:
        path, names, inputs = Path(work) / "model.onnx", [*example], tuple(example.values())
        axes = {name: {0: "texts", 1: "tokens"} for name in names}
        torch.onnx.export(encoder, inputs, path, input_names=names, dynamic_axes=axes, dynamo=False)
        if dtype == "int8":
            original, path = path, path.with_name("int8.onnx")
            quantize_dynamic(original, path)
        return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def load(folder: str, dtype: str, batch: int, workers: int) -> protocol.Translate:
    tokenizer, model = encoders.load_tokenizer(folder), session(folder, dtype, workers)

    def run(texts: list[str]) -> list[str]:
        found: list[Any] = [None] * len(texts)
        for rows, inputs in encoders.batches(tokenizer, texts, batch):
            for row, vector in zip(rows, model.run(None, inputs)[0], strict=True):
                found[row] = vector
        return vectors.pack(found)

    return run


if __name__ == "__main__":
    protocol.serve_embedder(load)
