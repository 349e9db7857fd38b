"""Runs a translation model over padded sources and given targets, in one pass.

If the attention weights are returned, the pass needs memory for the scores of all rows, heads and
pairs of tokens. Requests for attention therefore use `teacher_forced`, which works in slices.

Shapes: B is the number of rows, S the number of source positions, and T the number of target
tokens. H is the number of heads, and D the width of the model. V is the number of ids in the
decoder's vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from model.architectures.seq2seq import EncoderDecoder
from model.backends.encoder_batch import run_layers
from model.backends.torch_encoder import PackableEncoder, PaddedBatch
from model.inspection.captures.capture import Slices
from model.layers.attention import attention_weights, mask_bias
from model.layers.cache import DecodingCache


@dataclass(frozen=True, slots=True)
class Attentions:
    """The attention weights of a pass, one tensor for each layer.

    Attributes:
        encoder: Self-attention of the encoder (B, H, S, S).
        decoder: Self-attention of the decoder (B, H, T, T); empty for an SSRU decoder.
        cross: Cross-attention (B, H, T, S).
    """

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


def forced_pass(
    model: EncoderDecoder,
    source: Tensor,
    mask: Tensor,
    target: Tensor,
    return_weights: bool = False,
) -> tuple[Tensor, Attentions]:
    """Returns the logits (B, T, V) of given targets, and the attention weights.

    Args:
        model: Model on its device, in any precision.
        source: Ids (B, S); each row ends in EOS, then padding.
        mask: (B, S), True on tokens and False on padding.
        target: Ids (B, T) that the logits predict.
        return_weights: Whether to return attention weights; if not, their lists are empty.
    """
    memory, encoder_weights = encode(model.encoder, source, mask, return_weights)
    rows, width, length = source.shape[0], source.shape[1], target.shape[1]
    cache = DecodingCache(model.config, rows, width, length, model.device, model.dtype)
    all_rows = torch.arange(rows, device=model.device)
    bias = mask_bias(mask, model.dtype)[:, None, None, :]  # (B, 1, 1, S)
    cache.fill_rows(all_rows, model.decoder.project_cross_kv(memory), bias)
    state = cache.view(rows, width, length, length)
    hidden, self_weights, cross_weights = model.decoder(
        model.decoder_inputs(target), state, length - 1, return_weights
    )
    attentions = Attentions(encoder_weights, self_weights, cross_weights)
    return model.decoder.logits(hidden), attentions


def encode(
    encoder: PackableEncoder, source: Tensor, mask: Tensor, return_weights: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Returns the encoder output (B, S, D) of padded sources (B, S), and the attention weights.

    The weights are one tensor (B, H, S, S) for each layer. Without `return_weights`, their list is
    empty.
    """
    batch = PaddedBatch(encoder, source, mask)
    weights: list[Tensor] = []

    def observe(layer: int) -> Slices[None]:
        if return_weights:
            assert batch.heads is not None
            query, key, _ = batch.heads
            weights.append(attention_weights(query, key, batch.biases[layer]))
        yield from ()  # nothing to yield: the work is a single slice

    for _ in run_layers(batch, batch.num_tokens, observe=observe):
        pass
    return batch.read().view(*source.shape, -1), weights
