"""Length buckets of texts to embed; the scheduler and the executors use the same ones."""

BUCKET_TOKENS = (64, 256)
"""Largest number of tokens of each bucket but the last, which has no limit. A batch has about 256
tokens, so that a batch of the first bucket costs about the same whatever its lengths are."""

NUM_BUCKETS = len(BUCKET_TOKENS) + 1


def bucket_of(num_tokens: int) -> int:
    """Returns the bucket of a text of `num_tokens` tokens; 0 is the shortest."""
    return sum(num_tokens > limit for limit in BUCKET_TOKENS)
