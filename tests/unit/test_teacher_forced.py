from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor, nn

from model.architectures.stack import Decoder, EncoderDecoder
from model.backends import encoder_batch
from model.encoding.capture_pass import TeacherForcedPass
from model.inspection.captures import maps as map_capture
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionNorm,
    AttentionQuery,
    Reduction,
    TraceQuery,
    resolve_query,
)
from model.inspection.results import AttentionTrace
from model.layers.block import SSRU
from tests.attention_jobs import (
    NORMS_OF_HEADS,
    Array,
    assert_maps_close,
    assert_rows_sum_to_one,
    assert_steps_add_up,
    finished,
    kinds_of,
    maps,
    random_pairs,
    results,
    steps,
)
from tests.tiny import Family, forced_weights, pad, quantized

ENCODER, DECODER, CROSS = AttentionKind
PAIRS = random_pairs(9, longest=20)
LONG = [*range(2, 62)] * 5, [*range(2, 62)] * 3
"""More tokens than a slice has, and than the position tables have at first."""
CHANGES: dict[str, Callable[[EncoderDecoder], EncoderDecoder]] = {
    "float32": lambda model: model,
    "bfloat16": lambda model: model.to(torch.bfloat16),
    "int8": quantized,
}


@pytest.fixture(params=CHANGES)
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(family: Family, precision: str) -> EncoderDecoder:
    """Every family in every precision, for this is of all of them."""
    return CHANGES[precision](family.model(decoder_layers=3))


def test_weights_are_those_of_the_padded_explicit_pass(family: Family) -> None:
    """By the model's own forward, whose attention is explicit in every layer and masked."""
    model, pairs = family.model(decoder_layers=3), [*PAIRS, LONG]
    shown = maps(model, pairs)
    source, mask = pad([source for source, _ in pairs])
    target, _ = pad([target for _, target in pairs])
    with torch.no_grad():
        _, expected = forced_weights(model, source, mask, target)
    layers = {ENCODER: expected.encoder, DECODER: expected.decoder, CROSS: expected.cross}
    for row, found in enumerate(shown):
        for kind, values in found.items():
            stacked = torch.stack([layer[row] for layer in layers[kind]]).numpy()
            whole = stacked[:, :, : values.shape[2], : values.shape[3]]
            assert_allclose(values, whole, rtol=0, atol=1e-5)
            assert not stacked[:, :, : values.shape[2], values.shape[3] :].any()


def test_a_sentence_gets_the_same_alone_and_beside_others(
    model: EncoderDecoder, precision: str
) -> None:
    """In slices; a whole pass is tested with jobs of all sorts."""
    together = maps(model, PAIRS, slice_tokens=7)
    for pair, found in zip(PAIRS, together, strict=True):
        (alone,) = maps(model, [pair], slice_tokens=7)
        # One batch rounds as another in float32; in bfloat16 that may be a whole last place.
        tolerance = {"float32": 1e-5, "bfloat16": 0.05, "int8": 0.0}[precision]
        assert_maps_close(found, alone, atol=tolerance)


def test_no_slice_works_on_more_than_its_tokens(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But a projection, which takes a whole sentence at once."""
    model, seen = family.model(), list[int]()
    recur = SSRU.recur

    def counted(layer: SSRU, forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
        seen.append(forget.shape[1])
        return recur(layer, forget, update, cell)

    def rows(query: Tensor, *others: Any, whole: Callable[..., Any]) -> Any:
        assert query.shape[-2] <= 16
        return whole(query, *others)

    monkeypatch.setattr(SSRU, "recur", counted)
    for module, name in ((encoder_batch, "attention"), (map_capture, "attention_weights")):
        monkeypatch.setattr(module, name, partial(rows, whole=getattr(module, name)))

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: object) -> None:
        seen.append(inputs[0].shape[1])

    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.feed_forward.register_forward_hook(count)
    query = resolve_query(model.config, kinds_of(model.config))
    pairs = [([5] * 40, [6] * 50), *[([5, 0], [6])] * 5]
    jobs = [AttentionJob(source, target, (query,)) for source, target in pairs]
    slices = TeacherForcedPass(model, jobs, slice_tokens=16)
    total = 0
    while slices.advance():
        assert sum(seen) <= 16
        total += sum(seen)
        seen.clear()
    assert total >= 40 + 50  # the feed-forward of the layers but the last


REDUCTIONS: dict[Reduction, Callable[[Array], Array]] = {
    Reduction.MEAN_HEADS: lambda values: np.asarray(values.mean(axis=1, keepdims=True)),
    Reduction.MAX_HEADS: lambda values: np.asarray(values.max(axis=1, keepdims=True)),
    Reduction.MEAN_LAYERS_HEADS: lambda values: np.asarray(values.mean((0, 1), keepdims=True)),
}


@pytest.mark.parametrize("norm", NORMS_OF_HEADS)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_a_reduction_is_numpys(family: Family, reduce: Reduction, norm: AttentionNorm) -> None:
    model = family.model()
    reduced = maps(model, PAIRS, reduce, norm, slice_tokens=8)
    for found, each in zip(reduced, maps(model, PAIRS, norm=norm), strict=True):
        expected = {kind: REDUCTIONS[reduce](values) for kind, values in each.items()}
        assert_maps_close(found, expected, atol=1e-5)


def rollout(layers: Array) -> Array:
    """Attention rollout of (L, H, T, T), written out."""
    tokens = layers.shape[-1]
    flow = np.eye(tokens)
    for heads in layers.astype(np.float64):
        mixed = np.zeros((tokens, tokens))
        for row in range(tokens):
            for column in range(tokens):
                mixed[row, column] = 0.5 * heads[:, row, column].mean() + 0.5 * (row == column)
            mixed[row] /= mixed[row].sum()
        flow = mixed @ flow
    return flow[None, None].astype(np.float32)


def test_rollout_is_the_product_of_the_layers(family: Family) -> None:
    model = family.model(encoder_layers=4, decoder_layers=3)
    rolled = maps(model, PAIRS, Reduction.ROLLOUT, slice_tokens=4)
    for found, each in zip(rolled, maps(model, PAIRS), strict=True):
        expected = {kind: rollout(each[kind]) for kind in found}
        assert_maps_close(found, expected, atol=1e-6)
        assert_rows_sum_to_one(found)


def test_several_questions_are_answered_in_one_pass(family: Family) -> None:
    """Also where they are about different layers and kinds."""
    model = family.model()
    queries = (
        AttentionQuery({CROSS: (1,)}, (1,)),
        AttentionQuery({ENCODER: (0, 1)}, (0,)),
        TraceQuery(CROSS, 1, 1, 0),
    )
    job = AttentionJob(*PAIRS[3], queries)
    ((cross, encoder, found),) = finished(TeacherForcedPass(model, [job]))
    alone = [results(model, [AttentionJob(*PAIRS[3], (query,))])[0] for query in queries]
    for together, apart in ((cross, alone[0]), (encoder, alone[1])):
        for kind, values in apart.items():
            assert_array_equal(together[kind], values)
    assert_array_equal(found.z, alone[2].z)


def test_layers_and_heads_come_in_the_order_asked_for(model: EncoderDecoder) -> None:
    (each,) = maps(model, [PAIRS[5]])
    jobs = [
        AttentionJob(*PAIRS[5], (AttentionQuery({CROSS: (2, 0), ENCODER: (1,)}, (1, 0)),)),
        AttentionJob(*PAIRS[5], (AttentionQuery({CROSS: (1,)}, (1,)),)),
    ]
    many, one = results(model, jobs)
    tolerance = 0.05 if model.dtype is torch.bfloat16 else 1e-5
    expected = {CROSS: each[CROSS][[2, 0]][:, [1, 0]], ENCODER: each[ENCODER][[1]][:, [1, 0]]}
    assert_maps_close(many, expected, tolerance)
    assert_maps_close(one, {CROSS: each[CROSS][1:2, 1:2]}, tolerance)


def each_place(model: EncoderDecoder) -> Iterator[tuple[AttentionKind, int]]:
    for kind in kinds_of(model.config):
        is_encoder = kind is ENCODER
        for layer in range(len(model.encoder.layers if is_encoder else model.decoder.layers)):
            yield kind, layer


def test_steps_add_up_and_are_those_of_the_weights(model: EncoderDecoder) -> None:
    pair = PAIRS[5]
    (weights,) = maps(model, [pair])
    (norms,) = maps(model, [pair], norm=AttentionNorm.VALUE_NORMS)
    head_dim = model.config.head_dim
    for kind, layer in each_place(model):
        for head, token in ((0, 0), (1, 3)):
            found = steps(model, pair, TraceQuery(kind, layer, head, token))
            assert_steps_add_up(found)
            columns = token + 1 if kind is DECODER else len(pair[0])
            assert found.key.shape == found.value.shape == (columns, head_dim)
            row = weights[kind][layer, head, token, :columns]
            assert_allclose(found.weights, row, rtol=0, atol=1e-5)
            own = slice(head * head_dim, (head + 1) * head_dim)
            assert_array_equal(found.concatenated[own], found.z)
            moved = found.weighted @ found.output_weight[:, own].T  # (S, D)
            row = norms[kind][layer, head, token, :columns]
            assert_allclose(np.linalg.norm(moved, axis=-1), row, rtol=1e-4, atol=1e-5)


def test_jobs_of_all_sorts_share_a_pass(model: EncoderDecoder, precision: str) -> None:
    config = model.config
    queries: list[AttentionQuery | TraceQuery] = [
        TraceQuery(ENCODER, 1, 0, 0),
        resolve_query(config, [CROSS], [-1], reduce=Reduction.MEAN_HEADS),
        resolve_query(config, [ENCODER], [0]),
        TraceQuery(CROSS, 0, 1, 0),
        resolve_query(config, [ENCODER], reduce=Reduction.ROLLOUT),
        resolve_query(config, kinds_of(config), norm=AttentionNorm.VALUE_NORMS),
    ]
    jobs = [AttentionJob(*pair, (query,)) for pair, query in zip(PAIRS[2:], queries, strict=False)]
    tolerance = 0.3 if precision == "bfloat16" else 1e-4
    for job, found in zip(jobs, results(model, jobs), strict=True):
        (alone,), (query,) = results(model, [job]), job.queries
        if isinstance(found, AttentionTrace):
            assert_allclose(found.z, alone.z, rtol=0, atol=tolerance)
            continue
        assert_maps_close(found, alone, tolerance)
        assert isinstance(query, AttentionQuery)
        assert {kind: values.shape for kind, values in found.items()} == {
            kind: query.shape(kind, len(job.source), len(job.target)) for kind in query.kinds
        }


def raises(*_: Any) -> None:
    raise AssertionError("nobody needs this")


def test_only_requested_values_are_computed(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = family.model(encoder_layers=3)
    monkeypatch.setattr(Decoder, "logits_of", raises)
    monkeypatch.setattr(model.encoder.layers[2].feed_forward, "forward", raises)
    found = results(
        model, [AttentionJob([5, 6, 0], [], (AttentionQuery({ENCODER: (2, 0)}, (0, 1)),))]
    )
    assert_rows_sum_to_one(found[0])
    monkeypatch.undo()
    monkeypatch.setattr(Decoder, "logits_of", raises)
    monkeypatch.setattr(model.decoder.layers[0].feed_forward, "forward", raises)
    monkeypatch.setattr(model.decoder.layers[1], "forward", raises)
    job = AttentionJob([5, 6, 0], [7, 0], (AttentionQuery({CROSS: (0,)}, (0, 1)),))
    (found_cross,) = results(model, [job])
    assert_rows_sum_to_one(found_cross)
