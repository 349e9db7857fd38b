"""What the client never does, whoever asks it to."""

from http.client import HTTPMessage
from urllib.request import Request

import pytest

from service.models.registry.errors import DownloadError
from service.models.registry.http_client import HttpClient, _Redirects, is_private, shown
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
def test_token_is_sent_only_where_nobody_on_the_way_reads_along(url: str, expected: bool) -> None:
    assert is_private(url) is expected


def test_sealed_address_does_not_lead_to_an_open_one() -> None:
    request = Request("https://example.org/x")
    with pytest.raises(DownloadError, match="leads away from https"):
        _Redirects().redirect_request(request, None, 302, "", HTTPMessage(), "http://example.org/x")


def test_message_has_neither_password_nor_query() -> None:
    assert shown("https://me:secret@example.org:1/a?signature=secret") == "https://example.org:1/a"


def test_file_of_this_machine_is_no_address() -> None:
    with pytest.raises(DownloadError, match="unknown url type: file"):
        HttpClient(sleep=lambda seconds: None).read_json("file:///etc/hostname")


def test_answer_that_breaks_off_is_asked_for_again() -> None:
    with FakeRegistry() as registry:
        registry.files["/x"] = b'{"a": [1, 2]}'
        registry.faults["/x"] = [Fault(cut=5), Fault(status=500)]
        http = HttpClient(sleep=lambda seconds: None)
        assert http.read_json(f"{registry.url}/x") == {"a": [1, 2]}
        assert len(registry.asked) == 3


def test_redirects_in_a_circle_end() -> None:
    with FakeRegistry() as registry:
        registry.moved["/x"] = "/x"
        with pytest.raises(DownloadError, match="/x answers 302"):
            HttpClient(sleep=lambda seconds: None).read_json(f"{registry.url}/x")
