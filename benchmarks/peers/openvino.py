"""Embeds texts with OpenVINO in one process, for `benchmarks.peers.protocol`.

    python -m benchmarks.peers.openvino SOURCE FOLDER DTYPE BATCH WORKERS

OpenVINO uses WORKERS threads. Texts are sorted by length. BATCH texts are padded to the longest of
them, and several batches are computed at once. Vectors are means over tokens, as MiniLM needs.
"""

from typing import Any

import numpy as np

from benchmarks.peers import protocol, vectors


def compiled(folder: str, dtype: str, workers: int) -> Any:
    """Converts the encoder, and compiles it for the most texts a second."""
    import openvino
    import torch
    from transformers import AutoModel

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(folder, attn_implementation="eager")

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            states = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
            mask = attention_mask[:, :, None].to(states.dtype)
            return (states * mask).sum(1) / mask.sum(1)

    example = {
        name: torch.ones(2, 8, dtype=torch.int64) for name in ("input_ids", "attention_mask")
    }
    model = openvino.convert_model(Encoder().eval(), example_input=example)
    settings = {
        "INFERENCE_PRECISION_HINT": {"bfloat16": "bf16", "float32": "f32"}[dtype],
        "PERFORMANCE_HINT": "THROUGHPUT",
        "INFERENCE_NUM_THREADS": workers,
        "NUM_STREAMS": workers,
    }
    return openvino.Core().compile_model(model, "CPU", settings)


def load(folder: str, dtype: str, batch: int, workers: int) -> protocol.Translate:
    import openvino
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    queue = openvino.AsyncInferQueue(compiled(folder, dtype, workers))

    def run(texts: list[str]) -> list[str]:
        found: list[Any] = [None] * len(texts)

        def keep(request: Any, rows: list[int]) -> None:
            for row, vector in zip(rows, request.get_output_tensor(0).data, strict=True):
                found[row] = np.array(vector)

        queue.set_callback(keep)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            encoded = tokenizer.encode_batch([texts[i] for i in rows])
            ids = np.array([each.ids for each in encoded])
            mask = np.array([each.attention_mask for each in encoded])
            queue.start_async({"input_ids": ids, "attention_mask": mask}, rows)
        queue.wait_all()
        return vectors.pack(found)

    return run


if __name__ == "__main__":
    protocol.serve_embedder(load)
