"""`regard bench mixed` against a server that answers from a script: what it sends and counts."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from benchmarks.bench import mixed
from benchmarks.bench.client import Address, BenchError
from benchmarks.bench.load import End, Window
from benchmarks.bench.mixed import (
    ATTENTION,
    LONG,
    SHORT,
    SHORT_TOKENS,
    TRANSLATIONS,
    all_traffic,
    joined_to,
    num_rounds,
)
from benchmarks.bench.texts import built_in_sentences
from tests.unit.bench_server import bench, reply_bytes, served

NUM_SPECIAL = 2
QUICK = ("--duration", "1.6", "--rounds", "1", "--tokens", "64")

MEMORY = (
    'regard_device_memory_bytes{worker="0",kind="resident"} 1048576\n'
    'regard_device_memory_bytes{worker="0",kind="peak"} 99999999\n'
    "process_resident_memory_bytes 2097152\n"
)


class FakeServer:
    """Answers all that the command asks; every word is a token, beside two special ones."""

    def __init__(self, **refused: bytes) -> None:
        self.refused = refused  # bodies of 429, by the path without its mark
        self.asked: Counter[str] = Counter()
        self.bodies: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, path: str, body: bytes) -> bytes:
        if path == "/metrics":
            return reply_bytes(200, MEMORY.encode())
        self.asked[path] += 1
        request = json.loads(body)
        self.bodies.append((path, request))
        if self.asked[path] > 1 and path[1:] in self.refused:
            return reply_bytes(429, self.refused[path[1:]])
        return reply_bytes(200, json.dumps(self.answer(path, request)).encode())

    def answer(self, path: str, request: dict[str, Any]) -> Any:
        if path == "/v1/embeddings":
            tokens = len(request["input"].split()) + NUM_SPECIAL
            return {"data": [], "usage": {"prompt_tokens": tokens}}
        answers = {"/embed": [[0.5]], "/translate": {"translatedText": "x"}}
        return answers.get(path, {"items": [{"attentions": []}]})

    def lengths(self) -> list[int]:
        """Tokens of everything embedded."""
        texts = [body["inputs"] for path, body in self.bodies if path == "/embed"]
        return [len(text.split()) + NUM_SPECIAL for text in texts]


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed, "SETTLE_SECONDS", 0.05)


def test_short_and_long_texts_have_the_lengths_that_are_told() -> None:
    fake = FakeServer()
    sentences = built_in_sentences("en")
    with served(fake) as url:
        traffic = asyncio.run(all_traffic(Address.parse(url), "en-pt", sentences, 120))
    kinds = {each.kind: each for each in traffic}
    assert [*kinds] == [TRANSLATIONS, SHORT, LONG, ATTENTION]
    short, long = kinds[SHORT].tokens, kinds[LONG].tokens
    assert short is not None
    assert long is not None
    assert SHORT_TOKENS[0] <= short[0] < short[1] <= SHORT_TOKENS[1]
    assert 20 < long[0] <= 30
    assert 110 < long[1] <= 120


def test_joined_text_has_as_many_tokens_as_fit() -> None:
    sizes = {"a b": 2, "c d e": 3, "f": 1}
    assert joined_to(4, sizes, first=0) == ("a b f", 3)
    assert joined_to(4, sizes, first=1) == ("c d e f", 4)
    assert joined_to(99, sizes, first=2) == ("f a b c d e", 6)


def test_long_texts_are_embedded_in_their_own_windows_alone() -> None:
    """Everyone else sends in both sorts of windows."""
    fake = FakeServer()
    with served(fake) as url:
        result = bench("mixed", *QUICK, "--limit", "1e9", "--json", "--url", url)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [*report["alone"]] == [TRANSLATIONS, SHORT, ATTENTION]
    assert [*report["beside"]] == [TRANSLATIONS, SHORT, LONG, ATTENTION]
    assert report["errors"] == {}
    assert report["memory_mib"] == [3.0, 3.0]
    ratio = report["beside"][SHORT]["p99_ms"] / report["alone"][SHORT]["p99_ms"]
    assert report["p99_ratio"] == pytest.approx(ratio)
    assert all(figures["requests"] > 0 for figures in report["beside"].values())
    first_long = next(place for place, size in enumerate(fake.lengths()) if size > 40)
    assert SHORT_TOKENS[0] <= min(fake.lengths()) <= max(fake.lengths()) <= 64
    assert first_long > 1


def test_ratio_above_the_limit_ends_with_1() -> None:
    with served(FakeServer()) as url:
        assert bench("mixed", *QUICK, "--limit", "0", "--url", url).exit_code == 1


def test_server_that_embeds_nothing_ends_the_run_at_once() -> None:
    with served(lambda _path, _body: reply_bytes(404, b'{"error": "no such model"}')) as url:
        result = bench("mixed", "--url", url)
    assert result.exit_code == 1
    assert "/v1/embeddings answered 404" in result.stderr


@pytest.mark.parametrize(
    ("sentences", "tokens", "message"),
    [(["one"], 64, "no sentence has 8 to 30 tokens"), (["a b c d e f g h"], 64, "fewer than 64")],
)
def test_sentences_that_do_not_do_are_refused(
    sentences: list[str], tokens: int, message: str
) -> None:
    with served(FakeServer()) as url, pytest.raises(BenchError, match=message):
        asyncio.run(all_traffic(Address.parse(url), "en-pt", sentences, tokens))


def test_windows_are_of_ten_seconds_unless_rounds_are_given() -> None:
    assert [num_rounds(seconds, None) for seconds in (5, 60, 600)] == [1, 3, 30]
    assert num_rounds(60, 1) == 1
    with pytest.raises(BenchError, match="raise --duration"):
        num_rounds(1.0, 100)


def window(*latencies: float, errors: int = 0) -> Window:
    good = [End(0.0, seconds, None, 200) for seconds in latencies]
    return Window(0.0, 1.0, ends=good + [End(0.0, 0.5, "closed")] * errors)


def test_soak_tells_how_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed, "SECONDS_A_LINE", 0.5)
    with served(FakeServer()) as url:
        arguments = ("--duration", "2", "--rounds", "2", "--tokens", "64", "--limit", "1e9")
        result = bench("mixed", *arguments, "--url", url)
    assert result.exit_code == 0, result.output
    lines = [
        line for line in result.stderr.splitlines() if "requests, p99 of short embeddings" in line
    ]
    assert len(lines) == 2
    assert lines[0].endswith("0 errors, 3 MiB")


def test_p99_of_nothing_is_an_error_with_a_way_out() -> None:
    with pytest.raises(BenchError, match="raise --duration"):
        mixed.p99_of({SHORT: mixed.figures(SHORT, 1, [{SHORT: window()}])})
