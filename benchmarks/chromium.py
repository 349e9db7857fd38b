"""Finds and starts a Chromium without windows that reaches one server only."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright

NAMES = (
    "chromium-headless-shell",  # the engine of Chromium without its windows: a third less CPU time
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
)
OPTIONS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def running_chromium(path: str, address: str) -> Iterator[Browser]:
    """Yields a browser that resolves no host name but that of an address.

    A route of Playwright could refuse other hosts too, but then each request of the page passes
    through this process.
    """
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    only = f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {urlsplit(address).hostname}"
    with sync_playwright() as playwright:
        args = [*OPTIONS, only, *sandbox]
        browser = playwright.chromium.launch(executable_path=path, args=args)
        yield browser
        browser.close()
