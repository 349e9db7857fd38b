"""Requests that the client refuses, and requests that it repeats."""

import httpx2
import pytest

from service.models.registry.errors import DownloadError
from service.models.registry.sources.http_client import HttpClient, open_client, shown
from service.models.registry.sources.hub import _is_private
from tests.registry import FakeRegistry, Fault


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/x", True),
        ("http://127.0.0.1:80/x", True),
        ("http://localhost/x", True),
        ("http://example.org/x", False),
        ("http://127.0.0.1.example.org/x", False),
    ],
)
def test_token_is_sent_only_over_https_or_to_this_machine(url: str, expected: bool) -> None:
    assert _is_private(url) is expected


@pytest.mark.parametrize("location", ["http://example.org/y", "HTTP://other.org/y"])
def test_redirect_from_https_to_http_is_refused(location: str) -> None:
    client = open_client()
    redirect = httpx2.Response(302, headers={"Location": location})
    client._transport = httpx2.MockTransport(lambda request: redirect)
    with pytest.raises(DownloadError, match=r"https://example\.org/x redirects away from https"):
        client.get("https://example.org/x?signature=secret")


def test_message_has_neither_password_nor_query() -> None:
    assert shown("https://me:secret@example.org:1/a?signature=secret") == "https://example.org:1/a"


def test_address_of_a_local_file_is_refused() -> None:
    with pytest.raises(DownloadError, match=r"file:///etc/hostname cannot be fetched: .*protocol"):
        HttpClient(sleep=lambda seconds: None).read_json("file:///etc/hostname")


def test_answer_that_breaks_off_is_requested_again() -> None:
    with FakeRegistry() as registry:
        registry.files["/x"] = b'{"a": [1, 2]}'
        registry.faults["/x"] = [Fault(cut=5), Fault(status=500)]
        http = HttpClient(sleep=lambda seconds: None)
        assert http.read_json(f"{registry.url}/x") == {"a": [1, 2]}
        assert len(registry.asked) == 3


def test_redirects_in_a_circle_end() -> None:
    with FakeRegistry() as registry:
        registry.moved["/x"] = "/x"
        with pytest.raises(DownloadError, match="/x cannot be fetched: .*redirects"):
            HttpClient(sleep=lambda seconds: None).read_json(f"{registry.url}/x")
