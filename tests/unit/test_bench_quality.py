import json
import sys
from pathlib import Path

import pytest

from benchmarks.bench.client import BenchError
from benchmarks.bench.correctness import Scorer
from benchmarks.bench.texts import read_lines, split_pair
from tests.unit.bench_server import Answer, FakeTranslator, bench, reply_bytes, served


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {
        "source": "the cat sat on the mat\na red house by the sea\nit is late now\n",
        "reference": "THE CAT SAT ON THE MAT\nA RED HOUSE BY THE SEA\nIT IS LATE NOW\n",
        "compare": "THE CAT SAT ON THE MAT\nA BLUE HOUSE BY THE SEA\nIT IS EARLY NOW\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in texts}


def flags(files: dict[str, Path]) -> list[str]:
    return [part for name, file in files.items() for part in (f"--{name}", str(file))]


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes("um\u2028dois\r\n\ntr\rês\x0c!\n".encode())
    assert read_lines(file) == ["um\u2028dois", "", "tr\rês\x0c!"]


@pytest.mark.parametrize(("content", "fault"), [(b"\n \n", "is empty"), (b"\xff", "is not UTF-8")])
def test_file_without_readable_sentences_is_refused(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    file = tmp_path / "text"
    file.write_bytes(content)
    with pytest.raises(BenchError, match=fault):
        read_lines(file)


def test_pair_splits_at_its_first_dash() -> None:
    assert split_pair("en-zh-Hans") == ("en", "zh-Hans")
    for pair in ("en", "-pt", "en-"):
        with pytest.raises(BenchError, match="give it as en-pt"):
            split_pair(pair)


def test_quality_translates_in_order_and_scores(files: dict[str, Path]) -> None:
    fake = FakeTranslator()
    output = files["source"].with_name("output")
    with served(fake) as url:
        arguments = ["--batch", "2", "--clients", "2", "--url", url, "--json"]
        result = bench("quality", *flags(files), "--output", output, *arguments)
    assert result.exit_code == 0, result.output
    scores = json.loads(result.stdout)
    assert scores["scores"] == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    assert 0 < scores["compared"]["bleu"] < 100
    assert (scores["sentences"], scores["equal"]) == (3, 1)
    assert "tok:13a" in scores["signatures"][0]
    assert output.read_text() == files["reference"].read_text()
    assert sorted(len(request["q"]) for request in fake.requests) == [1, 2]


@pytest.mark.parametrize(("flag", "is_split"), [([], False), (["--split"], True)])
def test_quality_takes_a_line_as_one_sentence_unless_told(
    files: dict[str, Path], flag: list[str], is_split: bool
) -> None:
    fake = FakeTranslator()
    with served(fake) as url:
        result = bench("quality", *flags(files), "--url", url, *flag)
    assert result.exit_code == 0, result.output
    assert [request["split_sentences"] for request in fake.requests] == [is_split]


def test_quality_prints_scores_with_their_signatures(files: dict[str, Path]) -> None:
    with served(FakeTranslator()) as url:
        result = bench("quality", *flags(files), "--url", url)
    assert result.exit_code == 0, result.output
    for part in ("100.00", "tok:13a", "1 equal", "sentences/s"):
        assert part in result.stdout


def test_line_break_in_a_translation_does_not_break_the_output_file(
    files: dict[str, Path], tmp_path: Path
) -> None:
    class TwoLines(FakeTranslator):
        def translate(self, texts: list[str]) -> list[str]:
            return [text.replace(" ", "\n") for text in texts]

    files.pop("compare")
    output = tmp_path / "output"
    with served(TwoLines()) as url:
        bench("quality", *flags(files), "--output", output, "--url", url)
    assert output.read_text() == files["source"].read_text()


def test_quality_names_both_line_counts_when_they_differ(files: dict[str, Path]) -> None:
    files["reference"].write_text("one line\n")
    result = bench("quality", *flags(files))
    assert result.exit_code == 1
    assert "has 3 lines" in result.stderr
    assert "has 1;" in result.stderr


SHORT = reply_bytes(200, b'{"translatedText": ["one"]}')


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (FakeTranslator(fails=lambda number: True), "answered 429 to a request with 3 text(s)"),
        (lambda path, body: SHORT, '["one"]'),
        (lambda path, body: reply_bytes(200, b"<html>"), "<html>"),
        (lambda path, body: None, "is the server running?"),
    ],
)
def test_quality_shows_what_the_server_answered(
    files: dict[str, Path], answer: Answer, shown: str
) -> None:
    with served(answer) as url:
        result = bench("quality", *flags(files), "--url", url)
    assert result.exit_code == 1
    assert shown in result.stderr


def test_missing_sacrebleu_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(BenchError, match=r"pip install 'regard\[bench\]'"):
        Scorer(["one"])
