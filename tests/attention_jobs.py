"""Jobs and checks for the tests of passes that return attention."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from model.architectures.stack import EncoderDecoder, TextEncoder
from model.checkpoints.embedding import load_cross_encoder_model
from model.checkpoints.families.cross_encoders import CrossEncoderFiles
from model.config import DecoderKind, ModelConfig
from model.encoding.capture_pass import CapturePass, TeacherForcedPass, TextCapturePass
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionMaps,
    AttentionNorm,
    Query,
    Reduction,
    ScoreQuery,
    TraceQuery,
    resolve_query,
)
from model.inspection.results import AttentionTrace
from model.sequence import Hypothesis
from model.sequence import Sequence as Sentence
from model.tokenization.pairs import PairText
from service.models.served import ServedReranker
from service.tasks.reranking import ids_of
from tests.tiny import VOCAB_SIZE, quantized

Array = NDArray[np.float32]
NORMS_OF_HEADS = [norm for norm in AttentionNorm if not norm.merges_heads]
Pairs = list[tuple[list[int], list[int]]]
"""Token ids of sources and targets."""
CHANGES: dict[str, Callable[[EncoderDecoder], EncoderDecoder]] = {
    "float32": lambda model: model,
    "int8": quantized,
}
"""Changes of a model to another precision."""


def kinds_of(config: ModelConfig) -> list[AttentionKind]:
    has_decoder = config.decoder is DecoderKind.SELF_ATTENTION
    return [k for k in AttentionKind if has_decoder or k is not AttentionKind.DECODER]


def random_pairs(count: int, seed: int = 3, longest: int = 30) -> Pairs:
    """Returns random pairs of 1 to `longest` tokens; the first has one token on each side."""
    generator = torch.Generator().manual_seed(seed)

    def ids() -> list[int]:
        length = int(torch.randint(0, longest, (), generator=generator))
        return [*torch.randint(2, VOCAB_SIZE - 1, (length,), generator=generator).tolist(), 0]

    return [([0], [0]), *((ids(), ids()) for _ in range(count - 1))]


def finished(whole: CapturePass) -> Any:
    """Returns the results of a pass, for each job a list with one result for each query."""
    while whole.advance():
        pass
    return whole.results()


def results(model: EncoderDecoder, jobs: list[AttentionJob], slice_tokens: int = 128) -> list[Any]:
    return [result for (result,) in finished(TeacherForcedPass(model, jobs, slice_tokens))]


def maps(
    model: EncoderDecoder,
    pairs: Pairs,
    reduce: Reduction = Reduction.NONE,
    norm: AttentionNorm = AttentionNorm.WEIGHTS,
    slice_tokens: int = 128,
) -> list[AttentionMaps]:
    """Returns all layers and heads of every kind that the model, or a rollout, has."""
    kinds = kinds_of(model.config)
    if reduce is Reduction.ROLLOUT:
        kinds.remove(AttentionKind.CROSS)
    query = resolve_query(model.config, kinds, reduce=reduce, norm=norm)
    jobs = [AttentionJob(source, target, (query,)) for source, target in pairs]
    return results(model, jobs, slice_tokens)


def steps(
    model: EncoderDecoder, pair: tuple[list[int], list[int]], query: TraceQuery
) -> AttentionTrace:
    (result,) = results(model, [AttentionJob(*pair, (query,))])
    assert isinstance(result, AttentionTrace)
    return result


def text_results(
    encoder: TextEncoder, inputs: Sequence[list[int]], query: Query, slice_tokens: int = 128
) -> list[Any]:
    jobs = [AttentionJob(ids, [], (query,)) for ids in inputs]
    return [result for (result,) in finished(TextCapturePass(encoder, jobs, slice_tokens))]


def text_maps(
    encoder: TextEncoder,
    inputs: Sequence[list[int]],
    reduce: Reduction = Reduction.NONE,
    norm: AttentionNorm = AttentionNorm.WEIGHTS,
    slice_tokens: int = 128,
) -> list[Array]:
    """Returns the weights (layers, heads, T, T) of each text."""
    query = resolve_query(encoder.config, [AttentionKind.ENCODER], reduce=reduce, norm=norm)
    found = text_results(encoder, inputs, query, slice_tokens)
    return [maps[AttentionKind.ENCODER] for maps in found]


def pair_results(
    files: CrossEncoderFiles, pairs: Sequence[tuple[str, str]]
) -> list[tuple[list[int], Array, float]]:
    """Returns the ids that a cross-encoder reads, its weights (layers, heads, T, T) and its score.

    The result of each pair is the same beside others and alone.
    """
    served = ServedReranker.load(files)
    model = load_cross_encoder_model(files, torch.device("cpu"), "float32")
    query = resolve_query(model.encoder.config, [AttentionKind.ENCODER])
    shown = [served.tokenizer.show(*pair).tokenized for pair in pairs]
    assert all(isinstance(each, PairText) for each in shown)
    jobs = [
        AttentionJob(ids_of(each, served), [], (query, ScoreQuery()))
        for each in shown
        if isinstance(each, PairText)
    ]
    found = finished(TextCapturePass(model.encoder, jobs, score=model.embed))
    results = []
    for job, (maps, score) in zip(jobs, found, strict=True):
        ((alone, same),) = finished(TextCapturePass(model.encoder, [job], score=model.embed))
        assert same == score
        assert_maps_close(alone, maps, atol=1e-6)
        results.append((job.source, maps[AttentionKind.ENCODER], score))
    return results


def text_steps(
    encoder: TextEncoder, ids: list[int], layer: int, head: int, token: int
) -> AttentionTrace:
    (result,) = text_results(encoder, [ids], TraceQuery(AttentionKind.ENCODER, layer, head, token))
    assert isinstance(result, AttentionTrace)
    return result


def assert_rows_sum_to_one(found: AttentionMaps) -> None:
    """Checks that rows sum to 1 over all columns, without negative or future weights."""
    for kind, values in found.items():
        assert values.dtype == np.float32
        assert values.min() >= 0.0
        np.testing.assert_allclose(values.sum(-1, dtype=np.float64), 1.0, rtol=0, atol=1e-5)
        if kind is AttentionKind.DECODER:
            assert not np.triu(values, k=1).any()


def assert_steps_add_up(found: AttentionTrace) -> None:
    q, k, v = (x.astype(np.float64) for x in (found.query, found.key, found.value))
    scores = k @ q
    np.testing.assert_allclose(found.scores, scores, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.scaled, scores / np.sqrt(len(q)), rtol=1e-6, atol=1e-6)
    biased = scores / np.sqrt(len(q)) + (0.0 if found.bias is None else found.bias)
    exponentials = np.exp(biased - biased.max())
    weights = exponentials / exponentials.sum()
    np.testing.assert_allclose(found.weights, weights, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.weighted, weights[:, None] * v, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.z, weights @ v, rtol=0, atol=1e-5)
    linear = found.output_weight.astype(np.float64) @ found.concatenated + found.output_bias
    np.testing.assert_allclose(found.result, linear, rtol=0, atol=1e-5)


def assert_maps_close(found: AttentionMaps, expected: AttentionMaps, atol: float) -> None:
    assert found.keys() == expected.keys()
    for kind, values in found.items():
        assert values.shape == expected[kind].shape
        np.testing.assert_allclose(values, expected[kind], rtol=0, atol=atol)


def check_recorded(
    model: EncoderDecoder, sequence: Sentence, hypotheses: list[Hypothesis], tolerance: float
) -> None:
    """Checks that a sequence has recorded attention if it asked for it, and only then."""
    if not sequence.options.return_attention:
        assert all(hypothesis.attention is None for hypothesis in hypotheses)
        return
    (hypothesis,) = hypotheses
    found = hypothesis.attention
    assert found is not None
    assert found.shape == (len(hypothesis.tokens), len(sequence.source))
    config = model.config
    heads = None if config.aligning_head is None else [config.aligning_head]
    query = resolve_query(
        config, [AttentionKind.CROSS], [config.aligning_layer], heads, Reduction.MEAN_HEADS
    )
    job = AttentionJob(sequence.source, hypothesis.tokens, (query,))
    (maps,) = results(model, [job])
    weights = maps[AttentionKind.CROSS][0, 0]
    np.testing.assert_allclose(found, weights, atol=tolerance)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-4)
