"""Checks the token ids that a model receives. The module does not import torch."""

from collections.abc import Sequence

from model.errors import EmptySourceError, SourceTooLongError, UnknownTokenError


def check_ids(
    name: str, ids: Sequence[int], vocab_size: int, max_tokens: int | None = None
) -> None:
    """Refuses token ids that a model cannot read.

    Args:
        name: Name of the ids in messages, such as "source".
        ids: Token ids, special tokens included.
        vocab_size: Size of the vocabulary. Every id must be smaller than this number.
        max_tokens: Largest number of ids; None for no limit.

    Raises:
        EmptySourceError: There are no ids.
        SourceTooLongError: There are more ids than the limit.
        UnknownTokenError: An id is outside the vocabulary.
    """
    if not ids:
        raise EmptySourceError(f"the {name} has no tokens")
    if max_tokens is not None and len(ids) > max_tokens:
        raise SourceTooLongError(
            f"the {name} has {len(ids)} tokens; the limit is {max_tokens}. Split or cut it"
        )
    if not 0 <= min(ids) <= max(ids) < vocab_size:
        raise UnknownTokenError(
            f"the {name} has ids from {min(ids)} to {max(ids)}; the vocabulary has {vocab_size}"
        )
