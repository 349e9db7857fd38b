"""Refuses embedding requests that exceed a limit of the model or the server.

A request is refused before a model computes anything for it. Messages name parameters, counts and
limits, but never quote a text to embed.
"""

from collections.abc import Collection, Mapping, Sequence

from service.errors import SHOWN_CHARS, InvalidRequestError, RequestTooLargeError
from service.models.text_reader import Input
from service.text.language_codes import match_language


def check_num_inputs(inputs: Sequence[object], limit: int, param: str) -> None:
    if len(inputs) > limit:
        raise RequestTooLargeError(
            f"{param} has {len(inputs)} texts; the limit is {limit}. Send them in parts, or raise "
            "REGARD_MAX_INPUTS.",
            param=param,
        )


def check_num_tokens(num_tokens: Sequence[int], limit: int, param: str) -> None:
    remedy = f"; the limit is {limit}. Send it in parts, or raise REGARD_MAX_PENDING_TOKENS."
    _check_total(num_tokens, limit, param, remedy)


def check_not_empty(num_tokens: Sequence[int], param: str) -> None:
    """Refuses an empty text for a model that puts no special tokens around texts."""
    if 0 in num_tokens:
        place = f"{param}[{num_tokens.index(0)}]"
        raise InvalidRequestError(
            f"Invalid request: {place} has no tokens, and this model adds none; leave it out",
            param=param,
        )


def check_num_vectors(num_tokens: Sequence[int], limit: int, param: str) -> None:
    """Refuses a request whose response would have too many token vectors.

    131,072 vectors of 384 numbers take 200 MB of memory, and half a GB as JSON.
    """
    remedy = (
        f", each with a vector; the limit is {limit}. Send it in parts, ask /embed for one vector "
        "a text, or raise REGARD_MAX_TOKEN_VECTORS."
    )
    _check_total(num_tokens, limit, param, remedy)


def _check_total(num_tokens: Sequence[int], limit: int, param: str, remedy: str) -> None:
    total = sum(num_tokens)
    if total > limit:
        raise RequestTooLargeError(f"{param} has {total} tokens in all{remedy}", param=param)


def check_ids(inputs: Sequence[Input], vocab_size: int, param: str) -> None:
    for place, ids in enumerate(inputs):
        if not isinstance(ids, str) and max(ids) >= vocab_size:
            raise InvalidRequestError(
                f"Invalid request: {param}[{place}] has the token id {max(ids)}; the "
                f"largest id of this model is {vocab_size - 1}. Send ids of this model's "
                "vocabulary, or the text.",
                param=param,
            )


def find_long(
    num_tokens: Sequence[int],
    limit: int,
    truncate: bool,
    param: str,
    uncounted: Collection[int] = (),
) -> list[int]:
    """Returns the indices of the inputs that must be cut, because they exceed the model's limit.

    The numbers of tokens of the inputs in `uncounted` are lower bounds.
    """
    long = [place for place, number in enumerate(num_tokens) if number > limit]
    if long and not truncate:
        first = long[0]
        more = f"; inputs that are too long: {len(long)}" if len(long) > 1 else ""
        number = f"{'at least ' * (first in uncounted)}{num_tokens[first]}"
        raise RequestTooLargeError(
            f"{param}[{first}] has {number} tokens; this model takes {limit}{more}. "
            "Send it in parts, or cut it with truncate: true.",
            param=f"{param}[{first}]",
        )
    return long


def check_dimensions(dimensions: int | None, size: int) -> int:
    if dimensions is not None and dimensions > size:
        raise InvalidRequestError(
            f"Invalid request: dimensions parameter must be <= {size}, the size of this model's "
            f"vectors, not {dimensions}; leave it out for whole vectors",
            param="dimensions",
        )
    return size if dimensions is None else dimensions


def find_prompt(name: str | None, prompts: Mapping[str, str], default: str | None) -> str:
    if name is None:
        return "" if default is None else prompts[default]
    if name not in prompts:
        names = ", ".join(prompts) or "none"
        raise InvalidRequestError(
            f"{name[:SHOWN_CHARS]} prompt_name is not supported; this model has: {names}",
            param="prompt_name",
        )
    return prompts[name]


QUERIES = ("query", "retrieval.query")
DOCUMENTS = ("document", "passage", "corpus", "retrieval.passage")
PURPOSES = {
    "search_query": QUERIES,
    "search_document": DOCUMENTS,
    **dict.fromkeys(QUERIES, QUERIES),
    **dict.fromkeys(DOCUMENTS, DOCUMENTS),
}
"""Names of prompts that a purpose of other APIs may have in a model, the preferred name first."""


def prompt_for(purpose: str, prompts: Mapping[str, object]) -> str | None:
    """Returns the name of the model's prompt for a purpose; None for the default prompt."""
    known = {name.lower(): name for name in prompts}
    wanted = (purpose.lower(), *PURPOSES.get(purpose.lower(), ()))
    return next((known[name] for name in wanted if name in known), None)


def find_language(name: str | None, languages: Collection[str]) -> str:
    """Returns the language, named by `prompt_name`, whose token is read before each text."""
    found = None if name is None else match_language(name, languages)
    if found is None:
        fault = "missing" if name is None else f"{name[:SHOWN_CHARS]}, an unknown language"
        raise InvalidRequestError(
            "Invalid request: this model needs the language of the texts, which a request names in "
            f"prompt_name; it is {fault}. The languages are: {', '.join(languages)}",
            param="prompt_name",
        )
    return found
