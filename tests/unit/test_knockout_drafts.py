"""Drafts of translations that a model checks and changes, against greedy decoding."""

import random
from collections.abc import Sequence

import pytest

from service.tasks.knockouts import Draft

EOS = 0


def likeliest(prefix: Sequence[int], seed: int) -> int:
    """A model of 6 tokens: the token after a prefix depends on the last two tokens."""
    return random.Random(f"{seed} {[*prefix][-2:]} {len(prefix)}").randrange(6)


def greedy(seed: int, limit: int) -> tuple[list[int], bool]:
    ids: list[int] = []
    while EOS not in ids:
        if len(ids) == limit - 1:
            return [*ids, EOS], likeliest(ids, seed) != EOS
        ids.append(likeliest(ids, seed))
    return ids, False


@pytest.mark.parametrize("length", [1, 2, 7, 30])
@pytest.mark.parametrize("limit", [30, 40])
def test_draft_becomes_what_greedy_decoding_writes(length: int, limit: int) -> None:
    """For any draft, in as many rounds as tokens or fewer, and within the limit."""
    for seed in range(200):
        draft = Draft([*[1 + seed % 5] * (length - 1), EOS], EOS, limit)
        rounds = 0
        while not draft.is_done:
            draft.change([likeliest(draft.ids[:place], seed) for place in range(len(draft.ids))])
            rounds += 1
        assert (draft.ids, draft.is_cut) == greedy(seed, limit)
        assert rounds <= limit + 1
