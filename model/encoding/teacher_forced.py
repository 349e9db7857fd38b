"""A pass over given translations that shows its attention, computed in slices.

A slice is about half a layer of a batch: between two of them a worker goes on translating.
Sentences of a batch lie side by side, without padding, and attend within themselves: what a
sentence gets does not depend on the others, and in int8, whose products are exact, that holds to
the bit. Only the cells of an SSRU, which cost no products, are padded.

Hidden states come from the fused kernel throughout. Weights are computed beside it, of the layers
and heads that are asked for, from the same queries and keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.architectures.decoder import DecoderLayer
from model.architectures.embedding import Embedding
from model.architectures.encoder import EncoderLayer
from model.architectures.seq2seq import EncoderDecoder
from model.backends.cuda.staging import upload
from model.inspection.capture import Place, Projected, Recorder, Result, Slices, new_recorders
from model.inspection.query import AttentionJob, AttentionKind, check_job
from model.layers.attention import MultiHeadAttention, attention, mask_bias
from model.layers.residual import Residual
from model.layers.ssru import SSRU

SLICE_TOKENS = 128
"""About how many tokens a slice works on, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A job, and what keeps the answers."""

    job: AttentionJob
    recorders: list[Recorder]

    def layers(self, kind: AttentionKind) -> set[int]:
        """Which layers are asked about."""
        return {layer for recorder in self.recorders for layer in recorder.layers(kind)}


class RecordedPass(ABC):
    """Answers what is asked about some jobs, one slice a call.

    Args:
        jobs: With queries, resolved; they can be computed.
        device: Where to keep the answers.
        slice_tokens: About how many tokens a slice works on.
    """

    def __init__(
        self, jobs: Iterable[AttentionJob], device: torch.device, slice_tokens: int
    ) -> None:
        self.slice_tokens = slice_tokens
        self.recorded = [Recorded(job, new_recorders(job, device, slice_tokens)) for job in jobs]
        self.slices = self._run()
        self.is_done = False

    def _run(self) -> Slices[None]:
        yield from self.compute()
        self.is_done = True

    @abstractmethod
    def compute(self) -> Slices[None]:
        """Goes through the model, and has all that is asked about recorded."""

    @torch.inference_mode()
    def advance(self) -> bool:
        """Computes the next slice; False once all are computed."""
        for _ in self.slices:
            return True
        return False

    @torch.inference_mode()
    def results(self) -> list[list[Result]]:
        """What each query of each job asked for, once all is computed; waits for a GPU."""
        assert self.is_done
        return [[recorder.result() for recorder in each.recorders] for each in self.recorded]


class AttentionPass(RecordedPass):
    """Answers what is asked about some sentences and their translations.

    Args:
        model: On its device, in any precision.
        jobs: Sentences, translations and queries, resolved.
        slice_tokens: About how many tokens a slice works on.

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
        """Batch after batch."""
        for needs_target in (True, False):  # those who need no decoder by themselves
            chosen = [each for each in self.recorded if each.job.needs_target is needs_target]
            for batch in batches(chosen, self.slice_tokens):
                yield from ForcedBatch(self.model, batch, self.slice_tokens).run()


def batches(recorded: Iterable[Recorded], max_tokens: int) -> Iterator[list[Recorded]]:
    """Cuts into batches of at most so many tokens on each side, or of one job."""
    batch: list[Recorded] = []
    sources = targets = 0
    for each in recorded:
        sources, targets = sources + len(each.job.source), targets + len(each.job.target)
        if batch and max(sources, targets) > max_tokens:
            yield batch
            batch, sources, targets = [], len(each.job.source), len(each.job.target)
        batch.append(each)
    if batch:
        yield batch


class ForcedBatch:
    """Some sentences side by side, from the first layer up to the last that is asked about.

    N, in the shapes here, is the tokens of all of them; B is 1.

    Args:
        model: The model.
        recorded: Jobs, and what keeps the answers.
        slice_tokens: About how many tokens a slice works on.
    """

    def __init__(self, model: EncoderDecoder, recorded: list[Recorded], slice_tokens: int) -> None:
        self.model = model
        self.recorded = recorded
        self.slice_tokens = slice_tokens
        sources = [len(each.job.source) for each in recorded]
        targets = [len(each.job.target) for each in recorded]
        self.targets = targets
        self.lengths = {
            AttentionKind.ENCODER: (sources, sources),
            AttentionKind.DECODER: (targets, targets),
            AttentionKind.CROSS: (targets, sources),
        }
        self.last = {kind: self._last(kind) for kind in AttentionKind}
        self.last_decoder = max(self.last[AttentionKind.DECODER], self.last[AttentionKind.CROSS])

    def _last(self, kind: AttentionKind) -> int:
        """The last layer that is asked about; -1 where none is."""
        return max(max(each.layers(kind), default=-1) for each in self.recorded)

    def run(self) -> Slices[None]:
        """Encoder and decoder, as far as they are asked about."""
        memory = yield from self.encode()
        if self.last_decoder >= 0:
            yield from self.decode(memory)

    def encode(self) -> Slices[Tensor]:
        """The memory (1, N, D), which is whole only where the decoder is asked about."""
        encoder, is_whole = self.model.encoder, self.last_decoder >= 0
        x = self._embed(encoder.embedding, [each.job.source for each in self.recorded])
        layers = cast("list[EncoderLayer]", list(encoder.layers))
        for number, layer in enumerate(layers):
            place = Place(AttentionKind.ENCODER, number)
            x = yield from self._self_attention(place, layer.self_attention, layer.self_residual, x)
            if number == self.last[AttentionKind.ENCODER] and not is_whole:
                break
            x = yield from self._feed_forward(layer, x)
        memory: Tensor = encoder.norm(x)
        return memory

    def decode(self, memory: Tensor) -> Slices[None]:
        """Reads the targets, each one place late, and memory (1, N, D)."""
        decoder = self.model.decoder
        x = self._embed(decoder.embedding, [self._inputs(each.job) for each in self.recorded])
        layers = cast("list[DecoderLayer]", list(decoder.layers))
        for number, layer in enumerate(layers):
            x = yield from self._recur(number, layer, x)
            if number == self.last_decoder > self.last[AttentionKind.CROSS]:
                return
            query = layer.cross_attention.project_query(layer.cross_residual.before(x))
            key, value = decoder.project_layer_memory(layer, memory)
            place = Place(AttentionKind.CROSS, number)
            y = yield from self._attend(place, layer.cross_attention, query, key, value)
            x = layer.cross_residual.after(x, y)
            if number == self.last_decoder:
                return
            x = yield from self._feed_forward(layer, x)

    def _inputs(self, job: AttentionJob) -> list[int]:
        inputs: list[int] = self.model.decoder_inputs(torch.tensor([job.target]))[0].tolist()
        return inputs

    def _embed(self, embedding: Embedding, sequences: list[list[int]]) -> Tensor:
        """(1, N, D) of tokens that each begin at position 0."""
        tokens = [token for sequence in sequences for token in sequence]
        positions = [place for sequence in sequences for place in range(len(sequence))]
        ids, places = (upload(each, self.model.device)[None] for each in (tokens, positions))
        embedded: Tensor = embedding(ids, places, max(map(len, sequences)) - 1)
        return embedded

    def _self_attention(
        self, place: Place, module: MultiHeadAttention, residual: Residual, x: Tensor
    ) -> Slices[Tensor]:
        inner = residual.before(x)
        query = module.project_query(inner)
        key, value = module.project_memory(residual.attended(x, inner))
        y = yield from self._attend(place, module, query, key, value)
        return residual.after(x, y)

    def _attend(
        self, place: Place, module: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor
    ) -> Slices[Tensor]:
        """(1, N, D) from heads (1, H, N, K); each sentence attends within itself."""
        rows, columns = self.lengths[place.kind]
        sizes = zip((query, key, value), (rows, columns, columns), strict=True)
        parts = [torch.split(heads, lengths, dim=2) for heads, lengths in sizes]
        attended: list[Tensor] = []
        for recorded, q, k, v in zip(self.recorded, *parts, strict=True):
            bias = causal_bias(q) if place.kind is AttentionKind.DECODER else None
            attended += yield from self._attend_within(q, k, v, bias)
            projected = Projected(q[0], k[0], v[0], bias, module)
            for recorder in recorded.recorders:
                if place.layer in recorder.layers(place.kind):
                    yield from recorder.record(place, projected)
        yield
        return module.merge(torch.cat(attended, dim=2))

    def _attend_within(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
    ) -> Slices[list[Tensor]]:
        """Parts of (1, H, T, K) of one sentence; a long one's rows are attended in several."""
        attended = []
        for first in range(0, query.shape[2], self.slice_tokens):
            if first:
                yield
            rows = slice(first, first + self.slice_tokens)
            chosen = None if bias is None else bias[rows]
            attended.append(attention(query[:, :, rows], key, value, chosen)[0])
        return attended

    def _recur(self, number: int, layer: DecoderLayer, x: Tensor) -> Slices[Tensor]:
        residual, recurrence = layer.recurrence_residual, layer.recurrence
        if isinstance(recurrence, SSRU):
            y = yield from self._run_cells(recurrence, residual.before(x))
            return residual.after(x, y)
        place = Place(AttentionKind.DECODER, number)
        return (yield from self._self_attention(place, recurrence, residual, x))

    def _run_cells(self, recurrence: SSRU, x: Tensor) -> Slices[Tensor]:
        """Over (1, N, D): position by position as in decoding, through all sentences at once."""
        split = [list(torch.split(gate[0], self.targets)) for gate in recurrence.gates(x)]
        gates = [pad_sequence(rows, batch_first=True) for rows in split]
        parts = [torch.split(gate, self.slice_tokens, dim=1) for gate in gates]  # (B, T, D) each
        cell = torch.zeros_like(gates[0][:, 0])
        outputs = []
        for forget, update in zip(*parts, strict=True):
            outputs.append(recurrence.recur(forget, update, cell))
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
    """(T, T) for queries (..., T, K): 0 up to each place and -inf after it."""
    length = query.shape[-2]
    past = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    return mask_bias(past, query.dtype)
