"""Runs teacher-forced passes over given translations in slices, and captures attention.

A slice is about half a layer of a batch; between two slices a worker can translate. The
sentences of a batch are packed: concatenated without padding. The tokens of a sentence attend only
to each other, so its result does not depend on the rest of the batch. In int8 all products with
weights are exact, so the result has the same bits in every batch. Only the cells of an SSRU are
padded. This costs little, because cells need no matrix products.

Attention in the forward pass does not return its weights. The weights of the queried layers and
heads are computed separately, from the same queries and keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.architectures.decoder import DecoderLayer
from model.architectures.embedding import Embedding
from model.architectures.encoder import EncoderLayer
from model.architectures.seq2seq import EncoderDecoder
from model.backends.cuda.staging import upload
from model.inspection.capture import (
    AttentionSite,
    Capture,
    ProjectedHeads,
    Result,
    Slices,
    new_captures,
)
from model.inspection.query import AttentionJob, AttentionKind, check_job
from model.layers.attention import MultiHeadAttention, attention, mask_bias
from model.layers.residual import Residual
from model.layers.ssru import SSRU

SLICE_TOKENS = 128
"""Default for the approximate number of tokens in a slice."""


@dataclass(frozen=True, slots=True)
class CapturedJob:
    """A job, and a capture for each of its queries."""

    job: AttentionJob
    captures: list[Capture]

    def layers(self, kind: AttentionKind) -> set[int]:
        """Returns the layers whose attention of this kind the captures need."""
        return {layer for capture in self.captures for layer in capture.layers(kind)}


class CapturePass(ABC):
    """Answers the attention queries of some jobs; each call of `advance` computes one slice.

    Args:
        jobs: Valid jobs, whose queries name layers and heads that the model has.
        device: Device of the captured tensors.
        slice_tokens: Approximate number of tokens in a slice.
    """

    def __init__(
        self, jobs: Iterable[AttentionJob], device: torch.device, slice_tokens: int
    ) -> None:
        self.slice_tokens = slice_tokens
        self.captured = [CapturedJob(job, new_captures(job, device, slice_tokens)) for job in jobs]
        self.slices = self._run()
        self.is_done = False

    def _run(self) -> Slices[None]:
        yield from self.compute()
        self.is_done = True

    @abstractmethod
    def compute(self) -> Slices[None]:
        """Runs the model as far as needed, and presents its attention to the captures."""

    @torch.inference_mode()
    def advance(self) -> bool:
        """Computes the next slice; returns False if no slice is left."""
        for _ in self.slices:
            return True
        return False

    @torch.inference_mode()
    def results(self) -> list[list[Result]]:
        """Returns the result of each query of each job; call it after the last slice.

        On a GPU, it waits for the computation.
        """
        assert self.is_done
        return [[capture.result() for capture in each.captures] for each in self.captured]


class TeacherForcedPass(CapturePass):
    """Answers attention queries about some sentences and their translations.

    Args:
        model: Model on its device, in any precision.
        jobs: Sentences and translations, whose queries name layers and heads that the model has.
        slice_tokens: Approximate number of tokens in a slice.

    Raises:
        InputError: A job cannot be computed.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        jobs: Sequence[AttentionJob],
        slice_tokens: int = SLICE_TOKENS,
    ) -> None:
        self.model = model
        for job in jobs:
            check_job(model.config, job)
        super().__init__(jobs, model.device, slice_tokens)

    def compute(self) -> Slices[None]:
        """Computes batch after batch; jobs without decoder queries are in separate batches."""
        for needs_target in (True, False):
            chosen = [each for each in self.captured if each.job.needs_target is needs_target]
            for batch in batches(chosen, self.slice_tokens):
                yield from TeacherForcedBatch(self.model, batch, self.slice_tokens).run()


def batches(captured: Iterable[CapturedJob], max_tokens: int) -> Iterator[list[CapturedJob]]:
    """Yields batches of at most `max_tokens` source tokens and at most `max_tokens` target tokens.

    A job with more tokens is a batch by itself.
    """
    batch: list[CapturedJob] = []
    sources = targets = 0
    for each in captured:
        sources, targets = sources + len(each.job.source), targets + len(each.job.target)
        if batch and max(sources, targets) > max_tokens:
            yield batch
            batch, sources, targets = [], len(each.job.source), len(each.job.target)
        batch.append(each)
    if batch:
        yield batch


class TeacherForcedBatch:
    """Runs packed sentences and translations from the first layer to the last queried one.

    In the shapes of this class, N is the number of tokens of all sentences. B is the number of
    sentences in the padded cells of an SSRU, and 1 elsewhere.

    Args:
        model: The model.
        captured: Jobs and their captures.
        slice_tokens: Approximate number of tokens in a slice.
    """

    def __init__(
        self, model: EncoderDecoder, captured: list[CapturedJob], slice_tokens: int
    ) -> None:
        self.model = model
        self.captured = captured
        self.slice_tokens = slice_tokens
        sources = [len(each.job.source) for each in captured]
        targets = [len(each.job.target) for each in captured]
        self.targets = targets
        self.lengths = {
            AttentionKind.ENCODER: (sources, sources),
            AttentionKind.DECODER: (targets, targets),
            AttentionKind.CROSS: (targets, sources),
        }
        self.last = {kind: self._last(kind) for kind in AttentionKind}
        self.last_decoder = max(self.last[AttentionKind.DECODER], self.last[AttentionKind.CROSS])

    def _last(self, kind: AttentionKind) -> int:
        """Returns the last queried layer of this kind; -1 if there is none."""
        return max(max(each.layers(kind), default=-1) for each in self.captured)

    def run(self) -> Slices[None]:
        """Runs encoder and decoder as far as the queries need them."""
        memory = yield from self.encode()
        if self.last_decoder >= 0:
            yield from self.decode(memory)

    def encode(self) -> Slices[Tensor]:
        """Returns the memory (1, N, D).

        If all queries are about the encoder, the pass stops at the last queried layer, and the
        returned memory is incomplete. Without any queries, it is complete.
        """
        encoder, is_whole = self.model.encoder, self.last_decoder >= 0
        x = self._embed(encoder.embedding, [each.job.source for each in self.captured])
        layers = cast("list[EncoderLayer]", list(encoder.layers))
        for number, layer in enumerate(layers):
            site = AttentionSite(AttentionKind.ENCODER, number)
            module = layer.self_attention
            residual, project = layer.self_residual, module.project_key_value
            x = yield from self._self_attention(site, module, residual, project, x)
            if number == self.last[AttentionKind.ENCODER] and not is_whole:
                break
            x = yield from self._feed_forward(layer, x)
        memory: Tensor = encoder.norm(x)
        return memory

    def decode(self, memory: Tensor) -> Slices[None]:
        """Runs the decoder over the targets, shifted right by one; `memory` is (1, N, D)."""
        decoder = self.model.decoder
        x = self._embed(decoder.embedding, [self._inputs(each.job) for each in self.captured])
        layers = cast("list[DecoderLayer]", list(decoder.layers))
        for number, layer in enumerate(layers):
            x = yield from self._mix_tokens(number, layer, x)
            if number == self.last_decoder > self.last[AttentionKind.CROSS]:
                return
            query = layer.cross_attention.project_query(layer.cross_residual.before(x))
            key, value = decoder.project_layer_cross_kv(layer, memory)
            site = AttentionSite(AttentionKind.CROSS, number)
            y = yield from self._attend(site, layer.cross_attention, query, key, value)
            x = layer.cross_residual.after(x, y)
            if number == self.last_decoder:
                return
            x = yield from self._feed_forward(layer, x)

    def _inputs(self, job: AttentionJob) -> list[int]:
        inputs: list[int] = self.model.decoder_inputs(torch.tensor([job.target]))[0].tolist()
        return inputs

    def _embed(self, embedding: Embedding, sequences: list[list[int]]) -> Tensor:
        """Returns embeddings (1, N, D) of sequences whose positions each start at 0."""
        tokens = [token for sequence in sequences for token in sequence]
        positions = [index for sequence in sequences for index in range(len(sequence))]
        inputs = (upload(each, self.model.device)[None] for each in (tokens, positions))
        embedded: Tensor = embedding(*inputs, max(map(len, sequences)) - 1)
        return embedded

    def _self_attention(
        self,
        site: AttentionSite,
        module: MultiHeadAttention,
        residual: Residual,
        project: Callable[[Tensor], tuple[Tensor, Tensor]],
        x: Tensor,
    ) -> Slices[Tensor]:
        inner = residual.before(x)
        query = module.project_query(inner)
        key, value = project(residual.key_value_input(x, inner))
        y = yield from self._attend(site, module, query, key, value)
        return residual.after(x, y)

    def _attend(
        self,
        site: AttentionSite,
        module: MultiHeadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
    ) -> Slices[Tensor]:
        """Returns the output (1, N, D) of an attention block.

        Each sentence is computed separately. Query, key and value are (1, H, N, K).
        """
        rows, columns = self.lengths[site.kind]
        sizes = zip((query, key, value), (rows, columns, columns), strict=True)
        parts = [torch.split(heads, lengths, dim=2) for heads, lengths in sizes]
        attended: list[Tensor] = []
        for captured, q, k, v in zip(self.captured, *parts, strict=True):
            bias = causal_bias(q) if site.kind is AttentionKind.DECODER else None
            attended += yield from self._attend_within(q, k, v, bias)
            projected = ProjectedHeads(q[0], k[0], v[0], bias, module)
            for capture in captured.captures:
                if site.layer in capture.layers(site.kind):
                    yield from capture.observe(site, projected)
        yield
        return module.merge(torch.cat(attended, dim=2))

    def _attend_within(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
    ) -> Slices[list[Tensor]]:
        """Returns the weighted values (1, H, T, K) of one sentence; a long one in several parts."""
        attended = []
        for first in range(0, query.shape[2], self.slice_tokens):
            if first:
                yield
            rows = slice(first, first + self.slice_tokens)
            chosen = None if bias is None else bias[rows]
            attended.append(attention(query[:, :, rows], key, value, chosen)[0])
        return attended

    def _mix_tokens(self, number: int, layer: DecoderLayer, x: Tensor) -> Slices[Tensor]:
        residual, token_mixer = layer.token_mixer_residual, layer.token_mixer
        if isinstance(token_mixer, SSRU):
            y = yield from self._run_cells(token_mixer, residual.before(x))
            return residual.after(x, y)
        site = AttentionSite(AttentionKind.DECODER, number)
        project = partial(layer.project_key_value, token_mixer)
        return (yield from self._self_attention(site, token_mixer, residual, project, x))

    def _run_cells(self, ssru: SSRU, x: Tensor) -> Slices[Tensor]:
        """Runs an SSRU over (1, N, D), position by position, all sentences at once."""
        split = [list(torch.split(gate[0], self.targets)) for gate in ssru.gates(x)]
        gates = [pad_sequence(rows, batch_first=True) for rows in split]
        parts = [torch.split(gate, self.slice_tokens, dim=1) for gate in gates]  # (B, T, D) each
        cell = torch.zeros_like(gates[0][:, 0])
        outputs = []
        for forget, update in zip(*parts, strict=True):
            outputs.append(ssru.recur(forget, update, cell))
            yield
        whole = torch.cat(outputs, dim=1)  # (B, T, D)
        lengths = enumerate(self.targets)
        return torch.cat([whole[row : row + 1, :length] for row, length in lengths], dim=1)

    def _feed_forward(self, layer: EncoderLayer | DecoderLayer, x: Tensor) -> Slices[Tensor]:
        residual = layer.feed_forward_residual
        parts = []
        for part in torch.split(x, self.slice_tokens, dim=1):
            parts.append(residual.after(part, layer.feed_forward(residual.before(part))))
            yield
        return torch.cat(parts, dim=1)


def causal_bias(query: Tensor) -> Tensor:
    """Returns the mask (T, T) of queries (..., T, K): 0 for keys up to the query, else -inf."""
    length = query.shape[-2]
    past = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    return mask_bias(past, query.dtype)
