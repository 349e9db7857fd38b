"""`regard translate` against a server that answers in capital letters."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service.files.client import MAX_CHARS, MAX_TEXTS, in_requests
from service.files.translate import app
from tests.archives import upper
from tests.unit.bench_server import reply_bytes, served


class Capitals:
    """Answers with the statuses of `refused` first, the last one at first."""

    def __init__(self) -> None:
        self.url = ""
        self.refused: list[int] = []
        self.bodies: list[bytes] = []

    def __call__(self, _path: str, data: bytes) -> bytes:
        self.bodies.append(data)
        body = json.loads(data)
        if self.refused:
            return reply_bytes(self.refused.pop(), b'{"error": "refused", "details": "too bad"}')
        change = upper if body.get("format") == "html" else str.upper
        reply = {"translatedText": [change(text) for text in body["q"]]}
        return reply_bytes(200, json.dumps(reply).encode())


@pytest.fixture
def server() -> Iterator[Capitals]:
    capitals = Capitals()
    with served(capitals) as capitals.url:
        yield capitals


def run(server: Capitals, *arguments: str | Path, text: str = "") -> Result:
    given = [*map(str, arguments), "--to", "pt", "--url", server.url]
    return CliRunner().invoke(app, given, input=text)


def test_folder_is_translated_and_continued(server: Capitals, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("Hello\n\nworld\n")
    (folder / "sub" / "b.json").write_text('{"a": "Hi"}')
    (folder / "c.bin").write_text("Hello")
    server.refused = [503]
    assert run(server, folder).exit_code == 0
    found = {p.name: p.read_text() for p in (tmp_path / "in.pt").rglob("*") if p.is_file()}
    assert found == {"a.txt": "HELLO\n\nWORLD\n", "b.json": '{"a": "HI"}'}
    server.refused = [400]
    again = run(server, folder)
    assert (again.exit_code, server.refused) == (0, [400])  # nothing was sent
    server.refused = []
    (folder / "bad.json").write_text("{")
    assert run(server, folder).exit_code == 1
    assert not (tmp_path / "in.pt" / "bad.json").exists()


def test_translations_in_a_subfolder_are_not_translated_again(
    server: Capitals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Hello")
    monkeypatch.chdir(tmp_path)
    for target in ("docs/pt", str(tmp_path / "docs" / "pt"), "docs/../docs/pt"):
        assert run(server, "docs", "-o", target).exit_code == 0
    assert [p.name for p in (tmp_path / "docs" / "pt").rglob("*")] == ["a.txt"]


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_translations_replace_no_file_to_translate(
    server: Capitals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    for name in ("in/a.txt", "in/in/a.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    for source, target in (("in", str(tmp_path / "in")), ("in", "."), ("in/a.txt", "in")):
        result = run(server, source, "-o", target, *options)
        assert result.exit_code == 1
        assert "would replace the file" in result.output
    assert [Path(name).read_text() for name in ("in/a.txt", "in/in/a.txt")] == [
        "in/a.txt",
        "in/in/a.txt",
    ]


@pytest.mark.parametrize(
    ("inside", "arguments", "written"),
    [
        (".", ("docs", "-o", "."), "a.txt"),
        ("docs", (".",), "docs.pt/a.txt"),
        ("docs/sub", ("..",), "docs.pt/a.txt"),
    ],
    ids=["into the folder around", "of the current folder", "of its parent"],
)
def test_translations_of_a_folder(
    server: Capitals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    inside: str,
    arguments: tuple[str, ...],
    written: str,
) -> None:
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "docs" / "a.txt").write_text("Hello")
    monkeypatch.chdir(tmp_path / inside)
    assert run(server, *arguments).exit_code == 0
    assert (tmp_path / written).read_text() == "HELLO"


def test_formatted_words_are_sent_as_html(server: Capitals, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>The <b class=x>red</b> house &amp; a garden.")
    (tmp_path / "a.txt").write_text("1 < 2 &amp; <b>bold</b>")
    assert run(server, tmp_path, "--output", tmp_path / "pt").exit_code == 0
    page = (tmp_path / "pt" / "a.html").read_text()
    assert page == "<p>THE <b class=x>RED</b> HOUSE &amp; A GARDEN."
    assert (tmp_path / "pt" / "a.txt").read_text() == "1 < 2 &AMP; <B>BOLD</B>"


def test_lines_keep_their_number(server: Capitals) -> None:
    result = run(server, "-", text="one\n\ntwo\nthree")
    assert (result.exit_code, result.stdout) == (0, "ONE\n\nTWO\nTHREE")


def test_refusal_of_the_server_ends_the_command(server: Capitals, tmp_path: Path) -> None:
    server.refused = [400]
    (tmp_path / "a.txt").write_text("Hello")
    result = run(server, tmp_path / "a.txt")
    assert result.exit_code == 1
    assert "answered 400: refused; too bad" in result.output
    assert not (tmp_path / "a.pt.txt").exists()


def test_files_after_a_refused_file_are_translated(server: Capitals, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(name)
    server.refused = [413]
    result = run(server, tmp_path, "-o", tmp_path / "pt", "--requests", "1")
    assert result.exit_code == 1
    assert "a.txt: " in result.output
    assert "1 of 3 files could not be translated" in result.output
    assert sorted(path.name for path in (tmp_path / "pt").iterdir()) == ["b.txt", "c.txt"]


def test_letters_are_sent_in_their_own_bytes(server: Capitals, tmp_path: Path) -> None:
    """Escapes would need three times as many bytes, and the server limits the bytes of a body."""
    (tmp_path / "a.txt").write_text("дом \U0001f600", encoding="utf-8")
    assert run(server, tmp_path / "a.txt").exit_code == 0
    assert "дом \U0001f600".encode() in server.bodies[-1]


def test_requests_stay_within_their_limits() -> None:
    texts = ["a" * 100] * 500 + ["b" * (MAX_CHARS + 1), "c"]
    requests = list(in_requests(texts))
    assert [text for request in requests for text in request] == texts
    assert all(len(request) <= MAX_TEXTS for request in requests)
    assert all(len(r) == 1 or sum(map(len, r)) <= MAX_CHARS for r in requests)
