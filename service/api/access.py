"""The rules that refuse requests because of their host, their page or their port.

- The header Host is checked to prevent DNS rebinding. There, the owner of another site changes its
  DNS entry to the address of this server. Its pages may then read the replies of this server.
- A browser sends the origin of a page, such as `https://example.org`. Pages of the server itself
  always work. Pages of other origins need the setting REGARD_ALLOWED_ORIGINS.
- With an admin port, /metrics and the loading and unloading of models are hidden on other ports.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from service.api import error_texts
from service.errors import SHOWN_CHARS, ForbiddenError, MisdirectedError
from service.http_server.early_refusals import RawHeaders
from service.settings import Settings

ANY = "*"

LOCAL = ("localhost", "*.localhost")  # names that always point to this machine
MAX_KNOWN = 1024  # largest number of allowed Host headers that are remembered and not checked again


class Hosts:
    """Decides whether the server answers requests for a host.

    An IP address is always allowed, because rebinding needs a name. A request without the header
    Host is allowed too: it comes from no browser, because every browser sends this header.

    Without allowed names, a server on a loopback address allows the names of this machine, and any
    other server allows all names.
    """

    def __init__(self, allowed: Sequence[str], bound: str) -> None:
        default = (*LOCAL, bound) if is_loopback(bound) else (ANY,)
        names = [name.lower() for name in allowed] or default
        self.allows_all = ANY in names
        self.names = {name for name in names if not name.startswith("*.")}
        self.suffixes = tuple(name[1:] for name in names if name.startswith("*."))
        self.check = lru_cache(MAX_KNOWN)(self._check)

    def _check(self, header: bytes) -> None:
        host = host_of(header.decode("latin-1"))
        if not (host in self.names or host.endswith(self.suffixes) or is_address(host)):
            raise MisdirectedError(
                f"this server does not answer for the host {host[:SHOWN_CHARS]}",
                details="send the request to a name in REGARD_ALLOWED_HOSTS or to an IP address, "
                "or add the name to REGARD_ALLOWED_HOSTS",
            )


def host_of(header: str) -> str:
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    if is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost" or host.lower().endswith(".localhost")


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
"""CORS headers of all responses to a page of an allowed origin."""

SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change and compute nothing. `Origins.check` accepts them from every page."""

OWN_SITE = (b"same-origin", b"none")
"""Values of Sec-Fetch-Site in requests that come from the server's own pages or from no page."""


class Origins:
    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = {origin.lower().removesuffix("/").encode() for origin in allowed}
        self.allows_all = ANY in allowed
        # The CORS headers of all responses; None if they depend on the request.
        self.headers: RawHeaders | None = None if self.allowed else ()
        if self.allows_all:
            self.headers = ((b"access-control-allow-origin", b"*"), *HEADERS)

    def response_headers(self, request_headers: RawHeaders) -> RawHeaders:
        varies = (b"vary", b"Origin")
        for name, value in request_headers:
            if name == b"origin" and value.lower() in self.allowed:
                return ((b"access-control-allow-origin", value), varies, *HEADERS)
        return (varies,)

    def check(self, method: str, headers: RawHeaders) -> None:
        """Refuses a request from a page whose origin is not allowed.

        A page of the server itself has a value of OWN_SITE or, in old browsers, an origin that
        matches the header Host. Programs send no Origin, or one that is no web address.
        """
        sent = dict(headers)
        site, host = sent.get(b"sec-fetch-site"), sent.get(b"host", b"").lower()
        if self.allows_all or method in SAFE or site in OWN_SITE:
            return
        for origin in (value.lower() for name, value in headers if name == b"origin"):
            is_page = origin.startswith((b"http:", b"https:", b"null"))
            is_own = site is None and origin.partition(b"://")[2] == host
            if is_page and not is_own and origin not in self.allowed:
                shown = origin.decode("latin-1")[:SHOWN_CHARS]
                raise ForbiddenError(
                    f"pages of {shown} may not call this server",
                    details="add the origin to REGARD_ALLOWED_ORIGINS, such as "
                    "REGARD_ALLOWED_ORIGINS=https://example.org; * allows all pages",
                )


class CrossOrigin(CORSMiddleware):
    def __init__(self, app: ASGIApp, allowed: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=[origin.lower().removesuffix("/") for origin in allowed],
            allow_methods=[*METHODS.split(", "), *MORE_METHODS],
            allow_headers=["*"],  # OpenAI's library sends a dozen headers named X-Stainless-…
            max_age=MAX_AGE_SECONDS,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if request_headers["access-control-request-method"] not in MORE_METHODS:
            response.headers["access-control-allow-methods"] = METHODS
        return response


class AccessRules:
    """The rules of one server; without an admin port (0), all routes are on every port."""

    def __init__(self, settings: Settings) -> None:
        self.hosts = Hosts(settings.allowed_hosts, settings.host)
        self.origins = Origins(settings.allowed_origins)
        self.admin_port = settings.admin_port

    def check(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host")
        if host is not None and not self.hosts.allows_all:
            self.hosts.check(host)
        if b"origin" in headers:
            self.origins.check(scope["method"], scope["headers"])
        if not self.admin_port:
            return
        method, path = scope["method"], scope["path"]
        changes_models = method in ("POST", "DELETE") and path.startswith("/v1/models/")
        if path == "/metrics" or changes_models:
            server = scope.get("server")
            if server is None or server[1] != self.admin_port:
                raise error_texts.unknown_path()
