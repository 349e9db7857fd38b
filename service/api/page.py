"""GET /, GET /docs and GET /static/{path}: the web page, and the reference of the API.

The files are part of the package: plain HTML, CSS and ES modules that call the public API. They
need no build step and no other host. The modules reach a browser as compressed bundles. Their
addresses change with their content, so a browser asks for none of them again.
"""

import asyncio
import gzip
import hashlib
from functools import cache, cached_property, lru_cache
from html import escape
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from service.api import error_texts
from service.api.bundle import bundle
from service.api.context import context_of
from service.api.dialect import Dialect

router = APIRouter(tags=["page"])

FOLDER = Path(__file__).resolve().parents[1] / "static"
BUNDLES = {
    "app.js": None,
    "documents/documents.js": "app.js",
    "understand/understand.js": "app.js",
    "reference/app.js": None,
}
"""Modules that a browser loads by their names, and for each the bundle that is loaded before it."""

MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
VERSION_DIGITS = 16
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",  # the page exports a drawing as PNG through a blob: URL
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",  # last: pages that may call the server may also embed its page
    ]
)
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
REVALIDATED = "no-cache"
STORED = "public, max-age=31536000, immutable"


class PageFile:
    def __init__(self, name: str, body: bytes) -> None:
        self.body = body
        self.media_type = MEDIA_TYPES[Path(name).suffix]

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.body, mtime=0)

    def response(self, request: Request, cache_control: str) -> Response:
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        body = self.packed if is_packed else self.body
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        policy = " ".join([POLICY, *context_of(request).services.settings.allowed_origins])
        headers = HEADERS | {"ETag": etag, "Cache-Control": cache_control}
        headers["Content-Security-Policy"] = policy
        known = request.headers.get("if-none-match", "").split(",")
        if {tag.strip().removeprefix("W/") for tag in known} & {etag, "*"}:
            return Response(status_code=304, headers=headers)
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers, media_type=self.media_type)


class PageFiles:
    """The files of the page, read once; the server shows a change after a restart."""

    def __init__(self, folder: Path = FOLDER) -> None:
        bodies = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*.*"))
        }
        digest = hashlib.sha256(b"\0".join([*map(str.encode, bodies), *bodies.values()]))
        # Part of the addresses in the HTML; it changes with the content of any file.
        self.version = digest.hexdigest()[:VERSION_DIGITS]
        modules = {name: body.decode() for name, body in bodies.items() if name.endswith(".js")}
        for entry, base in BUNDLES.items():
            bodies[entry] = bundle(modules, entry, base).encode()
        for name, body in bodies.items():
            if name.endswith(".html"):
                bodies[name] = body.replace(b'="static/', f'="static/{self.version}/'.encode())
        self.files = {name: PageFile(name, body) for name, body in bodies.items()}

    def response(self, path: str, request: Request) -> Response:
        """Returns a file, at its own path or below a version.

        Below the version of another server, which runs beside this one during an update, the
        browser must not store the file.
        """
        version, _, below = path.partition("/")
        is_versioned = len(version) == VERSION_DIGITS and below in self.files
        found = self.files.get(below if is_versioned else path)
        if found is None:
            raise error_texts.unknown_path()
        return found.response(request, STORED if version == self.version else REVALIDATED)


files = cache(PageFiles)


@lru_cache(maxsize=16)
def page_at(base: str) -> PageFile:
    # Programs that show a link with a picture take no relative address of the picture.
    body = files().files["index.html"].body
    whole = f'content="{escape(base)}static/'.encode()
    return PageFile("index.html", body.replace(b'content="static/', whole))


async def send(path: str, request: Request) -> Response:
    # Reading the files takes 35 ms, and compressing them 15 ms: other requests run meanwhile.
    return await asyncio.to_thread(lambda: files().response(path, request))


@router.get("/", response_class=HTMLResponse)
async def page(request: Request) -> Response:
    """Returns the page itself."""
    base = str(request.base_url)
    return await asyncio.to_thread(lambda: page_at(base).response(request, REVALIDATED))


@router.get("/docs", response_class=HTMLResponse, include_in_schema=False)
async def reference(request: Request) -> Response:
    """Returns the page on which a browser shows the OpenAPI document as a reference of the API."""
    return await send("reference.html", request)


@router.get("/static/{path:path}", include_in_schema=False)
async def static(path: str, request: Request) -> Response:
    """Returns a file of the page."""
    return await send(path, request)


DIALECT = Dialect((router,))
