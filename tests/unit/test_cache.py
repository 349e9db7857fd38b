import pytest
import torch
from torch import Tensor

from model.config import DecoderKind
from model.layers.cache import DecodingCache
from tests.tiny import tiny_config

ROWS, SOURCE, TARGET = 5, 6, 8


def new_cache(decoder: DecoderKind) -> DecodingCache:
    config = tiny_config(decoder=decoder)
    return DecodingCache(config, ROWS, SOURCE, TARGET, torch.device("cpu"), torch.float32)


@pytest.fixture(params=list(DecoderKind))
def cache(request: pytest.FixtureRequest) -> DecodingCache:
    return new_cache(request.param)


def memory(rows: int, width: int, value: float) -> list[tuple[Tensor, Tensor]]:
    """Keys of `value` in layer 0 and value + 1 in layer 1; values are their negatives."""
    keys = [torch.full((rows, 2, width, 8), value + layer) for layer in range(2)]
    return [(key, -key) for key in keys]


def fill(cache: DecodingCache, rows: list[int], width: int, value: float) -> None:
    mask = torch.ones(len(rows), width, dtype=torch.bool)
    cache.fill_rows(torch.tensor(rows), memory(len(rows), width, value), mask)


def scribble(cache: DecodingCache) -> None:
    """Gives every row of every tensor numbers of its own."""
    for tensor in vars(cache).values():
        tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape))


def row_of(cache: DecodingCache, row: int) -> dict[str, Tensor]:
    by_layer = ("memory_key", "memory_value", "cell", "self_key", "self_value")
    return {
        name: (tensor[:, row] if name in by_layer else tensor[row]).clone()
        for name, tensor in vars(cache).items()
        if tensor.numel()
    }


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_filled_row_holds_its_memory_and_a_fresh_state(cache: DecodingCache) -> None:
    scribble(cache)
    fill(cache, [1, 3], 4, 10.0)
    for row in (1, 3):
        held = row_of(cache, row)
        assert torch.all(held["memory_key"][0, :, :4] == 10.0)
        assert torch.all(held["memory_key"][1, :, :4] == 11.0)
        assert torch.all(held["memory_value"][1, :, :4] == -11.0)
        assert held["memory_bias"].flatten().tolist() == [0, 0, 0, 0, -torch.inf, -torch.inf]
        assert held["positions"] == 0
        assert torch.all(held.get("cell", torch.zeros(1)) == 0)


def test_filling_a_row_leaves_the_others_alone(cache: DecodingCache) -> None:
    scribble(cache)
    before = [row_of(cache, row) for row in range(ROWS)]
    fill(cache, [2], 3, 1.0)
    for row in (0, 1, 3, 4):
        assert_same(row_of(cache, row), before[row])


@pytest.mark.parametrize(
    ("source", "target"),
    [([4], [0]), ([3, 4], [0, 1]), ([0, 1], [1, 0]), ([0, 0, 1], [1, 2, 0])],
    ids=["move", "two moves", "swap", "beam"],
)
def test_copied_rows_are_what_their_sources_were(
    cache: DecodingCache, source: list[int], target: list[int]
) -> None:
    scribble(cache)
    before = [row_of(cache, row) for row in range(ROWS)]
    cache.copy_rows(torch.tensor(source), torch.tensor(target), is_same_source=False)
    for row in range(ROWS):
        origin = source[target.index(row)] if row in target else row
        assert_same(row_of(cache, row), before[origin])


def test_rows_of_one_source_keep_its_memory_where_it_is(cache: DecodingCache) -> None:
    scribble(cache)
    before = [row_of(cache, row) for row in range(ROWS)]
    cache.copy_rows(torch.tensor([0]), torch.tensor([1]), is_same_source=True)
    for name, value in row_of(cache, 1).items():
        origin = 1 if name.startswith("memory") else 0
        assert torch.equal(value, before[origin][name])


def test_advance_counts_the_first_rows_alone(cache: DecodingCache) -> None:
    cache.advance(3)
    cache.advance(2, tokens=4)
    assert cache.positions.tolist() == [5, 5, 1, 0, 0]
    state = cache.view(ROWS, SOURCE, 2, TARGET)
    assert state.positions.tolist() == [[5, 6], [5, 6], [1, 2], [0, 1], [0, 1]]


def test_a_view_is_of_the_cache_itself(cache: DecodingCache) -> None:
    fill(cache, [0, 1], SOURCE, 2.0)
    state = cache.view(2, 4, 1, 3)
    assert len(state.layers) == 2
    for index, layer in enumerate(state.layers):
        assert layer.memory_key.shape == layer.memory_value.shape == (2, 2, 4, 8)
        assert isinstance(layer.memory_bias, Tensor)
        assert layer.memory_bias.shape == (2, 1, 1, 4)
        layer.memory_key.fill_(7.0)
        assert torch.all(cache.memory_key[index, :2, :, :4] == 7.0)
        assert torch.all(cache.memory_key[index, 2:] == 0.0)


def test_self_attention_sees_each_row_up_to_its_own_position() -> None:
    cache = new_cache(DecoderKind.SELF_ATTENTION)
    cache.advance(1, tokens=2)  # row 0 has two tokens, row 1 has none
    bias = cache.view(2, SOURCE, 2, 5).layers[0].self_bias
    assert isinstance(bias, Tensor)
    seen = (bias == 0.0)[:, 0].long()
    assert seen[0].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert seen[1].tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]
    assert torch.all(bias.masked_select(bias != 0.0) == -torch.inf)


def test_appended_keys_go_to_each_rows_own_position() -> None:
    cache = new_cache(DecoderKind.SELF_ATTENTION)
    cache.advance(1, tokens=3)
    layer = cache.view(2, SOURCE, 2, TARGET).layers[1]
    key = torch.arange(2 * 2 * 2 * 8, dtype=torch.float32).reshape(2, 2, 2, 8) + 1
    layer.append(key, -key)
    for row, first in ((0, 3), (1, 0)):
        assert torch.equal(cache.self_key[1, row, :, first : first + 2], key[row])
        assert torch.equal(cache.self_value[1, row, :, first : first + 2], -key[row])
    assert cache.self_key[1].count_nonzero() == key.numel()
    assert cache.self_key[0].count_nonzero() == 0


@pytest.mark.parametrize("decoder", list(DecoderKind))
def test_the_cache_holds_what_its_decoder_needs_and_no_more(decoder: DecoderKind) -> None:
    cache = new_cache(decoder)
    cross = 2 * 2 * ROWS * 2 * SOURCE * 8 + ROWS * SOURCE
    own = 2 * ROWS * 16 if decoder is DecoderKind.SSRU else 2 * 2 * ROWS * 2 * TARGET * 8
    assert cache.num_bytes == 4 * (cross + own) + 2 * 8 * ROWS
