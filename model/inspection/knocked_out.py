"""Computes the attention of a sentence while parts of the model are switched off.

Shapes: H is the number of heads, and K the size of a head. T is the number of attending tokens,
and S the number of attended tokens. An edge is a pair of an attending and an attended token.
"""

import torch
from torch import Tensor

from model.inspection.query import SiteKnockout
from model.layers.attention import attention, attention_weights, mask_bias


def attend_without(
    off: SiteKnockout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    first: int,
) -> Tensor:
    """Returns the weighted values (1, H, T, K) of some tokens while parts are switched off.

    If nothing is switched off for a token in a head, the token's values in this head have the same
    bits as without a knock-out.

    Args:
        off: Parts that are switched off.
        query: Queries (1, H, T, K).
        key: Keys (1, H, S, K).
        value: Values (1, H, S, K).
        bias: Term added to the scores, broadcast to (1, H, T, S), or None.
        first: Position of the first of the T tokens in the sentence.
    """
    heads = attention(query, key, value, bias)
    if off.keys or off.edges:
        kept = kept_edges(off, query, key.shape[2], first)
        total = mask_bias(kept, torch.float32)
        if bias is not None:
            total = total + bias
        weights = attention_weights(query.float(), key.float(), total)
        attends = torch.isfinite(total).any(dim=-1, keepdim=True)
        changed = (torch.where(attends, weights, 0.0) @ value.float()).to(value.dtype)
        heads = torch.where(kept.all(dim=-1, keepdim=True), heads, changed)
    if off.heads:
        is_off = torch.zeros(heads.shape[1], dtype=torch.bool, device=heads.device)
        is_off[list(off.heads)] = True
        heads = heads.masked_fill(is_off[:, None, None], 0.0)
    return heads


def kept_edges(off: SiteKnockout, query: Tensor, num_keys: int, first: int) -> Tensor:
    """Returns a mask (1, H, T, S), False for each edge that is switched off and True elsewhere."""
    _, num_heads, rows, _ = query.shape
    kept = torch.ones(1, num_heads, rows, num_keys, dtype=torch.bool, device=query.device)
    kept[..., list(off.keys)] = False
    places = [
        (head, edge.query - first, edge.key)
        for edge in off.edges
        for head in edge.heads
        if first <= edge.query < first + rows
    ]
    if places:
        kept[0, *torch.tensor(places, device=query.device).T] = False
    return kept
