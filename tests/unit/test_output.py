"""The output layers of a batch, driven as the engine drives them: dense rows, holes filled."""

import random

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.architectures.output import FullOutput, Shortlist, ShortlistOutput
from model.architectures.stack import Decoder
from tests.tiny import all_logits, tiny_config, tiny_model

FORBIDDEN = [1, 4]
MAX_ROWS = 6


def new_decoder(vocab_size: int) -> Decoder:
    config = tiny_config(source_vocab_size=vocab_size, target_vocab_size=vocab_size)
    return tiny_model(config, seed=1).decoder


def random_shortlist(vocab_size: int, candidates: int, seed: int = 0) -> Shortlist:
    """So many candidates for each source id, and ids 0 to 9 for all."""
    generator = np.random.default_rng(seed)
    lists = generator.integers(0, vocab_size, (vocab_size, candidates)).astype(np.uint32)
    offsets = (np.arange(vocab_size + 1) * candidates).astype(np.uint64)
    return Shortlist(10, offsets, np.sort(lists, axis=1).reshape(-1), is_shared=True)


def full_logits(decoder: Decoder, hidden: Tensor) -> Tensor:
    logits = all_logits(decoder, hidden).detach()
    logits[:, FORBIDDEN] = -torch.inf
    return logits


def assert_rows_have_their_own_ids(
    output: ShortlistOutput, decoder: Decoder, sources: list[list[int]]
) -> None:
    """A row's logits are the full ones on its ids, each in one column, and -inf elsewhere."""
    hidden = torch.randn(len(sources), 16, generator=torch.Generator().manual_seed(5))
    logits = output.logits(hidden)
    ids = output.token_ids(np.arange(logits.shape[1]))
    assert len(set(ids.tolist())) == len(ids)
    expected = torch.full((len(sources), 1), -torch.inf).repeat(1, decoder.output_bias.numel())
    for row, source in enumerate(sources):
        own = output.shortlist.ids(source)
        expected[row, own] = full_logits(decoder, hidden)[row, own]
        assert set(own.tolist()) <= set(ids.tolist())
    assert_close(logits, expected[:, ids])


class Rows:
    """What an engine does to an output layer; keeps the source that each row should have."""

    def __init__(self, output: FullOutput) -> None:
        self.output = output
        self.sources: list[list[int]] = []

    def enter(self, source: list[int]) -> None:
        self.output.enter(len(self.sources), source)
        self.sources.append(source)

    def leave(self, holes: set[int]) -> None:
        kept = len(self.sources) - len(holes)
        source = [row for row in range(kept, len(self.sources)) if row not in holes]
        target = sorted(row for row in holes if row < kept)
        if source:
            self.output.move(source, target)
        for old, new in zip(source, target, strict=True):
            self.sources[new] = self.sources[old]
        for row in range(kept, len(self.sources)):
            self.output.leave(row)
        del self.sources[kept:]


@pytest.mark.parametrize("is_tied", [True, False], ids=["tied", "untied"])
def test_padded_weight_takes_no_second_memory(is_tied: bool) -> None:
    config = tiny_config(source_vocab_size=61, target_vocab_size=61, tied_output=is_tied)
    model = tiny_model(config, seed=1)
    output = FullOutput(model.decoder, FORBIDDEN, multiple=64)
    assert model.decoder.output_weight.shape == (61, 16)
    assert model.decoder.output_weight.data_ptr() == output.weight.data_ptr()
    shared = model.encoder.embedding.weight.data_ptr() == output.weight.data_ptr()
    assert shared == is_tied


@pytest.mark.parametrize("make", [FullOutput, None], ids=["full", "shortlist"])
def test_logits_are_float32_in_any_precision(make: type[FullOutput] | None) -> None:
    decoder = new_decoder(64).to(torch.bfloat16)
    output: FullOutput = ShortlistOutput(decoder, FORBIDDEN, random_shortlist(64, 3), 2)
    if make:
        output = make(decoder, FORBIDDEN)
    output.enter(0, [5, 0])
    assert output.logits(torch.randn(1, 16).to(torch.bfloat16)).dtype is torch.float32


# (vocabulary, candidates a source id): a union that never grows; one that is made anew now and
# then; one that outgrows its place
@pytest.mark.parametrize(("vocab_size", "candidates"), [(64, 3), (3000, 120), (9000, 300)])
@pytest.mark.parametrize("seed", range(3))
def test_rows_keep_their_shortlists_through_any_coming_and_going(
    vocab_size: int, candidates: int, seed: int
) -> None:
    chance = random.Random(seed)
    decoder = new_decoder(vocab_size)
    output = ShortlistOutput(
        decoder, FORBIDDEN, random_shortlist(vocab_size, candidates, seed), MAX_ROWS
    )
    rows = Rows(output)
    for _ in range(40):
        live = len(rows.sources)
        if live < MAX_ROWS and chance.random() < 0.6:
            length = chance.randint(1, 6)
            rows.enter([*(chance.randrange(vocab_size) for _ in range(length)), 0])
            # Sentences that have left must not stay in the product for ever.
            assert len(output.ids) <= max(1024, 2 * sum(map(len, output.row_ids)))
        elif live:
            rows.leave(set(chance.sample(range(live), chance.randint(1, live))))
        assert_rows_have_their_own_ids(output, decoder, rows.sources)
