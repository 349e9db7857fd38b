"""API keys, as the setting REGARD_API_KEYS or the file of keys defines them."""

import hashlib
import re
from dataclasses import dataclass

KEYS_FILE = "file:"
"""Prefix of REGARD_API_KEYS if the setting names a file that has the keys."""

HASH = "sha256:"
"""Prefix of the SHA-256 of a key. A key may be given as this prefix and 64 hexadecimal digits."""

ADMIN = "admin"
DEFAULT_SCOPES = ("translate", "embed", "attention")
"""Scopes of a key without the option `scopes`."""

SCOPES = (*DEFAULT_SCOPES, ADMIN)
"""Groups of routes that a key may use."""

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
OPTIONS = ("name", "scopes", "requests", "characters")
OPTION_STARTS = tuple(f"{option}=" for option in OPTIONS)


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The largest numbers of requests and characters of one key per minute; 0 means no limit."""

    requests: int = 0
    characters: int = 0

    def __bool__(self) -> bool:
        return bool(self.requests or self.characters)


NO_LIMITS = RateLimits()


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its text.

    `digest` is its SHA-256 and the name of its account. Error messages use the name.
    """

    digest: str
    name: str = ""
    scopes: frozenset[str] = frozenset(DEFAULT_SCOPES)
    limits: RateLimits = NO_LIMITS


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def listed_keys(text: str) -> tuple[ApiKey, ...]:
    return tuple(ApiKey(_digest(key.strip())) for key in text.split(",") if key.strip())


def read_keys(text: str) -> tuple[ApiKey, ...]:
    """Returns the keys in the text of a file of keys.

    A line has a key and options, such as `KEY name=shop scopes=translate,embed requests=600`, or
    several keys separated by commas. A line that begins with # is a comment.
    """
    keys: dict[str, ApiKey] = {}
    for number, line in enumerate(text.split("\n"), 1):
        try:
            for key in _line_keys(line.strip()):
                if keys.setdefault(key.digest, key) != key:
                    raise ValueError("the same key has other options on an earlier line")
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return tuple(keys.values())


def _line_keys(line: str) -> tuple[ApiKey, ...]:
    if line.startswith("#"):
        return ()
    key, *options = line.split() or [""]
    is_list = not options or "=" not in options[0] or key.endswith(",")
    if is_list and not any(option.startswith(OPTION_STARTS) for option in options):
        return listed_keys(line)
    if "," in key:
        raise ValueError(
            "a key with options must not contain a comma; write each key on a line of its own"
        )
    given = dict(option.partition("=")[::2] for option in options)
    if len(given) < len(options) or not given.keys() <= set(OPTIONS):
        raise ValueError(f"the options of a key are {', '.join(OPTIONS)}, each at most once")
    return (
        ApiKey(
            _digest(key),
            checked_name(given.get("name", "")),
            _scopes(given.get("scopes", ",".join(DEFAULT_SCOPES))),
            RateLimits(_number(given, "requests"), _number(given, "characters")),
        ),
    )


def checked_name(name: str) -> str:
    if name and not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a name: it has up to 64 letters, digits, points, hyphens and "
            "underscores"
        )
    return name


def _digest(key: str) -> str:
    if key.startswith(HASH):
        digest = key.removeprefix(HASH).lower()
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ValueError(f"{HASH} is followed by the 64 hexadecimal digits of a hash")
        return digest
    if not (key.isascii() and key.isprintable()):
        raise ValueError("a key may have only ASCII characters that fit into a header")
    return digest_of(key)


def _scopes(listed: str) -> frozenset[str]:
    scopes = frozenset(listed.split(","))
    if not scopes <= set(SCOPES):
        raise ValueError(f"the scopes are {', '.join(SCOPES)}, separated by commas without spaces")
    return scopes


def _number(options: dict[str, str], name: str) -> int:
    value = options.get(name, "0")
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"{name} must be a whole number per minute, such as {name}=600")
    return int(value)
