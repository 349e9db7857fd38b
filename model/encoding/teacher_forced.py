"""Runs teacher-forced passes over given translations in slices, and captures attention.

The targets of a batch are packed, which means concatenated. Only the cells of an SSRU are padded to
the longest target. This costs little, because cells need no matrix products. In int8, a product
with weights sums integers without rounding, so the result has the same bits in every batch.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.architectures.embedding import Embedding
from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import AnyShortlist, Ids
from model.backends.base import ForcedDecoder
from model.backends.encoder_batch import TOKEN_MULTIPLE, attend_without, packed_tokens
from model.encoding.capture_pass import (
    SLICE_TOKENS,
    CapturedJob,
    CapturePass,
    last_layer,
    run_encoder,
    show,
)
from model.encoding.sliced_pass import batches
from model.inspection.captures.capture import (
    AttentionSite,
    DecoderOutput,
    LayerRest,
    ProjectedHeads,
    Slices,
)
from model.inspection.query import AttentionJob, AttentionKind, SiteKnockout, check_job
from model.layers.attention import Heads, MultiHeadAttention, mask_bias
from model.layers.block import Block
from model.layers.positions import bias_rows
from model.layers.sublayers import SSRU


class TeacherForcedPass(CapturePass):
    """Answers attention queries about some sentences and their translations.

    `forced_decoder` computes the hidden states for queries about probabilities, except in jobs with
    a knock-out. None means that this pass computes these states together with the attention. If
    native code translates, only native code repeats the translation's hidden states exactly. This
    pass runs in PyTorch, and would round some values to other int8 values. Log-probabilities would
    then differ by up to 0.4. `shortlist` has the candidates for queries about probabilities.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        jobs: Sequence[AttentionJob],
        slice_tokens: int = SLICE_TOKENS,
        shortlist: AnyShortlist | None = None,
        forced_decoder: ForcedDecoder | None = None,
    ) -> None:
        self.model = model
        self.shortlist = shortlist
        self.forced_decoder = forced_decoder
        for job in jobs:
            check_job(model.config, job)
        super().__init__(jobs, model.device, slice_tokens)

    def compute(self) -> Slices[None]:
        """Jobs that need only the encoder are never in a batch with jobs that need the decoder."""
        for needs_target in (True, False):
            chosen = [each for each in self.captured if each.job.needs_target is needs_target]
            for batch in batches(chosen, lambda each: each.lengths, self.slice_tokens):
                yield from self._run(batch)

    def _run(self, batch: list[CapturedJob]) -> Slices[None]:
        scored = [each for each in batch if each.job.needs_output]
        apart = [each for each in scored if self._is_apart(each)]
        whole = TeacherForcedBatch(
            self.model, batch, self.slice_tokens, needs_output=len(scored) > len(apart)
        )
        hidden = yield from whole.run()
        for each, states in zip(batch, hidden, strict=False):  # `hidden` may be empty
            if each.job.needs_output and not self._is_apart(each):
                yield from self._show_output(each, states)
        if self.forced_decoder is None or not apart:
            return
        hidden = yield from self.forced_decoder(
            [each.job.source for each in apart], [each.job.target for each in apart]
        )
        for each, states in zip(apart, hidden, strict=True):
            yield from self._show_output(each, states)

    def _is_apart(self, captured: CapturedJob) -> bool:
        return self.forced_decoder is not None and captured.job.knockout is None

    def _show_output(self, captured: CapturedJob, hidden: Tensor) -> Slices[None]:
        job = captured.job
        logits = self.model.decoder.logits_of
        output = DecoderOutput(hidden, job.target, self._candidates(job.source), logits)
        for capture in captured.captures:
            if capture.needs_output:
                yield from capture.observe_output(output)

    def _candidates(self, source: list[int]) -> Ids:
        config = self.model.config
        if self.shortlist is None:
            ids = np.arange(config.target_vocab_size)
        else:
            ids = self.shortlist.ids(source)
        return ids[~np.isin(ids, config.forbidden_ids)]


class TeacherForcedBatch:
    """Runs packed sentences and translations from the first layer to the last queried layer.

    With `needs_output`, all layers of the decoder are run. N is the number of tokens of all
    sources, or of all targets, padding included, as in `PackedBatch`. Shapes begin with 1, but
    those of the padded cells of an SSRU with B.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        captured: list[CapturedJob],
        slice_tokens: int,
        needs_output: bool = False,
    ) -> None:
        self.model = model
        self.captured = captured
        self.slice_tokens = slice_tokens
        sources = [len(each.job.source) for each in captured]
        targets = [len(each.job.target) for each in captured]
        self.sources, self.targets = sources, targets
        self.num_inputs = sum(targets)
        self.padding = -self.num_inputs % TOKEN_MULTIPLE
        self.lengths = {
            AttentionKind.DECODER: (targets, targets),
            AttentionKind.CROSS: (targets, sources),
        }
        self.last = {kind: last_layer(captured, kind) for kind in AttentionKind}
        self.last_decoder = max(self.last[AttentionKind.DECODER], self.last[AttentionKind.CROSS])
        if needs_output:
            self.last_decoder = len(model.decoder.layers)  # no such layer, so all layers run

    def run(self) -> Slices[list[Tensor]]:
        """Runs encoder and decoder as far as the queries need them.

        Returns:
            The hidden states (T, D) from which the T tokens of each target are predicted. The list
            is empty without `needs_output`.
        """
        is_whole = self.last_decoder >= 0
        if not is_whole and self.last[AttentionKind.ENCODER] < 0:
            return []
        last = None if is_whole else self.last[AttentionKind.ENCODER]
        batch = yield from run_encoder(self.model.encoder, self.captured, self.slice_tokens, last)
        if is_whole:
            return (yield from self.decode(batch.read()[None]))
        return []

    def decode(self, memory: Tensor) -> Slices[list[Tensor]]:
        """Runs the decoder over the targets, shifted right by one; returns what `run` returns."""
        decoder = self.model.decoder
        x = self._embed(decoder.embedding)
        self.bias = decoder.bias(max(self.targets))
        for number, layer in enumerate(decoder.blocks):
            x = yield from self._mix_tokens(number, layer, x, memory)
            if number == self.last_decoder > self.last[AttentionKind.CROSS]:
                return []
            heads = layer.project_cross(x, memory)
            site = AttentionSite(AttentionKind.CROSS, number)
            rests = [LayerRest.of_layer(layer.cross_residual, layer)] * len(self.captured)
            y = yield from self._attend(site, layer.cross_attention, heads, x, rests)
            x = layer.cross_residual.after(x, y)
            if number == self.last_decoder:
                return []
            parts = []
            for part in torch.split(x, self.slice_tokens, dim=1):
                parts.append(layer.add_feed_forward(part))
                yield
            x = torch.cat(parts, dim=1)
        hidden = decoder.norm(x)[0, : self.num_inputs]
        return list(torch.split(hidden, self.targets))

    def _inputs(self, job: AttentionJob) -> list[int]:
        inputs: list[int] = self.model.decoder_inputs(torch.tensor([job.target]))[0].tolist()
        return inputs

    def _embed(self, embedding: Embedding) -> Tensor:
        sequences = [self._inputs(each.job) for each in self.captured]
        longest = max(map(len, sequences)) - 1
        ids, self.positions = packed_tokens(sequences, self.padding, self.model.device)
        parts = embedding.parts(ids, self.positions, longest)
        for each, own in zip(self.captured, parts.split(self.targets), strict=True):
            each.show_embedding(AttentionKind.DECODER, own)
        return parts.embedded

    def _attend(
        self,
        site: AttentionSite,
        module: MultiHeadAttention,
        heads: Heads,
        x: Tensor,
        rests: Sequence[LayerRest],
    ) -> Slices[Tensor]:
        rows, columns = self.lengths[site.kind]
        sizes = zip(heads, (rows, columns, columns), strict=True)
        parts = [
            torch.split(tensor[:, :, : sum(lengths)], lengths, dim=2) for tensor, lengths in sizes
        ]
        streams = torch.split(x[0, : self.num_inputs], rows)
        attended: list[Tensor] = []
        projected: list[ProjectedHeads] = []
        knockouts = [each.job.knockout for each in self.captured]
        rows_of = zip(*parts, streams, rests, knockouts, strict=True)
        for q, k, v, stream, rest, knockout in rows_of:
            bias = self._bias(site, q)
            off = None if knockout is None else knockout.at(site.kind, site.layer)
            attended += yield from self._attend_within((q, k, v), bias, off)
            projected.append(ProjectedHeads(q[0], k[0], v[0], bias, module, stream, rest))
        yield
        yield from show(self.captured, site, projected)
        whole = F.pad(torch.cat(attended, dim=2), (0, 0, 0, self.padding))
        return module.merge(whole)

    def _bias(self, site: AttentionSite, query: Tensor) -> Tensor | None:
        """Returns the bias (T, T) or (H, T, T) of a site for the queries of one sentence."""
        if site.kind is not AttentionKind.DECODER:
            return None
        if self.bias is None:
            return causal_bias(query)
        return bias_rows(self.bias, 0, query.shape[2], query.shape[2])[0]

    def _attend_within(
        self, heads: Heads, bias: Tensor | None, off: SiteKnockout | None
    ) -> Slices[list[Tensor]]:
        """Returns the weighted values (1, H, T, K) of one sentence, slice by slice."""
        query, key, value = heads
        attended = []
        for first in range(0, query.shape[2], self.slice_tokens):
            if first:
                yield
            rows = slice(first, first + self.slice_tokens)
            chosen = None if bias is None else bias[..., rows, :]
            attended.append(attend_without(off, query[:, :, rows], key, value, chosen, first))
        return attended

    def _mix_tokens(self, number: int, layer: Block, x: Tensor, memory: Tensor) -> Slices[Tensor]:
        residual = layer.mixer_residual
        if isinstance(layer.mixer, SSRU):
            y = yield from self._run_cells(layer.mixer, residual.before(x))
            return residual.after(x, y)
        site = AttentionSite(AttentionKind.DECODER, number)
        memories = torch.split(memory[:, : sum(self.sources)], self.sources, dim=1)
        rests = [self._rest_after_self(layer, each) for each in memories]
        heads = layer.project(x, self.positions)
        y = yield from self._attend(site, layer.mixer, heads, x, rests)
        return residual.after(x, y)

    def _rest_after_self(self, layer: Block, memory: Tensor) -> LayerRest:
        def finish(x: Tensor) -> Tensor:
            heads = layer.project_cross(x[None], memory)
            y = layer.cross_residual.after(x[None], layer.cross_attention(heads, None))
            return layer.add_feed_forward(y)[0]

        return LayerRest(layer.mixer_residual, None, finish)

    def _run_cells(self, ssru: SSRU, x: Tensor) -> Slices[Tensor]:
        """Runs an SSRU over x (1, N, D), one position of all sentences at a time."""
        inputs = [gate[0, : self.num_inputs] for gate in ssru.gates(x)]
        split = [list(torch.split(gate, self.targets)) for gate in inputs]
        gates = [pad_sequence(rows, batch_first=True) for rows in split]
        parts = [torch.split(gate, self.slice_tokens, dim=1) for gate in gates]  # (B, T, D) each
        cell = torch.zeros_like(gates[0][:, 0])
        outputs = []
        for forget, update in zip(*parts, strict=True):
            outputs.append(ssru.recur(forget, update, cell))
            yield
        whole = torch.cat(outputs, dim=1)  # (B, T, D)
        lengths = enumerate(self.targets)
        cells = [whole[row : row + 1, :length] for row, length in lengths]
        return F.pad(torch.cat(cells, dim=1), (0, 0, 0, self.padding))


def causal_bias(query: Tensor) -> Tensor:
    """Returns the bias (T, T) of queries (..., T, K): -inf for keys after the query, else 0."""
    length = query.shape[-2]
    past = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    return mask_bias(past, query.dtype)
