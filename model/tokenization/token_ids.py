"""Which ids a model takes. Without torch."""

from collections.abc import Sequence

from model.errors import EmptySourceError, SourceTooLongError, UnknownTokenError


def check_ids(
    name: str, ids: Sequence[int], vocab_size: int, max_tokens: int | None = None
) -> None:
    """Refuses what a model cannot read.

    Args:
        name: What the ids are of, for the message.
        ids: Special ones included.
        vocab_size: They are below this.
        max_tokens: No more than that; None for any number.

    Raises:
        EmptySourceError: No tokens.
        SourceTooLongError: More tokens than the limit.
        UnknownTokenError: An id outside the vocabulary.
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
