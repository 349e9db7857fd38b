"""Makes the capture of each query of a job, and captures traces and probabilities.

Shapes: T is the number of target tokens, U the number of candidates, and R the number of positions
in a part. At each position, M tokens are compared with all candidates: the target token and M - 1
named tokens.
"""

from collections.abc import Collection
from dataclasses import replace
from itertools import count

import numpy as np
import torch
from torch import Tensor

from model.architectures.embedding import TokenParts
from model.inspection.captures.capture import (
    Capture,
    DecoderOutput,
    ProjectedHeads,
    Slices,
)
from model.inspection.captures.maps import MapsCapture
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    ProbabilityQuery,
    Query,
    ScoreQuery,
    TraceQuery,
)
from model.inspection.results import (
    Array,
    AttentionTrace,
    TokenProbabilities,
    TokenStates,
    trace_attention,
)
from model.layers.attention import attention_weights

PART_PRODUCTS = 1 << 26
"""Largest number of multiplications in a part."""

PART_LOGITS = 1 << 16
"""Largest number of logits in a part. A CPU computes a part in at most about a millisecond."""

HELD_LOGITS = 1 << 24
"""Largest number of logits that are in memory at a time."""

NEVER = float("-inf")


def new_captures(job: AttentionJob, device: torch.device, slice_rows: int) -> list[Capture]:
    lengths = len(job.source), len(job.target)

    def capture(query: Query) -> Capture:
        if isinstance(query, TraceQuery):
            return TraceCapture(query)
        if isinstance(query, ProbabilityQuery):
            return ProbabilityCapture(query)
        if isinstance(query, ScoreQuery):
            return ScoreCapture()
        maps = {
            kind: torch.zeros(query.shape(kind, *lengths), device=device) for kind in query.kinds
        }
        return MapsCapture(query, maps, slice_rows)

    return [capture(query) for query in job.queries]


class TraceCapture(Capture):
    """Captures the inputs of one token's attention, in all heads of a layer.

    If the query `has_states`, it also captures the token's vectors (D), by the names of
    `TokenStates`.
    """

    def __init__(self, query: TraceQuery) -> None:
        self.query = query
        self.needs_embedding = query.has_states
        self.tensors: list[Tensor] = []
        self.vectors: dict[str, Tensor | None] = {}

    def layers(self, kind: AttentionKind) -> Collection[int]:
        return (self.query.layer,) if kind is self.query.kind else ()

    def observe(self, projected: ProjectedHeads) -> Slices[None]:
        token = self.query.query
        end = token + 1 if projected.kind is AttentionKind.DECODER else projected.key.shape[1]
        attended = [projected.key[:, :end], projected.value[:, :end]]
        out = projected.module.out
        weight = out.weight
        bias = weight.new_zeros(len(weight)) if out.bias is None else out.bias
        self.tensors = [projected.query[:, token], *attended, weight, bias]
        if projected.bias is not None and projected.bias.dim() == 3:
            self.tensors.append(projected.bias[:, token, :end])
        if self.query.has_states:
            self._observe_states(projected)
        yield from ()  # nothing to yield: the work is a single slice

    def observe_embedding(self, kind: AttentionKind, parts: TokenParts) -> None:
        in_encoder = self.query.kind is AttentionKind.ENCODER
        if in_encoder is (kind is AttentionKind.ENCODER):
            at, position = (0, self.query.query), parts.position
            self.vectors |= {
                "token": parts.token[at],
                "position": None if position is None else position[at],
                "embedded": parts.embedded[at],
            }

    def _observe_states(self, projected: ProjectedHeads) -> None:
        row = slice(self.query.query, self.query.query + 1)
        bias = None if projected.bias is None else projected.bias[..., row, :]
        weights = attention_weights(projected.query[:, row], projected.key, bias)  # (H, 1, S)
        output = projected.module.merge((weights @ projected.value)[None])[0]  # (1, D)
        stream, rest = projected.stream[row], projected.rest
        attended = rest.residual.after(stream, output)
        self.vectors |= {
            "input": stream[0].clone(),  # the batch may overwrite the stream
            "attention": output[0],
            "attended": attended[0],
            "feed_forward": None if rest.feed_forward is None else rest.feed_forward(attended)[0],
            "output": rest.finish(attended)[0],
        }

    def result(self) -> AttentionTrace:
        query, key, value, *others = map(on_host, self.tensors)
        trace = trace_attention(query, key, value, self.query.head, *others)
        if not self.query.has_states:
            return trace
        vectors = {n: None if x is None else on_host(x) for n, x in self.vectors.items()}
        return replace(trace, states=TokenStates(**vectors))  # type: ignore[arg-type]


def on_host(tensor: Tensor) -> Array:
    array: Array = tensor.float().cpu().numpy()
    return array


class ScoreCapture(Capture):
    score: float

    def result(self) -> float:
        return self.score


class ProbabilityCapture(Capture):
    needs_output = True

    def __init__(self, query: ProbabilityQuery) -> None:
        self.query = query
        self.candidates = np.empty(0, np.int64)
        self.target: list[int] = []
        self.parts: list[tuple[Tensor, ...]] = []  # results of `distribution`

    def observe_output(self, output: DecoderOutput) -> Slices[None]:
        device = output.hidden.device
        self.target, self.candidates = output.target, output.candidates
        ids = torch.from_numpy(output.candidates).to(device)
        compared_ids = torch.tensor(
            [[token, *self.query.named] for token in output.target], device=device
        )  # (T, M)
        compared = self._logits_at(output, compared_ids)
        held, rows = (max(1, most // len(ids)) for most in (HELD_LOGITS, PART_LOGITS))
        for first in range(0, len(compared), held):
            logits = yield from self._logits(output, slice(first, first + held), ids)
            for part, start in zip(torch.split(logits, rows), count(first, rows), strict=False):
                yield
                chosen = slice(start, start + len(part))
                self.parts.append(
                    distribution(part, ids, compared[chosen], compared_ids[chosen], self.query.top)
                )
        yield

    def _logits(self, output: DecoderOutput, rows: slice, ids: Tensor) -> Slices[Tensor]:
        hidden = output.hidden[rows]
        logits = torch.empty(len(hidden), len(ids), device=hidden.device)
        size = max(1, min(PART_PRODUCTS // hidden.shape[1], PART_LOGITS) // len(hidden))
        for first in range(0, len(ids), size):
            yield
            part = slice(first, first + size)
            logits[:, part] = output.logits(hidden, ids[part])
        if not rows.start:
            self._force_first(logits, ids[None])
        return logits

    def _logits_at(self, output: DecoderOutput, compared: Tensor) -> Tensor:
        ids, columns = torch.unique(compared, return_inverse=True)
        logits = output.logits(output.hidden, ids).gather(1, columns)
        self._force_first(logits, compared[:1])
        return logits

    def _force_first(self, logits: Tensor, ids: Tensor) -> None:
        if self.query.first_id is not None:
            logits[:1].masked_fill_(ids != self.query.first_id, NEVER)

    def result(self) -> TokenProbabilities:
        joined = [torch.cat(each).cpu().numpy() for each in zip(*self.parts, strict=True)]
        log_probs, ranks, entropies, likeliest, likeliest_log_probs = joined
        return TokenProbabilities(
            log_probs=log_probs[:, 0],
            ranks=ranks[:, 0],
            entropies=entropies,
            likeliest=likeliest,
            likeliest_log_probs=likeliest_log_probs,
            named_log_probs=log_probs[:, 1:],
            named_ranks=ranks[:, 1:],
            is_candidate=np.isin(self.target, self.candidates),
            is_named_candidate=np.isin(self.query.named, self.candidates),
            num_candidates=len(self.candidates),
        )


def distribution(
    logits: Tensor, ids: Tensor, compared: Tensor, compared_ids: Tensor, top: int
) -> tuple[Tensor, ...]:
    """Computes the distribution over all candidates at R positions from logits (R, U) and (R, M).

    A logit of -inf excludes a candidate. The result has log-probabilities and ranks (R, M) of the
    compared tokens, entropies (R), and ids and log-probabilities (R, top) of the likeliest.
    """
    least = torch.finfo(torch.float32).min  # no difference of two infinities is a number
    largest = logits.amax(dim=1, keepdim=True).clamp_min(least)
    distances = (logits - largest).clamp_min(least)
    exponentials = distances.exp()
    total = exponentials.sum(dim=1, keepdim=True).double()
    weighted = (exponentials * distances).sum(dim=1, keepdim=True).double()
    entropies = (total.log() - weighted / total).clamp_min(0.0).float()
    log_total = largest.double() + total.log()
    is_larger = logits[:, None] > compared[:, :, None]  # (R, M, U)
    ranks = 1 + (is_larger & (ids != compared_ids[:, :, None])).sum(dim=2)
    best = logits.topk(min(top, len(ids)), dim=1)
    log_probs = (best.values.double() - log_total).float()
    likeliest = ids[best.indices].masked_fill(log_probs == NEVER, -1)
    return (compared.double() - log_total).float(), ranks, entropies[:, 0], likeliest, log_probs
