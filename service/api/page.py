"""GET /, GET /docs and GET /static/{path}: the web page, and the reference of the API.

The files are part of the package: plain HTML, CSS and ES modules that call the public API. They
need no build step and no other host, and a browser loads and runs only these files.
"""

import os
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from service.api.dialect import Dialect

router = APIRouter(tags=["page"])

FOLDER = Path(__file__).resolve().parents[1] / "static"
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",  # the page exports a drawing as PNG through a blob: URL
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    ]
)
HEADERS = {
    # The browser must revalidate a stored file, because its next version has the same name.
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageFiles(StaticFiles):
    """The files of the page, with the headers that restrict what a browser loads."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        return response


FILES = PageFiles(directory=FOLDER)


@router.get("/", response_class=HTMLResponse)
async def page(request: Request) -> Response:
    """Returns the page itself."""
    return await FILES.get_response("index.html", request.scope)


@router.get("/docs", response_class=HTMLResponse, include_in_schema=False)
async def reference(request: Request) -> Response:
    """Returns the page on which a browser shows the OpenAPI document as a reference of the API."""
    return await FILES.get_response("reference.html", request.scope)


@router.get("/static/{path:path}", include_in_schema=False)
async def static(path: str, request: Request) -> Response:
    """Returns a file of the page."""
    return await FILES.get_response(path, request.scope)


DIALECT = Dialect((router,))
