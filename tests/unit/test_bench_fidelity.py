"""`regard bench fidelity`: its list of placeholders, and the sentences that it counts as whole."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.bench.commands import app
from benchmarks.bench.fidelity import (
    FRAMES,
    MAX_SPANS,
    is_whole,
    mixed_sentences,
)
from tests.unit.bench_server import reply_bytes, served


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
        run = CliRunner().invoke(app, ["fidelity", "--url", url, "--mixed", "30", "--json"])
    assert run.exit_code == 0, run.output
    report: dict[str, Any] = json.loads(run.output)
    losing = {kind for family in report["families"] for kind in family["lost"]}
    assert losing == {lost}
    assert report["mixed"] == 30
    family = next(each for each in report["families"] if each["lost"])
    assert family["whole"] == len(FRAMES) * (family["kinds"] - 1)
