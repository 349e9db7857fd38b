"""`regard translate` against a server that answers in capital letters."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service.files.client import MAX_CHARS, MAX_TEXTS, in_requests
from service.files.translate import app
from tests.archives import upper


class Capitals(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    refused: list[int]
    bodies: list[bytes]

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append(data)
        body = json.loads(data)
        reply: dict[str, object]
        change = upper if body.get("format") == "html" else str.upper
        status, reply = 200, {"translatedText": [change(text) for text in body["q"]]}
        if self.refused:
            status = self.refused.pop()
            reply = {"error": "refused", "details": "too bad"}
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Capitals.refused, Capitals.bodies = [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), Capitals) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(url: str, *arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, [*arguments, "--to", "pt", "--url", url], input=text)


def test_folder_is_translated_and_continued(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("Hello\n\nworld\n")
    (folder / "sub" / "b.json").write_text('{"a": "Hi"}')
    (folder / "c.bin").write_text("Hello")
    Capitals.refused = [503]
    assert run(url, str(folder)).exit_code == 0
    found = {p.name: p.read_text() for p in (tmp_path / "in.pt").rglob("*") if p.is_file()}
    assert found == {"a.txt": "HELLO\n\nWORLD\n", "b.json": '{"a": "HI"}'}
    Capitals.refused = [400]
    again = run(url, str(folder))
    assert (again.exit_code, Capitals.refused) == (0, [400])  # nothing was sent
    Capitals.refused = []
    (folder / "bad.json").write_text("{")
    assert run(url, str(folder)).exit_code == 1
    assert not (tmp_path / "in.pt" / "bad.json").exists()


def test_translations_in_a_subfolder_are_not_translated_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Hello")
    monkeypatch.chdir(tmp_path)
    for target in ("docs/pt", str(tmp_path / "docs" / "pt"), "docs/../docs/pt"):
        assert run(url, "docs", "-o", target).exit_code == 0
    assert [p.name for p in (tmp_path / "docs" / "pt").rglob("*")] == ["a.txt"]


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_translations_replace_no_file_to_translate(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    for name in ("in/a.txt", "in/in/a.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    for source, target in (("in", str(tmp_path / "in")), ("in", "."), ("in/a.txt", "in")):
        result = run(url, source, "-o", target, *options)
        assert result.exit_code == 1
        assert "would replace the file" in result.output
    assert [Path(name).read_text() for name in ("in/a.txt", "in/in/a.txt")] == [
        "in/a.txt",
        "in/in/a.txt",
    ]


def test_folder_around_the_source_may_have_the_translations(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Hello")
    monkeypatch.chdir(tmp_path)
    assert run(url, "docs", "-o", ".").exit_code == 0
    assert (tmp_path / "a.txt").read_text() == "HELLO"


@pytest.mark.parametrize(("source", "inside"), [(".", "docs"), ("..", "docs/sub")])
def test_current_folder_and_its_parent_have_translations_beside_them(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, inside: str
) -> None:
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "docs" / "a.txt").write_text("Hello")
    monkeypatch.chdir(tmp_path / inside)
    assert run(url, source).exit_code == 0
    assert (tmp_path / "docs.pt" / "a.txt").read_text() == "HELLO"


def test_formatted_words_are_sent_as_html(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>The <b class=x>red</b> house &amp; a garden.")
    (tmp_path / "a.txt").write_text("1 < 2 &amp; <b>bold</b>")
    assert run(url, str(tmp_path), "--output", str(tmp_path / "pt")).exit_code == 0
    page = (tmp_path / "pt" / "a.html").read_text()
    assert page == "<p>THE <b class=x>RED</b> HOUSE &amp; A GARDEN."
    assert (tmp_path / "pt" / "a.txt").read_text() == "1 < 2 &AMP; <B>BOLD</B>"


def test_lines_keep_their_number(url: str) -> None:
    result = run(url, "-", text="one\n\ntwo\nthree")
    assert (result.exit_code, result.stdout) == (0, "ONE\n\nTWO\nTHREE")


def test_refusal_of_the_server_ends_the_command(url: str, tmp_path: Path) -> None:
    Capitals.refused = [400]
    (tmp_path / "a.txt").write_text("Hello")
    result = run(url, str(tmp_path / "a.txt"))
    assert result.exit_code == 1
    assert "answered 400: refused; too bad" in result.output
    assert not (tmp_path / "a.pt.txt").exists()


def test_files_after_a_refused_file_are_translated(url: str, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(name)
    Capitals.refused = [413]
    result = run(url, str(tmp_path), "-o", str(tmp_path / "pt"), "--requests", "1")
    assert result.exit_code == 1
    assert "a.txt: " in result.output
    assert "1 of 3 files could not be translated" in result.output
    assert sorted(path.name for path in (tmp_path / "pt").iterdir()) == ["b.txt", "c.txt"]


def test_letters_are_sent_in_their_own_bytes(url: str, tmp_path: Path) -> None:
    """Escapes would need three times as many bytes, and the server limits the bytes of a body."""
    (tmp_path / "a.txt").write_text("дом \U0001f600", encoding="utf-8")
    assert run(url, str(tmp_path / "a.txt")).exit_code == 0
    assert "дом \U0001f600".encode() in Capitals.bodies[-1]


def test_requests_stay_within_their_limits() -> None:
    texts = ["a" * 100] * 500 + ["b" * (MAX_CHARS + 1), "c"]
    requests = list(in_requests(texts))
    assert [text for request in requests for text in request] == texts
    assert all(len(request) <= MAX_TEXTS for request in requests)
    assert all(len(r) == 1 or sum(map(len, r)) <= MAX_CHARS for r in requests)
