"""The texts of errors in parameters, bodies and API keys, and of disabled features.

If LibreTranslate has the same error, the text is exactly LibreTranslate's, because clients may
compare texts. Details add the value, the limit or the remedy to a text. All other texts are written
where their errors are raised. Each dialect puts the texts into its own error format.
"""

from collections.abc import Sequence
from typing import NamedTuple

from service.errors import SHOWN_CHARS, ServiceError, UnsupportedLanguageError
from service.text.language_codes import display_name


class ErrorText(NamedTuple):
    """The text of an error.

    Attributes:
        text: Names the fault. Clients may compare this text.
        details: The value, the limit or the remedy, if the text does not name it.
    """

    text: str
    details: str = ""

    def error(self, kind: type[ServiceError], param: str | None = None) -> ServiceError:
        return kind(self.text, param=param, details=self.details)

    @property
    def joined(self) -> str:
        return f"{self.text}; {self.details}" if self.details else self.text


MISSING_KEY = ErrorText(
    "Please contact the server operator to get an API key",
    "send a key as the field api_key, or in the header `Authorization: Bearer …`",
)
WRONG_KEY = ErrorText("Invalid API key", "use a key from REGARD_API_KEYS of the server")
FILES_DISABLED = ErrorText(
    "Files translation are disabled on this server.", "the setting REGARD_FILES enables it"
)
FILE_FORMAT = "Invalid request: file format not supported"
EMPTY_FILE = "Invalid request: empty file"
SUGGESTIONS_DISABLED = ErrorText(
    "Suggestions are disabled on this server.", "REGARD_SUGGESTIONS=true enables them"
)


def wrong_scope(name: str, scope: str) -> ErrorText:
    key = f"The API key {name}" if name else "The API key"
    return ErrorText(f"{key} does not have the scope {scope}", f"add {scope} to its scopes")


def broken_file(reason: object) -> ErrorText:
    return ErrorText("Invalid request: the file cannot be read", str(reason))


def missing(name: str) -> ErrorText:
    return ErrorText(f"Invalid request: missing {name} parameter")


def unknown(name: str) -> ErrorText:
    shown = name[:SHOWN_CHARS]
    return ErrorText(
        f"Invalid request: there is no {shown} parameter", "/docs lists all parameters"
    )


def not_supported(value: object, name: str, choices: str) -> ErrorText:
    """Returns the text for a value that a parameter does not allow, such as format `pdf`."""
    shown = str(value)[:SHOWN_CHARS]
    return ErrorText(f"{shown} {name} is not supported", f"use {choices}")


def out_of_range(name: str, sign: str, limit: object, value: object) -> ErrorText:
    """Returns the text for a number outside its limit. `sign` is `>=` or `<=`."""
    shown = str(value)[:SHOWN_CHARS]
    return ErrorText(f"Invalid request: {name} parameter must be {sign} {limit}", f"it is {shown}")


def not_a_number(name: str) -> ErrorText:
    return ErrorText(f"Invalid request: {name} parameter is not a number")


def not_whole(name: str, value: float) -> ErrorText:
    shown = str(value)[:SHOWN_CHARS]
    details = f"send a number that is whole and has up to 64 bits, not {shown}"
    return ErrorText(not_a_number(name).text, details)


def too_many_texts(number: int, limit: int) -> ErrorText:
    return _over_text_limit(number, limit, "send fewer texts, or raise REGARD_MAX_INPUTS")


def too_many_chars(number: int, limit: int) -> ErrorText:
    return _over_text_limit(number, limit, "send shorter texts, or raise REGARD_MAX_TEXT_CHARS")


def _over_text_limit(number: int, limit: int, way_out: str) -> ErrorText:
    return ErrorText(f"Invalid request: request ({number}) exceeds text limit ({limit})", way_out)


def invalid_json(reason: object) -> ErrorText:
    return ErrorText("Invalid JSON format", str(reason))


def unsupported_language(code: str, supported: Sequence[str]) -> ErrorText:
    shown = code[:SHOWN_CHARS]
    return ErrorText(f"{shown} is not supported", f"supported: {', '.join(supported)}")


def unsupported_pair(source: str, target: str, targets: Sequence[str]) -> ErrorText:
    return ErrorText(
        f"{display_name(target)} ({target}) is not available as a target language "
        f"from {display_name(source)} ({source})",
        f"available: {', '.join(targets)}",
    )


def text_of(error: ServiceError) -> ErrorText:
    """Returns LibreTranslate's text for a wrong language, and else the error's own text."""
    if not isinstance(error, UnsupportedLanguageError) or not error.available:
        return ErrorText(error.message, error.details)
    if error.source is None:
        return unsupported_language(error.language, error.available)
    return unsupported_pair(error.source, error.language, error.available)
