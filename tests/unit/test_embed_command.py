"""`regard embed` against a server whose vectors are made from the lengths of texts."""

import base64
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pyarrow import parquet
from typer.testing import CliRunner, Result

from service.files import embed as embed_module
from service.files.client import MAX_TEXTS
from service.files.embed import Vectors, app
from tests.unit.bench_server import Answer, reply_bytes, served

SIZE = 3
TEXT = "one\n\n  \r\ntwo words\r\nçà\none"
LINES = ["one", "", "  ", "two words", "çà", "one"]


def row(text: str) -> list[float]:
    return [len(text) / 3, 0.1, -1.0] if text.strip() else [0.0] * SIZE


def rows(lines: list[str]) -> Vectors:
    return np.array([row(line) for line in lines], np.float32)


class Lengths:
    """Answers as both routes, and counts texts of more than 5 characters as truncated."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.statuses: list[int] = []

    def __call__(self, path: str, body: bytes) -> bytes:
        fields = json.loads(body)
        self.requests.append((path, fields))
        if self.statuses:
            error = {"error": {"message": "no such model"}}
            return reply_bytes(self.statuses.pop(), json.dumps(error).encode())
        texts = fields["input" if path == "/v1/embeddings" else "inputs"]
        vectors = rows(texts)
        coded = [{"embedding": base64.b64encode(vector).decode()} for vector in vectors]
        reply: Any = vectors.tolist() if path == "/embed" else {"data": coded}
        num_long = sum(len(text) > 5 for text in texts)
        head, _, rest = reply_bytes(200, json.dumps(reply).encode()).partition(b"\r\n")
        return head + b"\r\nX-Truncated-Inputs: %d\r\n" % num_long + rest


def embed(answer: Answer, *arguments: str | Path, text: str = "") -> Result:
    with served(answer) as url:
        given = [*map(str, arguments), "--url", url]
        return CliRunner().invoke(app, given, input=text.encode())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_bytes(TEXT.encode())
    return path


@pytest.mark.parametrize("flag", ["--normalize", "--no-normalize"])
def test_row_belongs_to_its_line(flag: str, source: Path, tmp_path: Path) -> None:
    server, output = Lengths(), tmp_path / "new" / "vectors.npy"
    server.statuses = [503]
    result = embed(server, source, "--output", output, flag)
    assert result.exit_code == 0, result.output
    assert "6 lines; 1 of them were too long" in result.output
    vectors = np.load(output, mmap_mode="r")
    assert (vectors.dtype, vectors.flags.c_contiguous) == (np.dtype("<f4"), True)
    assert_array_equal(vectors, rows(LINES))
    assert [*output.parent.iterdir()] == [output]


def test_many_lines_of_the_standard_input_stay_in_order(tmp_path: Path) -> None:
    lines = ["", "", *(f"line {number} " * (number % 7) for number in range(3000)), ""]
    server, output = Lengths(), tmp_path / "vectors.npy"
    output.write_text("older")
    result = embed(server, "-", "-o", output, "--requests", "3", text="\n".join(lines) + "\n")
    assert result.exit_code == 0, result.output
    assert_array_equal(np.load(output), rows(lines))
    assert all(0 < len(fields["input"]) <= MAX_TEXTS for _, fields in server.requests)


@pytest.mark.parametrize("group_rows", [2, 8192])
def test_parquet_has_texts_and_vectors(
    group_rows: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed_module, "ROW_GROUP_ROWS", group_rows)
    output = tmp_path / "vectors.parquet"
    assert embed(Lengths(), source, "-o", output).exit_code == 0
    table = parquet.read_table(output)
    assert table.column_names == ["text", "vector"]
    assert str(table.schema.field("vector").type) == f"fixed_size_list<element: float>[{SIZE}]"
    assert table["text"].to_pylist() == LINES
    assert_array_equal(np.stack(table["vector"].to_numpy()), rows(LINES))


def test_options_reach_the_server(source: Path, tmp_path: Path) -> None:
    server = Lengths()
    options = ("--model", "m", "--prompt-name", "query", "--dimensions", "3", "--no-truncate")
    arguments = (source, "-o", tmp_path / "v.npy", *options, "--api-key", "k")
    assert embed(server, *arguments).exit_code == 0
    assert embed(server, *arguments, "--no-normalize").exit_code == 0
    texts = [line for line in LINES if line.strip()]
    given = {"model": "m", "prompt_name": "query", "dimensions": 3, "truncate": False}
    assert server.requests == [
        ("/v1/embeddings", {"input": texts, "encoding_format": "base64", **given}),
        ("/embed", {"inputs": texts, "normalize": False, **given}),
    ]


WRONG = {
    "one vector is missing": b'{"data": []}',
    "another kind of reply": b'["text"]',
    "vectors that are cut short": json.dumps({"data": [{"embedding": "AAAA"}] * 4}).encode(),
    "no JSON": b"<html>",
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_reply_without_vectors_ends_the_command(body: bytes, source: Path, tmp_path: Path) -> None:
    result = embed(lambda path, _: reply_bytes(200, body), source, "-o", tmp_path / "v.npy")
    assert result.exit_code == 1
    assert "is it a Regard server?" in result.output
    assert [*tmp_path.iterdir()] == [source]


def test_vectors_of_two_sizes_end_the_command(tmp_path: Path) -> None:
    def answer(_path: str, body: bytes) -> bytes:
        texts = json.loads(body)["inputs"]
        return reply_bytes(200, json.dumps([[1.0] * len(texts)] * len(texts)).encode())

    text = "line\n" * (MAX_TEXTS + 1)
    result = embed(answer, "-", "-o", tmp_path / "v.npy", "--no-normalize", text=text)
    assert result.exit_code == 1
    assert f"vectors of {MAX_TEXTS} and of 1 values" in result.output
    assert not [*tmp_path.iterdir()]


def test_refusal_keeps_the_older_output(source: Path, tmp_path: Path) -> None:
    server, output = Lengths(), tmp_path / "v.npy"
    output.write_text("older")
    server.statuses = [404]
    result = embed(server, source, "-o", output)
    assert (result.exit_code, output.read_text()) == (1, "older")
    assert "answered 404: no such model" in result.output


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "v.npy", "has no text: all its lines are blank"),
        (b"\n \n\n", "v.parquet", "has no text: all its lines are blank"),
        (b"one\n\xff\n", "v.npy", "line 2 of"),
        (b"one\n", "v.csv", "end its name in .npy or .parquet"),
        (None, "v.npy", "No such file"),
    ],
)
def test_wrong_file_gets_a_clear_error(
    content: bytes | None, name: str, message: str, tmp_path: Path
) -> None:
    source = tmp_path / "lines.txt"
    if content is not None:
        source.write_bytes(content)
    result = embed(Lengths(), source, "-o", tmp_path / name)
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / name).exists()


def test_parquet_without_pyarrow_names_the_way_out(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    server = Lengths()
    result = embed(server, source, "-o", tmp_path / "v.parquet")
    assert result.exit_code == 1
    assert "pip install 'regard[parquet]'" in result.output
    assert not server.requests


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_leaves_no_file(
    number: signal.Signals, code: int, source: Path, tmp_path: Path
) -> None:
    def answer(_path: str, _body: bytes) -> None:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # an impatient user
        time.sleep(0.2)  # the connection is closed after the signal has been handled

    result = embed(answer, source, "-o", tmp_path / "v.npy")
    assert result.exit_code == code, result.output
    assert [*tmp_path.iterdir()] == [source]


def test_models_do_not_apply_to_a_running_server(source: Path, tmp_path: Path) -> None:
    server = Lengths()
    result = embed(server, source, "-o", tmp_path / "v.npy", "--models", "package:x")
    assert (result.exit_code, server.requests) == (1, [])
    assert "--models does not apply" in result.output
