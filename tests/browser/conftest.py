"""A real Chromium in front of a server; every page is watched for what it must never do.

REGARD_BROWSER_SERVER is the address of a server that runs; without it, a server with the built-in
models is started. Tests take what they expect from the same server.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from benchmarks.chromium import NAMES, find_chromium, running_chromium
from service.files.private_server import running_server
from tests.browser.reader import Reader

LIMIT_MILLISECONDS = 30_000


@dataclass
class Watch:
    """What has happened in the pages of a test that must not happen.

    Attributes:
        allowed: Patterns of faults that the test provokes.
        faults: What was logged as an error, thrown, or refused by the policy.
        foreign: Requests to another host; none was let through.
    """

    address: str
    allowed: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def allow(self, pattern: str) -> None:
        self.allowed.append(pattern)

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def see(self, request: Request) -> None:
        """Notes a request to another host; `running_chromium` keeps the browser from finding it."""
        if request.url.startswith(("http", "ws")) and not request.url.startswith(self.address):
            self.foreign.append(request.url)

    def check(self) -> None:
        unknown = [f for f in self.faults if not any(re.search(p, f) for p in self.allowed)]
        assert not unknown
        assert not self.foreign


@dataclass(frozen=True)
class Api:
    """The same server for a plain client."""

    client: httpx.Client

    def get(self, path: str) -> Any:
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, **body: Any) -> Any:
        response = self.client.post(path, json=body)
        assert response.status_code == 200, response.text
        return response.json()

    def translate(self, q: str, source: str = "en", target: str = "pt", **body: Any) -> Any:
        asked = {"q": q, "source": source, "target": target, "return_alignment": True} | body
        return self.post("/translate", **asked)

    def attention(self, text: str, source: str = "en", target: str = "pt", **body: Any) -> Any:
        reply = self.post("/attention", text=text, source=source, target=target, **body)
        (item,) = reply["items"]
        return item

    def heads(self, text: str, **body: Any) -> Any:
        """Returns the weights of heads by word, unless the body says otherwise: (L, H, T, S)."""
        item = self.attention(text, reduce="none", **({"level": "word"} | body))
        return np.array(item["attentions"][0]["data"])

    def embedding(self, text: str, **body: Any) -> Any:
        """Returns the attention of an embedding model for a text."""
        (item,) = self.post("/attention", text=text, task="embed", **body)["items"]
        return item

    def shape(self, name: str = "en-pt") -> Any:
        return self.model(name)["attention"]

    def model(self, name: str = "en-pt") -> Any:
        models = self.get("/v1/models")["data"]
        return next(model for model in models if model["id"] == name)


@pytest.fixture(scope="session")
def chromium() -> str:
    found = find_chromium()
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed; `make browser` tells how")
    return found


@pytest.fixture(scope="session")
def address(chromium: str) -> Iterator[str]:
    variables = {"REGARD_FILES": "true"}
    with running_server(os.environ.get("REGARD_BROWSER_SERVER"), variables=variables) as found:
        yield found.rstrip("/")


@pytest.fixture(scope="package")
def browser(chromium: str, address: str) -> Iterator[Browser]:
    """One for the tests of this folder.

    While Playwright runs, this thread has an event loop, and other tests need one of their own.
    The server therefore starts before the browser, and the browser ends with the folder.
    """
    expect.set_options(timeout=LIMIT_MILLISECONDS)
    with running_chromium(chromium, address) as browser:
        yield browser


@pytest.fixture
def api(address: str) -> Iterator[Api]:
    with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        yield Api(client)


@pytest.fixture
def embedder(api: Api) -> str:
    """The name of the embedding model."""
    found = [model["id"] for model in api.get("/v1/models")["data"] if model["task"] == "embed"]
    if not found:
        pytest.skip("the server has no embedding model: `make install` gets one")
    return str(found[0])


@pytest.fixture
def watch(address: str) -> Watch:
    return Watch(address)


@pytest.fixture
def options() -> dict[str, Any]:
    """How the browser is; tests override it by parametrising."""
    return {}


@pytest.fixture
def remembered() -> dict[str, str]:
    """The choices of earlier visits, in the browser's storage; tests override it."""
    return {"regard-look": "open"}


REMEMBER = """(remembered) => {
    if (location.protocol === 'about:') return;
    for (const [name, value] of Object.entries(remembered)) {
        if (localStorage.getItem(name) === null) localStorage.setItem(name, value);
    }
}"""


@dataclass(frozen=True)
class Profiles:
    """Contexts for many tests, by their options. A new context loads all files of the page again.

    Attributes:
        opened: The contexts by their options and remembered choices, as JSON.
    """

    browser: Browser
    address: str
    opened: dict[str, BrowserContext] = field(default_factory=dict)

    def context(self, options: dict[str, Any], remembered: dict[str, str]) -> BrowserContext:
        key = json.dumps([options, remembered])
        if key not in self.opened:
            usual: dict[str, Any] = {
                "base_url": self.address,
                "viewport": {"width": 1280, "height": 900},
                "locale": "en-GB",
            }
            context = self.browser.new_context(**usual | options)
            context.set_default_timeout(LIMIT_MILLISECONDS)
            context.grant_permissions(["clipboard-read", "clipboard-write"], origin=self.address)
            context.add_init_script(f"({REMEMBER})({json.dumps(remembered)})")
            self.opened[key] = context
        return self.opened[key]

    @contextmanager
    def watched(self, context: BrowserContext, watch: Watch) -> Iterator[Page]:
        """Yields a new page, in which the choices of other tests are forgotten."""
        context.on("request", watch.see)
        page = context.new_page()
        storage = {"origin": self.address, "storageTypes": "local_storage"}
        context.new_cdp_session(page).send("Storage.clearDataForOrigin", storage)
        page.on("console", watch.hear)
        page.on("pageerror", lambda error: watch.faults.append(str(error)))
        yield page
        page.close()
        context.remove_listener("request", watch.see)
        watch.check()

    def close(self) -> None:
        for context in self.opened.values():
            context.close()
        self.opened.clear()


@pytest.fixture(scope="package")
def profiles(browser: Browser, address: str) -> Profiles:
    return Profiles(browser, address)


@pytest.fixture
def context(
    profiles: Profiles, options: dict[str, Any], remembered: dict[str, str]
) -> BrowserContext:
    return profiles.context(options, remembered)


@pytest.fixture
def page(profiles: Profiles, context: BrowserContext, watch: Watch) -> Iterator[Page]:
    with profiles.watched(context, watch) as page:
        yield page


@pytest.fixture
def _own_profile(profiles: Profiles) -> Iterator[None]:
    """Lets no other test get the context, whose clock or network this test changes."""
    yield
    profiles.close()


@pytest.fixture
def reader(page: Page) -> Reader:
    return Reader(page)
