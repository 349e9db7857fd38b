import json
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.bench_server import FakeTranslator, bench, served

LINES = [f"line {number}" for number in range(1, 21)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source"
    file.write_text("".join(f"{line}\n" for line in LINES))
    return file


class ShoutsInCompany(FakeTranslator):
    """Lets the translation of even places depend on whether the text came alone."""

    def translate(self, texts: list[str]) -> list[str]:
        mark = "!" if len(texts) > 1 else ""
        return [text + mark * (place % 2) for place, text in enumerate(texts)]


class Tires(FakeTranslator):
    """Translates lines 3 and 12 otherwise from the third time on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def translate(self, texts: list[str]) -> list[str]:
        self.seen.update(texts)
        return [
            "..." if self.seen[text] > 2 and text in ("line 3", "line 12") else text
            for text in texts
        ]


def test_server_that_always_answers_the_same_is_consistent(source: Path) -> None:
    fake = FakeTranslator()
    with served(fake) as url:
        result = bench("consistency", "--source", source, "--clients", "3", "--url", url)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("0 of 20") == 2
    sent = [request["q"] for request in fake.requests]
    alone, whole, mixed = sent[:20], sent[20], sent[21:]
    assert alone == [[line] for line in LINES]
    assert whole == LINES
    assert sorted(mixed) == sorted(alone)
    assert {request["split_sentences"] for request in fake.requests} == {False}


def test_order_of_the_clients_follows_from_the_seed(source: Path) -> None:
    def order(seed: str) -> list[list[str]]:
        fake = FakeTranslator()
        with served(fake) as url:
            arguments = ["--seed", seed, "--clients", "1", "--url", url]
            bench("consistency", "--source", source, *arguments)
        return [request["q"] for request in fake.requests[21:]]

    assert order("0") == order("0") != order("1")


def test_answers_that_depend_on_company_are_counted_and_exit_with_1(source: Path) -> None:
    with served(ShoutsInCompany()) as url:
        result = bench("consistency", "--source", source, "--url", url)
    assert result.exit_code == 1
    assert "10 of 20" in result.stdout
    assert " 2, 4, 6, 8, 10, 12, 14, 16 " in result.stdout
    assert "18" not in result.stdout
    assert "0 of 20" in result.stdout


def test_answers_that_depend_on_the_moment_are_counted_and_exit_with_1(source: Path) -> None:
    with served(Tires()) as url:
        result = bench("consistency", "--source", source, "--url", url, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "pair": "en-pt",
        "sentences": 20,
        "clients": 32,
        "seed": 0,
        "lists_differ": [],
        "clients_differ": [3, 12],
    }


def test_refused_sentence_ends_the_check(source: Path) -> None:
    with served(FakeTranslator(fails=lambda number: number == 30)) as url:
        result = bench("consistency", "--source", source, "--url", url)
    assert result.exit_code == 1
    assert "answered 429" in result.stderr
