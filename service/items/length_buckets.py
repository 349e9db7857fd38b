"""How texts to embed are told apart by length, by the scheduler and by workers alike."""

LEVEL_TOKENS = (64, 256)
"""Texts of up to so many tokens are of one level, what is longer of the last. A batch has some 256
tokens, so that one of the first level is about as dear whatever lengths are in it."""

LEVELS = len(LEVEL_TOKENS) + 1


def level_of(num_tokens: int) -> int:
    """Among which a text of so many tokens waits and is computed: 0 is the shortest."""
    return sum(num_tokens > limit for limit in LEVEL_TOKENS)
