"""The pages that may call the server: CORS headers, preflights, and the check of the origin.

A browser sends the origin of a page, such as `https://example.org`. Pages of the server itself
always work. Pages of other origins need the setting REGARD_ALLOWED_ORIGINS.
"""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.access.hosts import ANY
from service.errors import SHOWN_CHARS, ForbiddenError

RawHeaders = Sequence[tuple[bytes, bytes]]

MAX_AGE_SECONDS = 20 * 24 * 3600
METHODS = "GET, POST"
MORE_METHODS = ("DELETE", "PATCH", "PUT")
"""Methods that a response to a preflight allows only if the page asks for one of them."""

HEADERS = (
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-allow-methods", METHODS.encode()),
    (b"access-control-max-age", str(MAX_AGE_SECONDS).encode()),
    (
        b"access-control-expose-headers",
        b"Retry-After, Server-Timing, X-Request-Id, X-Trace-ID, X-Truncated-Inputs",
    ),
)
"""CORS headers of all responses to a page of an allowed origin.

`Origins.response_headers` adds Access-Control-Allow-Origin.

The response to a preflight also allows every header for which the page asks.
"""

SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing and compute nothing. `Origins.check` accepts them from every page.

Without CORS headers, a browser does not let a page of another origin read the response.
"""

OWN_SITE = (b"same-origin", b"none")
"""Values of Sec-Fetch-Site in requests that come from the server's own pages or from no page."""


class Origins:
    """Decides which pages may call the server.

    Args:
        allowed: Allowed origins, in addition to the server's own. `*` allows all origins.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = {origin.lower().removesuffix("/").encode() for origin in allowed}
        self.allows_all = ANY in allowed

    def response_headers(self, request_headers: RawHeaders) -> RawHeaders:
        """Returns the CORS headers of the response to a request."""
        if self.allows_all:
            return ((b"access-control-allow-origin", b"*"), *HEADERS)
        if not self.allowed:
            return ()
        varies = (b"vary", b"Origin")
        for name, value in request_headers:
            if name == b"origin" and value.lower() in self.allowed:
                return ((b"access-control-allow-origin", value), varies, *HEADERS)
        return (varies,)

    def check(self, method: str, headers: RawHeaders) -> None:
        """Refuses a request from a page whose origin is not allowed.

        Only requests with the header Origin are checked. Browsers send Origin with every request
        whose method is not in SAFE. Over TLS and to localhost, browsers also send Sec-Fetch-Site.
        An origin in REGARD_ALLOWED_ORIGINS is allowed. Any other page must be the server's own: the
        value of Sec-Fetch-Site must be in OWN_SITE. If this header is absent, the origin must match
        the header Host. Programs other than browsers send no Origin, or an Origin that is neither a
        web address nor `null`. Their requests are accepted.

        Raises:
            ForbiddenError: The origin is not allowed.
        """
        if self.allows_all or method in SAFE:
            return
        for name, value in headers:
            if name == b"origin":
                self._check(value.lower(), dict(headers))

    def _check(self, origin: bytes, sent: dict[bytes, bytes]) -> None:
        if origin in self.allowed or not origin.startswith((b"http:", b"https:", b"null")):
            return
        site = sent.get(b"sec-fetch-site")
        if site in OWN_SITE:
            return
        if site is None and origin.partition(b"://")[2] == sent.get(b"host", b"").lower():
            return
        shown = origin.decode("latin-1")[:SHOWN_CHARS]
        raise ForbiddenError(
            f"pages of {shown} may not call this server",
            details="add the origin to REGARD_ALLOWED_ORIGINS, such as "
            "REGARD_ALLOWED_ORIGINS=https://example.org; * allows all pages",
        )


class CrossOrigin(CORSMiddleware):
    """Answers the preflights of pages of other origins.

    A preflight is an OPTIONS request with the header Access-Control-Request-Method. Responses to
    other requests get their CORS headers from `service.api.middleware.ResponseSender`. As in
    LibreTranslate, these headers allow GET and POST. The response to a preflight allows
    MORE_METHODS only if the page asks for one of them.

    Args:
        app: The wrapped application.
        allowed: Allowed origins; `*` allows all.
    """

    def __init__(self, app: ASGIApp, allowed: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=[origin.lower().removesuffix("/") for origin in allowed],
            allow_methods=[*METHODS.split(", "), *MORE_METHODS],
            allow_headers=["*"],  # OpenAI's library sends a dozen headers named X-Stainless-…
            max_age=MAX_AGE_SECONDS,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Returns the response to a preflight."""
        response = super().preflight_response(request_headers)
        if request_headers["access-control-request-method"] not in MORE_METHODS:
            response.headers["access-control-allow-methods"] = METHODS
        return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a preflight, or passes a request on."""
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)
