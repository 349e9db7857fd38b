"""Web pages of other sites: DNS rebinding, CORS, and requests that need no preflight."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from service.api.access import Hosts
from service.errors import ForbiddenError, MisdirectedError
from service.settings import Settings
from tests.api.conftest import Serve, ServeLive
from tests.api.servers import Server, assert_error, translation
from tests.workers import LIMIT_SECONDS

HELLO = translation("Hello.")
ORIGIN = "https://example.org"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type",
}


def test_rebinding_request_is_refused(serve_live: ServeLive) -> None:
    """The name of another site points to this server, so only the header Host shows it."""
    url = f"http://127.0.0.1:{serve_live(allowed_hosts=()).port}"
    with httpx.Client(base_url=url, trust_env=False, timeout=LIMIT_SECONDS) as client:
        for host in ("evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example"):
            for method, path in (("POST", "/translate"), ("GET", "/languages"), ("GET", "/")):
                response = client.request(method, path, headers={"host": host}, json=HELLO)
                assert response.status_code == 421, (host, path)
        assert_error(response, MisdirectedError, "localhost.evil.example", "REGARD_ALLOWED_HOSTS")
        for host in (
            "localhost:8000",
            "127.0.0.1",
            "[::1]:80",
            "10.0.0.7",
            "LOCALHOST.",
            "a.localhost",
        ):
            assert client.get("/languages", headers={"host": host}).status_code == 200, host


@pytest.mark.parametrize(
    ("allowed", "bound", "accepted", "refused"),
    [
        ((), "127.0.0.1", ("localhost", "127.0.0.2"), ("regard", "")),
        ((), "::1", ("localhost", "[::1]:1"), ("regard",)),
        ((), "localhost", ("localhost",), ("regard",)),
        ((), "0.0.0.0", ("regard", "a.b:1"), ()),
        ((), "::", ("regard",), ()),
        (("A.example.org",), "0.0.0.0", ("a.example.org:80", "10.1.1.1"), ("regard", "localhost")),
        (("*.example.org",), "127.0.0.1", ("a.b.example.org",), ("example.org", "xexample.org")),
        (("*",), "127.0.0.1", ("regard",), ()),
    ],
)
def test_allowed_hosts(
    allowed: tuple[str, ...], bound: str, accepted: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    hosts = Hosts(allowed, bound)
    assert hosts.allows_all == (not refused)
    for _ in range(2):
        for host in accepted if refused else ():
            hosts.check(host.encode())
        for host in refused:
            with pytest.raises(MisdirectedError):
                hosts.check(host.encode())


def test_page_of_another_origin_is_refused(serve_live: ServeLive) -> None:
    url = f"http://127.0.0.1:{serve_live().port}"
    with httpx.Client(base_url=url, trust_env=False, timeout=LIMIT_SECONDS) as client:
        for headers in (
            {"origin": ORIGIN},
            {"origin": "null"},
            {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
            {"origin": url, "sec-fetch-site": "cross-site"},
            {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"},
            {"origin": "http://127.0.0.1:1"},
        ):
            response = client.post("/translate", json=HELLO, headers=headers)
            assert_error(response, ForbiddenError, headers["origin"], "REGARD_ALLOWED_ORIGINS")
        found = client.get("/languages", headers={"origin": ORIGIN})
        assert not [name for name in found.headers if name.startswith("access-control")]
        preflight = client.options("/translate", headers={"origin": ORIGIN, **PREFLIGHT})
        assert preflight.status_code == 400
        assert "access-control-allow-origin" not in preflight.headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost"},
        {"origin": "https://proxy.example", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin"},
        {"origin": "chrome-extension://abc"},
    ],
)
def test_own_page_and_programs_are_served(server: Server, headers: dict[str, str]) -> None:
    assert server.post("/translate", json=HELLO, headers=headers).status_code == 200


def test_listed_origin_may_call(serve: Serve) -> None:
    server = serve(allowed_origins=("HTTPS://example.org/", "app://obsidian.md"))
    for origin in (ORIGIN, "app://obsidian.md"):
        headers = {"origin": origin, "sec-fetch-site": "cross-site"}
        for response in (
            server.post("/translate", json=HELLO, headers=headers),
            server.post("/translate", json={}, headers=headers),
            server.begin("OPTIONS", "/translate", headers={**headers, **PREFLIGHT}).result(),
        ):
            assert response.status_code in (200, 400)
            assert response.headers["access-control-allow-origin"] == origin
            assert "Origin" in response.headers["vary"]
    other = {"origin": "https://example.org.evil.example"}
    response = server.post("/translate", json=HELLO, headers=other)
    assert_error(response, ForbiddenError)
    assert "access-control-allow-origin" not in response.headers
    assert "Origin" in response.headers["vary"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed_hosts", "https://example.org"),
        ("allowed_hosts", "example.org:80"),
        ("allowed_hosts", "a.*.org"),
        ("allowed_origins", "example.org"),
        ("allowed_origins", "https://*.example.org"),
        ("allowed_origins", "https://example.org/page"),
    ],
)
def test_wrong_list_stops_the_start(name: str, value: str) -> None:
    make: Callable[[dict[str, Any]], Settings] = Settings.model_validate
    with pytest.raises(ValueError, match="write it"):
        make({name: value})
