"""`regard bench` fidelity, alignment, detachment and consistency: what each of them counts."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bench.correctness import area_under_curve, judged, shifted
from benchmarks.bench.fidelity import FRAMES, MAX_SPANS, is_whole, mixed_sentences
from tests.unit.bench_server import FakeTranslator, bench, reply_bytes, served


@pytest.mark.parametrize(
    ("kind", "translation", "whole"),
    [
        ("{name}", "Olá {name}!", True),
        ("{name}", "Olá {nome}!", False),
        ("{name}", "Olá {name} e {name}!", False),
        ("**⟨now⟩**", "Clique **agora**!", True),
        ("**⟨now⟩**", "Clique ** agora**!", False),
        ("**⟨now⟩**", "Clique agora****!", False),
        ("<b>⟨now⟩</b>", "Clique </b>agora<b>!", False),
        ("<b>⟨now⟩</b>", "Clique <b>agora mesmo</b>!", True),
    ],
)
def test_placeholder_is_whole(kind: str, translation: str, whole: bool) -> None:
    assert is_whole(kind, translation) == whole


def test_mixed_sentences_have_their_spans() -> None:
    mixed = mixed_sentences(["one two three"], 50)
    assert mixed == mixed_sentences(["one two three"], 50)
    assert {len(spans) for _, spans in mixed} == {*range(1, MAX_SPANS + 1)}
    assert all(span in text.split(" ") for text, spans in mixed for span in spans)


def test_report_names_the_kinds_that_a_server_loses() -> None:
    lost = "{{count}}"

    def server(_path: str, data: bytes) -> bytes:
        texts = json.loads(data)["q"]
        found = [text.replace(lost, "x") for text in texts]
        return reply_bytes(200, json.dumps({"translatedText": found}).encode())

    with served(server) as url:
        run = bench("fidelity", "--url", url, "--mixed", "30", "--json")
    assert run.exit_code == 0, run.output
    report: dict[str, Any] = json.loads(run.output)
    losing = {kind for family in report["families"] for kind in family["lost"]}
    assert losing == {lost}
    assert report["mixed"] == 30
    family = next(each for each in report["families"] if each["lost"])
    assert family["whole"] == len(FRAMES) * (family["kinds"] - 1)


TEXT = "Ana paid 12 euros to a bank in Paris"
TRANSLATION = "A Ana pagou 12 euros a um banco em Paris"


def spans(text: str) -> list[list[int]]:
    """[start, end) of each word."""
    found, at = [], 0
    for word in text.split(" "):
        found.append([at, at + len(word)])
        at += len(word) + 1
    return found


def aligned(*pairs: tuple[int, int]) -> dict[str, Any]:
    """An alignment as the server returns it."""
    return {
        "source_words": spans(TEXT),
        "target_words": spans(TRANSLATION),
        "pairs": [[source, target, 1.0] for source, target in pairs],
    }


def test_numerals_words_and_false_friends_are_told_apart() -> None:
    alignment = aligned((0, 1), (2, 3), (8, 4))
    assert judged(TEXT, TRANSLATION, [alignment], {"a"}) == [
        ("word", True),  # Ana
        ("numeral", True),
        ("word", False),  # euros, aligned to Paris
        ("false friend", False),  # a
        ("word", False),  # Paris
    ]


def test_a_word_that_occurs_twice_on_a_side_is_left_out() -> None:
    text = "Ana saw Ana"
    alignment = {"source_words": spans(text), "target_words": spans("Ana"), "pairs": [[0, 0, 1.0]]}
    assert judged(text, "Ana", [alignment], set()) == []


@pytest.mark.parametrize("count", [2, 3, 10, 101])
def test_no_line_keeps_its_translation(count: int) -> None:
    lines = [str(number) for number in range(count)]
    found = shifted(lines)
    assert sorted(found) == sorted(lines)
    assert all(one != other for one, other in zip(found, lines, strict=True))


@pytest.mark.parametrize(
    ("lower", "higher", "area"),
    [([1, 2], [3, 4], 1.0), ([3, 4], [1, 2], 0.0), ([1, 2], [1, 2], 0.5), ([1, 3], [2, 4], 0.75)],
)
def test_area_is_the_share_of_ordered_pairs(
    lower: list[float], higher: list[float], area: float
) -> None:
    assert area_under_curve(lower, higher) == area


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


def test_replies_that_depend_on_the_batch_are_counted_and_exit_with_1(source: Path) -> None:
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
