"""Length buckets and batch sizes of texts to embed or rerank, for the scheduler and the workers."""

BUCKET_TOKENS = (64, 256)
"""Largest number of tokens of a text in each bucket; one more bucket takes all longer texts.

A batch takes texts of one bucket, up to a number of tokens that depends on the device. Full batches
of the first bucket therefore cost about the same, whatever the lengths of their texts are.
"""

NUM_BUCKETS = len(BUCKET_TOKENS) + 1

CPU_BATCH_TOKENS = 256
"""Largest number of tokens of a batch on a CPU, unless the batch is one longer text. A larger batch
hardly needs less time per token, but texts that arrive later wait longer. A smaller batch needs
more time per token."""

GPU_BATCH_TOKENS = 16_384
"""Largest number of tokens of a batch on a GPU. A GPU computes 256 tokens in less time than the
launch of the kernels takes. With batches of 8,192 tokens, an H200 embedded 64,000 short texts
a second; with 16,384 tokens, 93,000; and with 65,536 tokens, 125,000. A larger batch delays texts
that arrive later."""

CAPACITY_BATCHES = 2
"""Number of batches that a worker receives in advance, for each model and length bucket. A length
bucket holds texts of similar length. Further texts wait in the scheduler, which decides their
order."""


def bucket_of(num_tokens: int) -> int:
    """Returns the bucket of a text of `num_tokens` tokens; bucket 0 has the shortest texts."""
    return sum(num_tokens > limit for limit in BUCKET_TOKENS)


def batch_tokens(is_on_gpu: bool) -> int:
    """Returns the largest number of tokens of a batch of a model."""
    return GPU_BATCH_TOKENS if is_on_gpu else CPU_BATCH_TOKENS


def capacity_tokens(is_on_gpu: bool) -> int:
    """Returns the capacity of a worker for a model and a length bucket, in tokens.

    While a worker holds fewer tokens than its capacity, it can receive more texts.
    """
    return CAPACITY_BATCHES * batch_tokens(is_on_gpu)
