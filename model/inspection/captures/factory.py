"""Makes the capture of each query of a job, and captures traces, states and probabilities.

For probabilities, the vocabulary is read part by part, because the logits of all candidates may
need too much memory. Each part updates the sum of the exponentials, the entropy, the likeliest
tokens and the ranks.

Shapes: T is the number of target tokens, and U the number of candidates in a part. At each
position, M tokens are compared with all candidates: the target token and M - 1 named tokens.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.architectures.embedding import TokenParts
from model.inspection.captures.capture import (
    AttentionSite,
    Capture,
    DecoderOutput,
    ProjectedHeads,
    Slices,
    float_weight,
)
from model.inspection.captures.maps import MapsCapture
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    ProbabilityQuery,
    Query,
    StatesQuery,
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

NEVER = float("-inf")


def new_captures(job: AttentionJob, device: torch.device, slice_rows: int) -> list[Capture]:
    """Returns a capture for each query of a job; a slice computes `slice_rows` rows of a map."""
    lengths = len(job.source), len(job.target)
    return [_new_capture(query, lengths, device, slice_rows) for query in job.queries]


def _new_capture(
    query: Query, lengths: tuple[int, int], device: torch.device, slice_rows: int
) -> Capture:
    if isinstance(query, TraceQuery):
        return TraceCapture(query)
    if isinstance(query, StatesQuery):
        return StatesCapture(query)
    if isinstance(query, ProbabilityQuery):
        return ProbabilityCapture(query)
    maps = {kind: torch.zeros(query.shape(kind, *lengths), device=device) for kind in query.kinds}
    return MapsCapture(query, maps, slice_rows)


class TraceCapture(Capture):
    """Captures the inputs of one token's attention, in all heads of a layer.

    The inputs are the queries of the token, the attended keys and values, and the weight and bias
    of the output projection. In some text encoders, a bias of the scores is also an input.
    """

    def __init__(self, query: TraceQuery) -> None:
        self.query = query
        self.tensors: list[Tensor] = []

    def layers(self, kind: AttentionKind) -> Collection[int]:
        return (self.query.layer,) if kind is self.query.kind else ()

    def observe(self, site: AttentionSite, projected: ProjectedHeads) -> Slices[None]:
        """Captures the inputs; in the decoder, only keys and values of the token and before it."""
        token = self.query.query
        end = token + 1 if site.kind is AttentionKind.DECODER else projected.key.shape[1]
        attended = [projected.key[:, :end], projected.value[:, :end]]
        out = projected.module.out
        weight = float_weight(out)
        bias = weight.new_zeros(len(weight)) if out.bias is None else out.bias
        self.tensors = [projected.query[:, token], *attended, weight, bias]
        if projected.bias is not None and projected.bias.dim() == 3:
            self.tensors.append(projected.bias[:, token])
        yield from ()  # nothing to yield: the work is a single slice

    def result(self) -> AttentionTrace:
        query, key, value, *others = map(on_host, self.tensors)
        return trace_attention(query, key, value, self.query.head, *others)


class StatesCapture(Capture):
    """Captures the vectors (D) of one token in one layer, by the names of `TokenStates`."""

    needs_embedding = True

    def __init__(self, query: StatesQuery) -> None:
        self.query = query
        self.vectors: dict[str, Tensor | None] = {}

    def layers(self, kind: AttentionKind) -> Collection[int]:
        return (self.query.layer,) if kind is self.query.kind else ()

    def observe_embedding(self, kind: AttentionKind, parts: TokenParts) -> None:
        in_encoder = self.query.kind is AttentionKind.ENCODER
        if in_encoder is (kind is AttentionKind.ENCODER):
            at, position = (0, self.query.query), parts.position
            self.vectors |= {
                "token": parts.token[at],
                "position": None if position is None else position[at],
                "embedded": parts.embedded[at],
            }

    def observe(self, site: AttentionSite, projected: ProjectedHeads) -> Slices[None]:
        """Captures the token's vectors, and computes the rest of the layer for this token."""
        row = slice(self.query.query, self.query.query + 1)
        bias = None if projected.bias is None else projected.bias[..., row, :]
        weights = attention_weights(projected.query[:, row], projected.key, bias)  # (H, 1, S)
        output = projected.module.merge((weights @ projected.value)[None])[0]  # (1, D)
        stream, rest = projected.stream[row], projected.rest
        attended = rest.add(stream, output)
        self.vectors |= {
            "input": stream[0].clone(),  # the batch may overwrite the stream
            "attention": output[0],
            "attended": attended[0],
            "feed_forward": None if rest.feed_forward is None else rest.feed_forward(attended)[0],
            "output": rest.finish(attended)[0],
        }
        yield from ()  # nothing to yield: the work is a single slice

    def result(self) -> TokenStates:
        found: dict[str, Any] = {
            name: None if vector is None else on_host(vector)
            for name, vector in self.vectors.items()
        }
        return TokenStates(**found)


def on_host(tensor: Tensor) -> Array:
    array: Array = tensor.float().cpu().numpy()
    return array


class ProbabilityCapture(Capture):
    """Captures the answer to one query for probabilities."""

    needs_output = True

    def __init__(self, query: ProbabilityQuery) -> None:
        self.query = query
        self.distribution: Distribution | None = None
        self.candidates = np.empty(0, np.int64)
        self.target: list[int] = []

    def observe_output(self, output: DecoderOutput) -> Slices[None]:
        """Computes the logits of all candidates, part by part."""
        device, (length, width) = output.hidden.device, output.hidden.shape
        self.target, self.candidates = output.target, output.candidates
        compared = torch.tensor(
            [[token, *self.query.named] for token in output.target], device=device
        )  # (T, M)
        distribution = self.distribution = Distribution(
            self._logits_at(output, compared), compared, self.query.top
        )
        size = max(1, min(PART_PRODUCTS // width, PART_LOGITS) // length)
        for first in range(0, len(self.candidates), size):
            yield
            ids = torch.from_numpy(self.candidates[first : first + size]).to(device)
            logits = output.logits(output.hidden, ids)
            self._force_first(logits, ids[None])
            distribution.add(logits, ids)
        yield

    def _logits_at(self, output: DecoderOutput, compared: Tensor) -> Tensor:
        ids, columns = torch.unique(compared, return_inverse=True)
        logits = output.logits(output.hidden, ids).gather(1, columns)
        self._force_first(logits, compared[:1])
        return logits

    def _force_first(self, logits: Tensor, ids: Tensor) -> None:
        """Gives the probability 1 to the first token of the target, if the query forces it."""
        if self.query.first_id is not None:
            logits[:1].masked_fill_(ids != self.query.first_id, NEVER)

    def result(self) -> TokenProbabilities:
        assert self.distribution is not None
        found = self.distribution
        log_probs, ranks = found.compared_log_probs.cpu().numpy(), found.ranks.cpu().numpy()
        ids, likeliest = found.likeliest()
        return TokenProbabilities(
            log_probs=log_probs[:, 0],
            ranks=ranks[:, 0],
            entropies=found.entropies.cpu().numpy(),
            likeliest=ids.cpu().numpy(),
            likeliest_log_probs=likeliest.cpu().numpy(),
            named_log_probs=log_probs[:, 1:],
            named_ranks=ranks[:, 1:],
            is_candidate=np.isin(self.target, self.candidates),
            is_named_candidate=np.isin(self.query.named, self.candidates),
            num_candidates=len(self.candidates),
        )


class Distribution:
    """The distribution over all candidates at each position, computed part by part.

    Logits (T, M) and ids of some tokens are compared with it; the `top` likeliest are kept.
    """

    def __init__(self, compared: Tensor, compared_ids: Tensor, top: int) -> None:
        self.compared = compared
        self.compared_ids = compared_ids
        self.top = top
        self.ranks = torch.ones_like(compared_ids)
        positions = compared[:, 0].double()
        self.largest = torch.full_like(positions, NEVER)
        self.total = torch.zeros_like(positions)  # sum of e = exp(logit - largest logit)
        self.weighted = torch.zeros_like(positions)  # sum of e · (logit - largest logit)
        self.top_logits = compared.new_empty(len(compared), 0)
        self.top_ids = compared_ids[:, :0]

    def add(self, logits: Tensor, ids: Tensor) -> None:
        """Adds the logits (T, U) of the ids (U) of some candidates; -inf excludes a candidate."""
        largest = torch.maximum(self.largest, logits.amax(dim=1).double())
        # All logits so far may be -inf, and the difference of two infinities is not a number.
        reference = largest.clamp_min(torch.finfo(torch.float32).min)
        shift = (self.largest - reference).clamp_min(torch.finfo(torch.float32).min)
        factor = shift.exp()
        self.weighted = factor * (self.weighted + shift * self.total)
        self.total = factor * self.total
        distances = (logits - reference[:, None].float()).clamp_min(torch.finfo(torch.float32).min)
        exponentials = distances.exp()
        self.total += exponentials.sum(dim=1).double()
        self.weighted += (exponentials * distances).sum(dim=1).double()
        self.largest = largest
        self._rank(logits, ids)
        self._keep_largest(logits, ids)

    def _rank(self, logits: Tensor, ids: Tensor) -> None:
        for column in range(self.compared.shape[1]):
            is_other = ids != self.compared_ids[:, column : column + 1]  # (T, U)
            is_larger = logits > self.compared[:, column : column + 1]
            self.ranks[:, column] += (is_larger & is_other).sum(dim=1)

    def _keep_largest(self, logits: Tensor, ids: Tensor) -> None:
        every = torch.cat([self.top_logits, logits], dim=1)
        every_id = torch.cat([self.top_ids, ids.expand(len(logits), -1)], dim=1)
        self.top_logits, columns = every.topk(min(self.top, every.shape[1]), dim=1)
        self.top_ids = every_id.gather(1, columns)

    @property
    def log_total(self) -> Tensor:
        return self.largest + self.total.log()

    @property
    def compared_log_probs(self) -> Tensor:
        return (self.compared.double() - self.log_total[:, None]).float()

    @property
    def entropies(self) -> Tensor:
        return (self.total.log() - self.weighted / self.total).clamp_min(0.0).float()

    def likeliest(self) -> tuple[Tensor, Tensor]:
        log_probs = (self.top_logits.double() - self.log_total[:, None]).float()
        return self.top_ids.masked_fill(log_probs == NEVER, -1), log_probs
