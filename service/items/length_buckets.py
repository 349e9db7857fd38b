"""Length buckets of texts to embed and of pairs to rerank, for the scheduler and the workers."""

BUCKET_TOKENS = (64, 256)
"""Largest number of tokens of a text in each bucket; one more bucket takes all longer texts.

A batch takes texts of one bucket, up to a number of tokens that depends on the device. Full batches
of the first bucket therefore cost about the same, whatever the lengths of their texts are.
"""

NUM_BUCKETS = len(BUCKET_TOKENS) + 1


def bucket_of(num_tokens: int) -> int:
    """Returns the bucket of a text of `num_tokens` tokens; bucket 0 has the shortest texts."""
    return sum(num_tokens > limit for limit in BUCKET_TOKENS)
