"""Random models, sequences and raw calls of the native code: the same bits, and never a crash.

The environment variable FUZZ_SECONDS sets the time for each test and build, such as 120.
"""

import ctypes
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from model.architectures.output import AnyShortlist
from model.architectures.stack import EncoderDecoder
from model.backends.native.library import (
    ACTIVATIONS,
    LIBRARIES,
    Library,
    NativeBatch,
    Searches,
    address,
    int32,
)
from model.backends.native.runner import NativeRunner, NativeTextEncoder
from model.config import DecoderKind, NormPosition
from model.engine.engine import Engine
from model.sequence import DecodingOptions, EngineLimits, Sequence
from tests.fuzzing import fuzzed, seeds
from tests.text_models import NATIVE
from tests.text_models import int8_model as int8_embedding_model
from tests.tiny import (
    FIXED_SHORTLIST,
    VOCAB_SIZE,
    quantized,
    tiny_config,
    tiny_model,
    tiny_shortlist,
    translate,
)

pytestmark = [
    fuzzed,
    pytest.mark.skipif(not LIBRARIES, reason="nothing was compiled for this processor"),
]

each_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)

OPTIONS = [
    DecodingOptions(),
    DecodingOptions(return_attention=True),
    DecodingOptions(return_scores=True),
    DecodingOptions(2, 2),
    DecodingOptions(4, 1),
]

EXTREMES = (-(2**31), -2, -1, 0, 1, 7, 8, 9, 63, 64, 2**31 - 1)
"""Arguments at limits; the batch of the raw calls has 8 rows, and the vocabulary 64 ids."""


def random_model(chance: random.Random) -> EncoderDecoder:
    heads = chance.choice([1, 2, 4])
    config = tiny_config(
        d_model=chance.choice([64, 128]),
        num_heads=heads,
        ffn_dim=64 * chance.randint(1, 4),
        encoder_layers=chance.randint(1, 3),
        decoder_layers=chance.randint(1, 3),
        decoder=chance.choice([*DecoderKind]),
        norm=chance.choice([NormPosition.POST, NormPosition.PRE]),
        norms_keys=chance.random() < 0.5,
        activation=chance.choice([*ACTIVATIONS]),
        start_id=chance.choice([None, 5]),
        position_offset=chance.choice([0, 2]),
        scales_embeddings=chance.random() < 0.5,
        max_length_factor=chance.choice([1.0, 1.7]),
    )
    return quantized(tiny_model(config, chance.randrange(1000)))


def random_shortlist(chance: random.Random) -> AnyShortlist | None:
    return chance.choice([None, tiny_shortlist(chance.choice([1, 8])), FIXED_SHORTLIST])


def random_sequence(chance: random.Random, number: int, limits: EngineLimits) -> Sequence:
    length = chance.choice([0, 1, 2, chance.randrange(limits.max_source_tokens)])
    source = [chance.randrange(2, VOCAB_SIZE) for _ in range(length)]
    return Sequence(number, [*source, 0], chance.choice(OPTIONS))


@each_library
def test_random_batches_give_the_translations_of_single_sentences(library: Library) -> None:
    for seed in seeds():
        try:
            run_random_batch(random.Random(seed), library)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def run_random_batch(chance: random.Random, library: Library) -> None:
    model = random_model(chance)
    limits = EngineLimits(
        max_rows=chance.choice([4, 8, 17]),
        max_source_tokens=chance.choice([9, 41]),
        max_batch_tokens=chance.choice([50, 256]),
    )
    shortlist = random_shortlist(chance)
    engine = new_engine(model, limits, shortlist, library)
    admitted: dict[int, Sequence] = {}
    for number in range(30):
        sequence = random_sequence(chance, number, limits)
        if sequence.options.beam_size <= engine.free_rows:
            engine.admit([sequence])
            admitted[number] = sequence
        engine.low_latency = chance.random() < 0.5
        if chance.random() < 0.1 and engine.running:
            engine.abort(chance.choice([*engine.running]))
        if chance.random() < 0.02:
            engine.clear()
        if chance.random() < 0.6:
            check_step(engine, admitted, shortlist, library)
    while engine.num_rows:
        check_step(engine, admitted, shortlist, library)


def new_engine(
    model: EncoderDecoder, limits: EngineLimits, shortlist: AnyShortlist | None, library: Library
) -> Engine:
    return Engine(NativeRunner(model, limits, shortlist, library), limits)


def check_step(
    engine: Engine, admitted: dict[int, Sequence], shortlist: AnyShortlist | None, library: Library
) -> None:
    """Runs a step; translates each finished sequence again, alone."""
    for finished in engine.step():
        alone = new_engine(engine.model, engine.limits, shortlist, library)
        (wanted,) = translate(alone, [admitted[finished.id]]).values()
        assert len(wanted) == len(finished.hypotheses)
        for found, expected in zip(finished.hypotheses, wanted, strict=True):
            assert found.tokens == expected.tokens
            assert found.log_probs == expected.log_probs
            if expected.attention is not None:
                np.testing.assert_array_equal(found.attention, expected.attention)


class RawCalls:
    """Calls the native code with arguments that may be wrong; all arrays are large enough."""

    names: tuple[str, ...]

    def __init__(self, chance: random.Random, library: Library) -> None:
        self.chance, self.library = chance, library

    def number(self, most: int) -> int:
        """A number from 0 to `most`, or an extreme one."""
        if self.chance.random() < 0.05:
            return self.chance.choice(EXTREMES)
        return self.chance.randint(0, most)

    def numbers(self, count: int, most: int) -> np.ndarray:
        return int32([self.number(most) for _ in range(count)])

    def call(self) -> int:
        """Makes one call; returns its status."""
        status: int = getattr(self, self.chance.choice(self.names))()
        return status


class TranslatorCalls(RawCalls):
    names = ("enter", "decode", "search", "logits", "hidden", "attention", "copy", "leave")

    def __init__(self, chance: random.Random, library: Library) -> None:
        super().__init__(chance, library)
        limits = EngineLimits(max_rows=8, max_source_tokens=9, max_batch_tokens=50)
        shortlist = random_shortlist(chance)
        self.runner = NativeRunner(random_model(chance), limits, shortlist, library)
        self.batch = self.runner.batch.handle

    def enter(self) -> Any:
        count = self.chance.randint(0, 3)
        arrays = (
            np.maximum(self.numbers(count, 9), 1 - (self.chance.random() < 0.1)),
            self.numbers(1024, VOCAB_SIZE - 1) if self.chance.random() < 0.1 else self.valid_ids(),
            np.maximum(self.numbers(count, 2), 1 - (self.chance.random() < 0.1)),
            self.numbers(count, 1),
            int32([-1] * count) if self.chance.random() < 0.7 else self.numbers(count, 63),
        )
        return self.library.batch_enter(self.batch, self.number(7), count, *map(address, arrays))

    def valid_ids(self) -> np.ndarray:
        return int32([self.chance.randrange(VOCAB_SIZE) for _ in range(1024)])

    def decode(self) -> Any:
        steps = self.chance.randint(1, 12)
        left, tokens = self.numbers(8, 3), int32(self.valid_ids()[:8])
        best = np.zeros((8, steps), np.int32)
        places = address(left), address(tokens), address(best)
        return self.library.batch_decode(self.batch, self.number(8), steps, *places)

    def search(self) -> Any:
        rows = int32(self.chance.sample(range(8), self.chance.randint(1, 8)))
        if self.chance.random() < 0.1:
            rows = self.numbers(len(rows), 7)
        first = self.chance.randint(0, len(rows))
        beams = int32([each for each in (first, len(rows) - first) if each])
        steps, tokens = self.chance.randint(1, 5), int32(self.valid_ids()[:8])
        totals, best = np.zeros(len(rows)), np.empty((steps, 2 * len(rows)))
        parents, ids = np.zeros(best.shape, np.int32), np.zeros(best.shape, np.int32)
        arrays: list[NDArray[Any]] = [tokens, totals, best, parents, ids]
        searches = Searches(len(beams), address(beams), address(rows), steps, *map(address, arrays))
        return self.library.batch_search(self.batch, ctypes.byref(searches))

    def logits(self) -> Any:
        count = self.chance.randint(0, 8)
        rows, logits = self.numbers(count, 7), np.zeros((8, VOCAB_SIZE), np.float32)
        stride = min(self.number(VOCAB_SIZE), VOCAB_SIZE)
        places = address(rows), address(logits)
        return self.library.batch_logits(self.batch, count, *places, stride)

    def hidden(self) -> Any:
        count = self.chance.randint(0, 8)
        rows, states = self.numbers(count, 7), np.zeros((8, 128), np.float32)
        return self.library.batch_hidden(self.batch, count, address(rows), address(states))

    def attention(self) -> Any:
        weights = np.zeros(4096, np.float32)
        count = 0 if self.chance.random() < 0.1 else min(self.number(4096), 4096)
        return self.library.batch_attention(self.batch, self.number(7), count, address(weights))

    def copy(self) -> Any:
        rows = self.chance.sample(range(8), self.chance.randint(0, 8))
        source = self.numbers(len(rows), 7)
        target = int32(rows) if self.chance.random() < 0.9 else self.numbers(len(rows), 7)
        return self.library.batch_copy(self.batch, len(rows), address(source), address(target))

    def leave(self) -> Any:
        return self.library.batch_leave(self.batch, self.number(8))


class TextEncoderCalls(RawCalls):
    names = ("enter", "project", "attend", "feed_forward", "read")

    def __init__(self, chance: random.Random, library: Library) -> None:
        super().__init__(chance, library)
        changes = {"num_heads": 2} | chance.choice([*NATIVE.values()])
        self.encoder = NativeTextEncoder(int8_embedding_model(**changes).encoder, library)
        self.batch = NativeBatch(self.encoder, "text_batch")

    def enter(self) -> Any:
        count = self.chance.randint(0, 3)
        lengths = self.numbers(count, 9)
        last = self.encoder.config.vocab_size - 1
        tokens = int32([self.chance.randint(0, last) for _ in range(1024)])
        if self.chance.random() < 0.1:
            tokens = self.numbers(1024, last)
        places = address(lengths), address(tokens)
        return self.library.text_batch_enter(self.batch.handle, count, *places)

    def part(self) -> tuple[int, int, int]:
        """A layer, a first token and a number of tokens."""
        return self.number(1), self.number(9), self.number(9)

    def project(self) -> Any:
        return self.library.text_batch_project(self.batch.handle, *self.part())

    def attend(self) -> Any:
        return self.library.text_batch_attend(self.batch.handle, *self.part())

    def feed_forward(self) -> Any:
        return self.library.text_batch_feed_forward(self.batch.handle, *self.part())

    def read(self) -> Any:
        vectors = np.zeros(1024 * self.encoder.config.d_model, np.float32)
        count = min(self.number(27), 1024)
        return self.library.text_batch_read(self.batch.handle, count, address(vectors))


@each_library
@pytest.mark.parametrize("kind", [TranslatorCalls, TextEncoderCalls])
def test_raw_calls_with_wrong_arguments_are_refused(kind: type, library: Library) -> None:
    statuses = set()
    for seed in seeds():
        calls = kind(random.Random(seed), library)
        for _ in range(50):
            status = calls.call()
            assert status in (0, -2), f"seed {seed}"
            statuses.add(status)
    assert statuses == {0, -2}
