"""Embeds texts with OpenVINO in one process, for `benchmarks.peers.protocol`.

    python -m benchmarks.peers.openvino SOURCE FOLDER DTYPE BATCH WORKERS

OpenVINO uses WORKERS threads. Texts are sorted by length. BATCH texts are padded to the longest of
them, and several batches are computed at once.
"""

from typing import Any

import numpy as np

from benchmarks.peers import encoders, protocol, vectors


def compiled(folder: str, dtype: str, workers: int) -> Any:
    """Converts the encoder, and compiles it for the most texts a second."""
    import openvino

    encoder, example = encoders.mean_encoder(folder)
    model = openvino.convert_model(encoder, example_input=example)
    settings = {
        "INFERENCE_PRECISION_HINT": {"bfloat16": "bf16", "float32": "f32"}[dtype],
        "PERFORMANCE_HINT": "THROUGHPUT",
        "INFERENCE_NUM_THREADS": workers,
        "NUM_STREAMS": workers,
    }
    return openvino.Core().compile_model(model, "CPU", settings)


def load(folder: str, dtype: str, batch: int, workers: int) -> protocol.Translate:
    import openvino

    tokenizer = encoders.load_tokenizer(folder)
    queue = openvino.AsyncInferQueue(compiled(folder, dtype, workers))

    def run(texts: list[str]) -> list[str]:
        found: list[Any] = [None] * len(texts)

        def keep(request: Any, rows: list[int]) -> None:
            for row, vector in zip(rows, request.get_output_tensor(0).data, strict=True):
                found[row] = np.array(vector)

        queue.set_callback(keep)
        for rows, inputs in encoders.batches(tokenizer, texts, batch):
            queue.start_async(inputs, rows)
        queue.wait_all()
        return vectors.pack(found)

    return run


if __name__ == "__main__":
    protocol.serve_embedder(load)
