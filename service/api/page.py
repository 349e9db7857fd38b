"""GET / and GET /static/{name}: the page, from files that come with the package.

The page is plain HTML, CSS and ES modules that call the public API. Nothing is built, and nothing
comes from another host: the Content-Security-Policy lets a browser load nothing else and run no
script that is not one of these files.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.errors import NotFoundError

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).resolve().parents[1] / "static"
CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",  # blob: a drawing on its way to a PNG
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    ]
)
HEADERS = {
    # Kept, but asked for each time: a file may change with the next version under the same name.
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page.

    Attributes:
        content: Its bytes.
        content_type: What a browser is told that they are.
        etag: A strong validator, from the bytes.
    """

    content: bytes
    content_type: str
    etag: str

    @classmethod
    def read(cls, path: Path) -> "Asset":
        """The file at a path."""
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:32]
        return cls(content, CONTENT_TYPES[path.suffix], f'"{digest}"')


def read_assets(folder: Path) -> dict[str, Asset]:
    """The files of a folder that a browser may ask for, by name."""
    paths = [path for path in folder.iterdir() if path.suffix in CONTENT_TYPES]
    return {path.name: Asset.read(path) for path in paths}


ASSETS = read_assets(FOLDER)
"""Read once: they are small, and an answer never waits for the disk."""


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The page itself."""
    return answer(ASSETS["index.html"], request.headers.get("if-none-match"))


@router.api_route("/static/{name}", methods=["GET", "HEAD"])
async def static(name: str, request: Request) -> Response:
    """A file that the page is made of.

    Raises:
        NotFoundError: It is made of no such file.
    """
    asset = ASSETS.get(name)
    if asset is None:
        raise NotFoundError("there is no such file; GET / is the page")
    return answer(asset, request.headers.get("if-none-match"))


def answer(asset: Asset, if_none_match: str | None) -> Response:
    """The file, or a 304 where the browser has it as it is."""
    headers = HEADERS | {"ETag": asset.etag}
    if if_none_match is not None and is_known(asset.etag, if_none_match):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, headers=headers, media_type=asset.content_type)


def is_known(etag: str, if_none_match: str) -> bool:
    """Whether a validator is among those that a browser has.

    Source: RFC 9110 section 13.1.2; the comparison is weak, as a proxy that compresses may have
    weakened ours.
    """
    known = [entry.strip().removeprefix("W/") for entry in if_none_match.split(",")]
    return etag in known or "*" in known
