"""Reads the Accept header of a request."""

from collections.abc import Collection

JSON = "application/json"
ANY = "*/*"


def preferred(accept: str, offered: Collection[str]) -> str:
    """Returns the offered media type that a client prefers; JSON if the header names none.

    Args:
        accept: Accept header. Unknown media types in it are ignored, and so are wildcards such as
            `text/*`.
        offered: Media types that the route can answer with, in addition to JSON.
    """
    ranges = [_media_range(part) for part in accept.split(",")]
    ranges.sort(key=lambda found: -found[1])  # equal weights keep their order
    for media_type, weight in ranges:
        if weight > 0 and media_type in (*offered, JSON, ANY):
            return JSON if media_type == ANY else media_type
    return JSON


def _media_range(part: str) -> tuple[str, float]:
    """Returns a media type and its weight `q`: 1 without a `q`, and 0 if `q` is not a number."""
    media_type, *parameters = (word.strip().lower() for word in part.split(";"))
    weights = [word[2:] for word in parameters if word.startswith("q=")]
    try:
        return media_type, float(weights[0]) if weights else 1.0
    except ValueError:
        return media_type, 0.0
