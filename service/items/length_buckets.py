"""Length buckets of texts to embed and of pairs to rerank, for the scheduler and the workers."""

BUCKET_TOKENS = (64, 256)
"""Largest number of tokens of a text in each bucket; one more bucket takes all longer texts.

On one device, all full batches of the first bucket have about the same number of tokens. They
therefore cost about the same, whatever the lengths of their texts are.
"""

NUM_BUCKETS = len(BUCKET_TOKENS) + 1


def bucket_of(num_tokens: int) -> int:
    """Returns the bucket of a text of `num_tokens` tokens; bucket 0 has the shortest texts."""
    return sum(num_tokens > limit for limit in BUCKET_TOKENS)
