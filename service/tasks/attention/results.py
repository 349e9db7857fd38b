"""What becomes of a request about attention, whichever the task."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.inspection.query import TraceQuery
from model.inspection.trace import AttentionTrace
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.errors import InvalidRequestError
from service.items.attention import AttentionItem
from service.items.result import Result
from service.tasks.attention.matrices import ShownItem
from service.tasks.backend import Backend
from service.tasks.context import RequestContext

LONG_CHARS = 16
"""For each token that fits: a longer text is counted before its tokens' places are looked for."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Attention of some sentences.

    Attributes:
        model: Served name.
        items: One a sentence.
    """

    model: str
    items: Sequence[ShownItem]


@dataclass(frozen=True, slots=True)
class SteppedThrough:
    """One token's attention.

    Attributes:
        model: Served name.
        query: What was asked, counted from 0.
        source: Text.
        target: Its translation; None of a text that is embedded.
        start: What the decoder starts from, for people.
        steps: All numbers.
    """

    model: str
    query: TraceQuery
    source: TokenizedText
    target: TokenizedText | None
    start: str
    steps: AttentionTrace


async def compute(
    backend: Backend, items: list[AttentionItem], deadline: float, context: RequestContext
) -> list[Result]:
    """Captures the attention of items; returns one result each, in order.

    Raises:
        ServiceError: The items are refused, too late, or failed.
    """
    tokens = sum(item.num_tokens for item in items)
    lease = await context.admit(backend, tokens, at_once=False)
    results = await lease.submit(items, deadline).in_order(len(items))
    context.add_times(results)
    return results


def count_long(text: str, tokenizer: Tokenizer, limit: int) -> int:
    """Tokens, EOS included, of a text with more than `limit`; 0 where that is not plain at once.

    Counting takes a tenth of the time of `tokenize`, which looks for the place of each.
    """
    if len(text) <= LONG_CHARS * limit:
        return 0
    number = len(tokenizer.encode(text)) + 1
    return number if number > limit else 0


def item_name(name: str, number: int, texts: Sequence[str | None]) -> str:
    """What a message calls one of the texts of a field."""
    return f"{name}[{number}]" if len(texts) > 1 else name


def nothing_to_read(name: str) -> InvalidRequestError:
    """The error for a text without tokens."""
    return InvalidRequestError(f"Invalid request: {name} has nothing to read; send words")
