"""What a model or a server cannot take of a request for embeddings, refused before it is computed.

Numbers only: names of parameters, counts and limits; never a text.
"""

from collections.abc import Collection, Mapping, Sequence

from service.errors import SHOWN_CHARS, InvalidRequestError, RequestTooLargeError
from service.models.text_reader import Input
from service.text.language_codes import match_language


def check_num_inputs(inputs: Sequence[Input], limit: int, param: str) -> None:
    """Refuses too many inputs.

    Raises:
        RequestTooLargeError: There are more than `limit`.
    """
    if len(inputs) > limit:
        raise RequestTooLargeError(
            f"{param} has {len(inputs)} texts; the limit is {limit}. Send them in parts, or raise "
            "REGARD_MAX_INPUTS.",
            param=param,
        )


def check_num_tokens(num_tokens: Sequence[int], limit: int, param: str) -> None:
    """Refuses too many tokens in all.

    Args:
        num_tokens: Of each input, as the model reads it.
        limit: For all of them together.
        param: Which parameter they are.

    Raises:
        RequestTooLargeError: There are more.
    """
    total = sum(num_tokens)
    if total > limit:
        raise RequestTooLargeError(
            f"{param} has {total} tokens in all; the limit is {limit}. Send it in parts, or raise "
            "REGARD_MAX_PENDING_TOKENS.",
            param=param,
        )


def check_num_vectors(num_tokens: Sequence[int], limit: int, param: str) -> None:
    """Refuses a reply with too many vectors of tokens.

    One for each of the tokens that may wait would be 200 MB of numbers and half a GB of JSON,
    kept for as long as the client takes to read it.

    Args:
        num_tokens: Of each input, as the model reads it.
        limit: For all of them together.
        param: Which parameter they are.

    Raises:
        RequestTooLargeError: There are more.
    """
    total = sum(num_tokens)
    if total > limit:
        raise RequestTooLargeError(
            f"{param} has {total} tokens in all, each with a vector; the limit is {limit}. Send it "
            "in parts, ask /embed for one vector a text, or raise REGARD_MAX_TOKEN_VECTORS.",
            param=param,
        )


def check_ids(inputs: Sequence[Input], vocab_size: int, param: str) -> None:
    """Refuses token ids that the vocabulary does not have.

    Raises:
        InvalidRequestError: An id is `vocab_size` or more.
    """
    for place, ids in enumerate(inputs):
        if not isinstance(ids, str) and max(ids) >= vocab_size:
            raise InvalidRequestError(
                f"Invalid request: {param}[{place}] has the token id {max(ids)}; this model's "
                f"end at {vocab_size - 1}. Send ids of its own vocabulary, or the text.",
                param=param,
            )


def find_long(
    num_tokens: Sequence[int],
    limit: int,
    truncate: bool,
    param: str,
    uncounted: Collection[int] = (),
) -> list[int]:
    """Which inputs are longer than the model takes, and have to be cut.

    Args:
        num_tokens: Of each input whole, special tokens and prompt included.
        limit: Tokens that the model takes.
        truncate: Whether they may be cut.
        param: Which parameter they are.
        uncounted: Inputs that have so many tokens at least: the rest of a text that is far too
            long is not counted.

    Raises:
        RequestTooLargeError: They may not.
    """
    long = [place for place, number in enumerate(num_tokens) if number > limit]
    if long and not truncate:
        first = long[0]
        more = f", and {len(long) - 1} more are too long" if len(long) > 1 else ""
        number = f"{'at least ' * (first in uncounted)}{num_tokens[first]}"
        raise RequestTooLargeError(
            f"{param}[{first}] has {number} tokens; this model takes {limit}{more}. "
            "Send it in parts, or cut it with truncate: true.",
            param=param,
        )
    return long


def check_dimensions(dimensions: int | None, size: int) -> int:
    """How many numbers a vector gets.

    Args:
        dimensions: As asked for; None is all.
        size: What the model gives.

    Raises:
        InvalidRequestError: It gives fewer.
    """
    if dimensions is not None and dimensions > size:
        raise InvalidRequestError(
            f"Invalid request: dimensions parameter must be <= {size}, which is what this model "
            f"gives, not {dimensions}; leave it out for all",
            param="dimensions",
        )
    return size if dimensions is None else dimensions


def find_prompt(name: str | None, prompts: Mapping[str, str], default: str | None) -> str:
    """What is put before each text.

    Args:
        name: As asked for.
        prompts: Of the model, by name.
        default: Name of the one that it uses when it is asked for none.

    Raises:
        InvalidRequestError: There is none of that name.
    """
    if name is None:
        return "" if default is None else prompts[default]
    if name not in prompts:
        names = ", ".join(prompts) or "none"
        raise InvalidRequestError(
            f"{name[:SHOWN_CHARS]} prompt_name is not supported; this model has: {names}",
            param="prompt_name",
        )
    return prompts[name]


def find_language(name: str | None, languages: Collection[str]) -> str:
    """Which language's token is put before each text.

    Args:
        name: As asked for.
        languages: Of the model, which does not read without one.

    Raises:
        InvalidRequestError: None is named, or none of these.
    """
    found = None if name is None else match_language(name, languages)
    if found is None:
        fault = "missing" if name is None else f"{name[:SHOWN_CHARS]}, which is none of them"
        raise InvalidRequestError(
            "Invalid request: before each text this model reads the token of a language, which is "
            f"named by prompt_name; it is {fault}. There are: {', '.join(languages)}",
            param="prompt_name",
        )
    return found
