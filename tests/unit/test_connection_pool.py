"""The largest number of connections of a process."""

import logging
import resource

import pytest

from service.http_server.pool import raise_descriptors


@pytest.mark.parametrize(("hard", "expected"), [(100, 1), (200, 72)])
def test_warning_names_the_allowed_connections(
    hard: int, expected: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with caplog.at_level(logging.WARNING, "regard.http"):
        assert raise_descriptors(1000) == expected
    assert f"{hard}, allows only {expected};" in caplog.text
