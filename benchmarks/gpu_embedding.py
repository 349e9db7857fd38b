"""Measures embeddings on a GPU, for `benchmarks.gpu`.

Regard and BertModel of transformers embed random texts with random weights. The shape is that of
all-MiniLM-L6-v2. BertModel gets batches of several sizes, sorted by length and padded, as
sentence-transformers makes them. The last table column compares each engine with BertModel at its
best batch size.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import report
from benchmarks.random_weights import synchronize
from benchmarks.report import OURS, Result
from model.checkpoints.families.bert import read_bert
from model.checkpoints.families.encoder_family import Options
from model.config import EmbeddingConfig, NormalizeConfig, TextEncoderConfig
from model.encoding.embedding import EmbeddingJob, EmbeddingModel, embed, on_device
from model.precision import Precision
from service.ipc.machine import freeze_heap
from service.items import batch_tokens

THEIRS = "transformers"
SIZES = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 100}
SHAPE, TINY = (read_bert(Options(each, "BERT"), token_types=2) for each in (SIZES, SMALL))
NUM_TEXTS = 20_000
BATCHES = (32, 128, 512, 2048)
"""Batch sizes of transformers."""

LENGTHS = (8, 64)
"""Smallest and largest number of tokens of a text."""

Embed = Callable[[Sequence[list[int]]], object]


def measure(device: torch.device, rounds: int, is_smoke: bool) -> Result:
    """Measures all engines in turn, round by round. Each engine first runs once as a warm-up."""
    config, count = (TINY, 16) if is_smoke else (SHAPE, NUM_TEXTS)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    generator = random.Random(1)
    texts = [
        [generator.randrange(config.vocab_size) for _ in range(generator.randint(*LENGTHS))]
        for _ in range(count)
    ]
    engines: dict[str, Embed] = {OURS: regard(config, device, dtype)}
    for size in (4,) if is_smoke else BATCHES:
        engines[f"{THEIRS}-{size}"] = transformers(config, device, dtype, size)
    result = Result("gpu_embedding", facts={"dtype": str(dtype), "texts": count})
    with torch.inference_mode():
        for run in engines.values():
            run(texts)
        freeze_heap()  # as a worker does
        for turn in range(1, rounds + 1):
            for name, run in engines.items():
                synchronize(device)
                began = time.perf_counter()
                run(texts)
                figures = {"texts_per_second": count / (time.perf_counter() - began)}
                result.add(name, "embed", turn, figures)
    return result


def regard(config: TextEncoderConfig, device: torch.device, dtype: torch.dtype) -> Embed:
    """Returns a function that embeds texts with Regard, and leaves the vectors on the host."""
    model = EmbeddingModel(
        EmbeddingConfig(config, modules=(NormalizeConfig(),), max_tokens=config.max_tokens)
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.02)
    model = on_device(model, device, Precision(str(dtype).removeprefix("torch.")))
    tokens = batch_tokens(device.type == "cuda")
    return lambda texts: embed(model, [EmbeddingJob(ids) for ids in texts], tokens)


def transformers(
    config: TextEncoderConfig, device: torch.device, dtype: torch.dtype, size: int
) -> Embed:
    """Returns a function that embeds texts with transformers, in batches of `size` texts."""
    from transformers import BertConfig, BertModel

    options = BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.d_model,
        num_hidden_layers=config.layers,
        num_attention_heads=config.num_heads,
        intermediate_size=config.ffn_dim,
        max_position_embeddings=config.max_positions,
    )
    model: Any = BertModel(options, add_pooling_layer=False)
    model = model.eval().to(device, dtype)

    def run(texts: Sequence[list[int]]) -> list[torch.Tensor]:
        ordered = sorted(texts, key=len, reverse=True)
        found = []
        for first in range(0, len(ordered), size):
            batch = ordered[first : first + size]
            width = len(batch[0])
            ids = torch.tensor([[*each, *[0] * (width - len(each))] for each in batch])
            lengths = torch.tensor([len(each) for each in batch])
            mask = (torch.arange(width) < lengths[:, None]).to(device)
            hidden = model(ids.to(device), attention_mask=mask).last_hidden_state.float()
            mean = (hidden * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
            found.append(F.normalize(mean).cpu())
        return found

    return run


def table(result: Result) -> str:
    rate = "texts_per_second"
    best = report.best_of(result, "embed", rate, THEIRS)
    rows = report.comparison(result, rate, lambda _: best, {})
    return report.markdown(["engine", "texts/s", f"× best {THEIRS}"], [row[1:] for row in rows])
