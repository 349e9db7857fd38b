"""The encoder that OpenVINO and ONNX Runtime convert, and the batches of its texts."""

from collections.abc import Iterator
from typing import Any

import numpy as np

INPUTS = ("input_ids", "attention_mask")


def mean_encoder(folder: str) -> tuple[Any, dict[str, Any]]:
    """Returns a module that computes means over tokens, as MiniLM needs, and example inputs."""
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

    return Encoder().eval(), dict.fromkeys(INPUTS, torch.ones(2, 8, dtype=torch.int64))


def load_tokenizer(folder: str) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    return tokenizer


def batches(tokenizer: Any, texts: list[str], size: int) -> Iterator[tuple[list[int], Any]]:
    """Yields the indices of `size` texts, the longest first, and their padded inputs by name."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
    for first in range(0, len(order), size):
        rows = order[first : first + size]
        encoded = tokenizer.encode_batch([texts[i] for i in rows])
        arrays = [[each.ids for each in encoded], [each.attention_mask for each in encoded]]
        yield rows, dict(zip(INPUTS, map(np.array, arrays), strict=True))
