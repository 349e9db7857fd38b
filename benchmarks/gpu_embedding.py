"""Measures embeddings on a GPU: `python -m benchmarks.gpu_embedding --device cuda`.

Regard and BertModel of transformers embed random texts with random weights. The shape is that of
all-MiniLM-L6-v2. BertModel gets batches of several sizes, sorted by length and padded, as
sentence-transformers makes them. The last table column compares each engine with BertModel at its
best batch size.

`--smoke` takes tiny sizes, to check that the command works.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import report
from benchmarks.random_weights import synchronize
from benchmarks.report import OURS, Result
from model.device import select_device
from model.embedding_config import EmbeddingConfig, NormalizeConfig, TextEncoderConfig
from model.encoding.embedding import EmbeddingJob, embed
from model.encoding.pooling import EmbeddingModel, on_device
from model.errors import DeviceError
from service.ipc.machine import freeze_heap
from service.items import batch_tokens

THEIRS = "transformers"
SHAPE = TextEncoderConfig(384, 12, 1536, 6, 30522, 512, token_types=2)
TINY = TextEncoderConfig(32, 2, 64, 2, 100, 128, token_types=2)
LENGTHS = (8, 64)
"""Smallest and largest number of tokens of a text."""

Embed = Callable[[Sequence[list[int]]], object]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_embedding",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--device", default="auto", help="device, as in REGARD_DEVICE")
    add("--texts", type=int, default=20_000, help="number of texts")
    add("--batches", default="32,128,512,2048", help="batch sizes of transformers")
    add("--rounds", type=int, default=5, help="how often each engine is measured")
    add("--results", help="folder for gpu_embedding.json, which holds all samples")
    add("--smoke", action="store_true", help="take tiny sizes, to check that the command works")
    args = parser.parse_args()
    try:
        device = select_device(args.device)
    except DeviceError as error:
        raise SystemExit(str(error)) from error
    result = measure(args, device)
    result.facts = {**report.machine(), **result.facts}
    if args.results:
        report.save(result, Path(args.results))
    print(f"{table(result)}\n\n{report.conditions(result.facts)}.")


def measure(args: argparse.Namespace, device: torch.device) -> Result:
    """Measures all engines in turn, round by round. Each engine first runs once as a warm-up."""
    on_gpu = device.type == "cuda"
    config, count = (TINY, 16) if args.smoke else (SHAPE, args.texts)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    generator = random.Random(1)
    texts = [
        [generator.randrange(config.vocab_size) for _ in range(generator.randint(*LENGTHS))]
        for _ in range(count)
    ]
    engines: dict[str, Embed] = {OURS: regard(config, device, dtype)}
    for size in map(int, ("4" if args.smoke else args.batches).split(",")):
        engines[f"{THEIRS}-{size}"] = transformers(config, device, dtype, size)
    result = Result("gpu_embedding")
    result.facts = {
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "dtype": str(dtype),
        "texts": count,
        "rounds": args.rounds,
    }
    with torch.inference_mode():
        for run in engines.values():
            run(texts)
        freeze_heap()  # as a worker does
        for turn in range(1, args.rounds + 1):
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
    model.encoder.to(dtype)
    model = on_device(model, device)
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
    """Returns a table with a row for each engine."""
    rate = "texts_per_second"
    best = report.best_of(result, "embed", rate, THEIRS)
    rows = report.comparison(result, rate, lambda _: best, {})
    return report.markdown(["engine", "texts/s", f"× best {THEIRS}"], [row[1:] for row in rows])


if __name__ == "__main__":
    main()
