"""The texts of errors in the parameters or the body of a request, with status 400 or 413.

Clients may compare these texts with known texts. A text begins as LibreTranslate's text for the
same error, if LibreTranslate has one. The value, the limit and the way out follow. All other errors
have their text where they are raised. Each dialect puts the texts into its own error format.
"""

from collections.abc import Sequence

from service.errors import SHOWN_CHARS, ServiceError, UnsupportedLanguageError


def missing(name: str) -> str:
    """Returns the text for a parameter that the request must have."""
    return f"Invalid request: missing {name} parameter"


def unknown(name: str) -> str:
    """Returns the text for a parameter that the route does not have."""
    return f"Invalid request: there is no {name[:SHOWN_CHARS]} parameter; /docs lists all"


def not_supported(value: object, name: str, choices: str) -> str:
    """Returns the text for a value that is none of a parameter's choices, such as format `pdf`."""
    return f"{str(value)[:SHOWN_CHARS]} {name} is not supported; use {choices}"


def out_of_range(name: str, sign: str, limit: object, value: object) -> str:
    """Returns the text for a number beyond its limit; `sign` is `>=` or `<=`."""
    shown = str(value)[:SHOWN_CHARS]
    return f"Invalid request: {name} parameter must be {sign} {limit}, not {shown}"


def not_a_number(name: str) -> str:
    """Returns the text for a value that is no integer."""
    return f"Invalid request: {name} parameter is not a number"


def not_whole(name: str, value: float) -> str:
    """Returns the text for a number that is no integer of 64 bits."""
    wanted = "a number that is whole and has up to 64 bits"
    return f"Invalid request: {name} parameter is not {wanted}, but {str(value)[:SHOWN_CHARS]}"


def too_many_texts(number: int, limit: int) -> str:
    """Returns the text for a request with more texts than the limit."""
    return (
        f"Invalid request: request ({number}) exceeds text limit ({limit}). "
        "Send fewer texts at once, or raise REGARD_MAX_INPUTS."
    )


def invalid_json(reason: object) -> str:
    """Returns the text for a body that is no JSON object."""
    return f"Invalid JSON format: {reason}"


def unsupported_language(code: str, supported: Sequence[str]) -> str:
    """Returns the text for a language that no model has."""
    return f"{code[:SHOWN_CHARS]} is not supported; supported: {', '.join(supported)}"


def unsupported_pair(source: str, target: str, targets: Sequence[str]) -> str:
    """Returns the text for two languages between which no model translates."""
    return (
        f"{target} is not available as a target language from {source}; "
        f"available: {', '.join(targets)}"
    )


def text_of(error: ServiceError) -> str:
    """Returns the text of an error: its message, or LibreTranslate's text about a language."""
    if not isinstance(error, UnsupportedLanguageError) or not error.available:
        return error.message
    if error.source is None:
        return unsupported_language(error.language, error.available)
    return unsupported_pair(error.source, error.language, error.available)
