import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.bench import load
from benchmarks.bench.client import BenchError, Reply
from benchmarks.bench.load import End, LoadReport, Window
from benchmarks.bench.texts import SENTENCES
from tests.unit.bench_server import FakeTranslator, bench, metrics_text, served


def report(sentences: int = 10, rate: float = 10.0) -> LoadReport:
    return LoadReport(1, 5.0, sentences, rate, 1.0, 2.0, 3.0, {}, None, None)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([7], 99, 7), ([1, 2, 3, 4], 50, 2), (list(range(1, 101)), 95, 95)],
)
def test_percentile_is_a_value_that_was_measured(
    values: list[float], percent: float, expected: float | None
) -> None:
    assert load.percentile(values, percent) == expected


def test_rows_and_padding_are_unknown_when_nothing_ran_or_no_metrics_exist() -> None:
    same = metrics_text(rows=100, steps=10, source=500, padding=500)
    for before, after in [(same, same), ("", "")]:
        assert load.mean_decode_rows(before, after) is None
        assert load.padding_share(before, after) is None


def test_samples_of_all_other_labels_are_summed() -> None:
    before = 'a_total{kind="x",m="1"} 1\n'
    after = (
        'a_total{kind="x",m="1"} 3\na_total{kind="x",m="2"} 3\na_total{kind="y"} 9\nab_total 7\n'
    )
    assert load.increase(before, after, "a_total", kind="x") == 5


def test_window_counts_sentences_inside_it_and_errors_always() -> None:
    window = Window(start=10.0, end=20.0)
    for at in (9.9, 10.0, 20.0, 20.1):
        window.ends += [End(at - 1.0, at, None, 200), End(at - 1.0, at, "429", 429)]
    result = load.summarise(8, window, "", "", Counter(metrics=1))
    assert (result.sentences, result.sentences_per_second, result.p99_ms) == (2, 0.2, 1000.0)
    assert result.errors == {"429": 4, "metrics": 1}


def test_ratios_are_to_the_first_run() -> None:
    for rates, ratios in [([10.0, 25.0], [1.0, 2.5]), ([0.0, 25.0], [None, None])]:
        reports = load.with_ratios([report(rate=rate) for rate in rates])
        assert [report.ratio for report in reports] == ratios


@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        (200, b'{"translatedText": "Ola"}', None),
        (200, b"{}", "200 without translatedText"),
        (429, b'{"error": "full", "error_type": "overloaded"}', "429 overloaded"),
        (502, b"<html>", "502"),
        (500, b"[]", "500"),
    ],
)
def test_failures_are_named_by_status_and_error_type(
    status: int, body: bytes, failure: str | None
) -> None:
    assert load.failure_of(Reply(status, body, False)) == failure


def test_client_counts_are_a_list_of_positive_numbers() -> None:
    assert load.parse_clients("1,64") == [1, 64]
    for text in ("0", "", "1,,2", "-1", "x", "1.5"):
        with pytest.raises(BenchError, match="whole numbers above 0"):
            load.parse_clients(text)


def test_a_language_without_built_in_sentences_asks_for_a_file() -> None:
    result = bench("load", "--pair", "de-en")
    assert result.exit_code == 1
    assert "no built-in sentences for 'de'" in result.stderr
    assert "--source FILE" in result.stderr


def test_load_reports_the_measured_window() -> None:
    fake = FakeTranslator()
    arguments = ["--clients", "1,3", "--duration", "1", "--warmup", "0.1", "--json"]
    with served(fake) as url:
        result = bench("load", *arguments, "--url", url)
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    assert [run["clients"] for run in runs] == [1, 3]
    for run in runs:
        assert (run["mean_rows"], run["padding_share"], run["errors"]) == (4.0, 0.05, {})
        assert run["sentences_per_second"] == pytest.approx(run["sentences"] / run["seconds"])
        assert 0 < run["p50_ms"] <= run["p95_ms"] <= run["p99_ms"]
    assert runs[0]["ratio"] == 1.0
    assert sum(run["sentences"] for run in runs) < len(fake.requests)
    assert {(request["source"], request["target"]) for request in fake.requests} == {("en", "pt")}
    assert {request["q"] for request in fake.requests} <= set(SENTENCES["en"])


def test_load_with_errors_counts_them_and_exits_with_1() -> None:
    with served(FakeTranslator(fails=lambda number: number == 3)) as url:
        result = bench("load", "--clients", "2", "--duration", "0.5", "--warmup", "0", "--url", url)
    assert result.exit_code == 1
    assert "2 clients: 1 x 429 overloaded" in result.stdout
    headings = result.stdout.splitlines()[1].split()  # none is cut off in 80 columns
    assert headings[:2] + headings[-2:] == ["clients", "sentences/s", "%", "errors"]
    assert result.stdout.splitlines()[3].split()[-3:] == ["4.00", "5.00", "1"]


def test_load_goes_on_after_lost_connections(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("um\n\ndois\n")
    fake = FakeTranslator()

    def answer(path: str, body: bytes) -> bytes | None:
        reply = fake(path, body)
        return None if len(fake.requests) == 2 and path == "/translate" else reply

    arguments = ["--clients", "1", "--duration", "0.5", "--warmup", "0", "--json"]
    with served(answer) as url:
        result = bench("load", *arguments, "--source", source, "--pair", "pt-en", "--url", url)
    (run,) = json.loads(result.stdout)["runs"]
    assert result.exit_code == 1
    assert run["errors"] == {"closed": 1}
    assert run["sentences"] > 0
    assert {request["q"] for request in fake.requests} == {"um", "dois"}


def test_load_reads_the_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_URL", "https://host")
    result = bench("load")
    assert result.exit_code == 1
    assert "give it as http://HOST:PORT" in result.stderr


def test_load_without_a_finished_sentence_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing_finished(*arguments: object) -> LoadReport:
        return report(sentences=0, rate=0.0)

    monkeypatch.setattr("benchmarks.bench.commands.run_load", nothing_finished)
    result = bench("load", "--clients", "1", "--url", "http://host")
    assert result.exit_code == 1
    assert "no sentence finished in 5 s" in result.stdout
