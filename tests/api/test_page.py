"""GET / and the files of the page; what it does in a browser is tested in tests/browser."""

import re
from pathlib import Path

import pytest

from service.api.page import BUNDLES, FOLDER, files
from service.errors import NotFoundError
from tests.api.conftest import Serve
from tests.api.servers import Server, assert_error

NAMES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.*"))
PATHS = ["/", "/docs", *(f"/static/{name}" for name in NAMES)]
CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


def referenced(name: str) -> set[str]:
    text = (FOLDER / name).read_bytes().decode(errors="replace")
    if name.endswith(".html"):
        return {*re.findall(r'(?:src|href|content)="static/([^"]+)"', text)}
    if not name.endswith(".js"):
        return set()
    folder = (FOLDER / name).parent
    paths = re.findall(r"(?:from |\bimport\()'(\.[^']+)'", text)
    found = [(folder / path).resolve() for path in paths]
    return {str(path.relative_to(FOLDER)) for path in found}


@pytest.mark.parametrize("path", PATHS)
def test_file_comes_with_its_type_and_policy(server: Server, path: str) -> None:
    response = server.get(path)
    name = {"/": "index.html", "/docs": "reference.html"}.get(path, path.removeprefix("/static/"))
    assert response.status_code == 200
    body = (FOLDER / name).read_bytes()
    if name.endswith(".html"):
        versioned = f"static/{files().version}/"
        wanted = body.decode().replace('"static/', f'"{versioned}')
        if path == "/":  # links are shown with a picture, whose address must be whole
            start = f'content="{server.client.base_url}/{versioned}'
            wanted = wanted.replace(f'content="{versioned}', start)
        assert response.text == wanted
    elif name not in BUNDLES:
        assert response.content == body
    assert response.headers["content-type"] == CONTENT_TYPES[Path(name).suffix]
    assert response.headers["x-content-type-options"] == "nosniff"
    policy = response.headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert not [rule for rule in policy if "unsafe" in rule or "http" in rule or "*" in rule]


def test_origins_that_may_call_the_server_may_embed_its_page(serve: Serve) -> None:
    def framers(**settings: str) -> str:
        policy = serve(**settings).get("/").headers["content-security-policy"]
        return policy.partition("frame-ancestors ")[2]

    assert framers() == "'self'"
    assert framers(allowed_origins="https://a.example") == "'self' https://a.example"


def test_every_file_of_the_page_is_there_and_needed() -> None:
    reached, waiting = set(), ["index.html", "reference.html"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting += referenced(name) - reached
    assert reached == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_page_names_no_other_host(name: str) -> None:
    text = (FOLDER / name).read_bytes().decode(errors="replace")
    other = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", other)


@pytest.mark.parametrize("path", PATHS)
def test_known_file_is_not_sent_again(server: Server, path: str) -> None:
    first = server.get(path)
    etag = first.headers["etag"]
    assert re.fullmatch('"[0-9a-f]{32}"', etag)
    assert first.headers["cache-control"] == "no-cache"
    for known in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        again = server.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
    changed = server.get(path, headers={"if-none-match": '"other"'})
    assert (changed.status_code, changed.content) == (200, first.content)


def test_browser_stores_what_the_page_names(server: Server) -> None:
    """Each visit asked for ninety files, to hear that none had changed."""
    named = re.findall(r'(?:src|href)="(static/[^"]+)"', server.get("/").text)
    later = [path for path in BUNDLES if path.startswith("understand/")]
    named += [f"static/{files().version}/{path}" for path in later]
    assert len(named) < 10
    for path in named:
        response = server.get(f"/{path}")
        assert "immutable" in response.headers["cache-control"], path
        assert response.headers["content-encoding"] == "gzip"
        assert response.headers["vary"] == "Accept-Encoding"
        plain = server.get(f"/{path}", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == response.content
        assert plain.headers["etag"] != response.headers["etag"]
    other = server.get(f"/static/{'0' * len(files().version)}/app.js")
    assert other.status_code == 200
    assert other.headers["cache-control"] == "no-cache"  # of a server with other files


def test_page_loads_few_bytes(server: Server) -> None:
    """Before a reader opens Understand; the compressed files of the page."""
    names = re.findall(r'"static/[^/"]+/([^"]+)"', server.get("/").text)
    sizes = {name: len(files().files[name].packed) for name in [*names, "index.html"]}
    assert sum(sizes.values()) < 130_000, sizes
    modules = re.findall(r"\$modules\['([^']+)'\] =", files().files["app.js"].body.decode())
    assert not [name for name in modules if name.startswith("understand/")]


@pytest.mark.parametrize(
    "name", ["nothing.js", "..%2Fapp.py", "%2e%2e/app.py", "__init__.py", "", "%2e", "%00"]
)
def test_no_other_file_is_given(server: Server, name: str) -> None:
    assert_error(server.get(f"/static/{name}"), NotFoundError)
