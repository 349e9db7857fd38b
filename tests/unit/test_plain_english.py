"""The check of docstrings, comments and Markdown: what it finds, and what it lets pass."""

from pathlib import Path

import pytest

from checks.passages import Passage, passages_of
from checks.plain_english import check_passage, main


def rules(text: str, kind: str = "text") -> list[str]:
    return [each.rule for each in check_passage(Passage(Path("a.py"), kind, [(1, text)]))]


CLAUSE, WHO, ACTOR = "clause for a noun", "who without a noun", "missing actor"
SENTENCES = {
    "Loads what is wanted.": CLAUSE,
    "Adds those that wait.": CLAUSE,
    "Whoever sends the key may load models.": WHO,
    "The order of who asks decides.": WHO,
    "A row that nobody uses is padding.": "riddle",
    "It has two rows, of which one is free.": "riddle",
    "The file lacks a header.": "riddle",
    "The worker is told to stop.": ACTOR,
    "The scheduler goes by the table.": ACTOR,
    "word " * 26 + "end.": "27 words",
    "What is a shortlist?": None,
    "People who have a key may load models.": None,
    "`what is` and [a page](https://example.org/who-asks) are quoted.": None,
    "word " * 24 + "end. " + "Word " * 24 + "end.": None,
    "See section 4.4.1, e.g. the table, for all limits.": None,
}


@pytest.mark.parametrize("text", SENTENCES)
def test_hard_sentence_is_found_and_a_plain_one_passes(text: str) -> None:
    assert rules(text) == ([SENTENCES[text]] if SENTENCES[text] else [])


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("function", "Returns the decoded tokens of each row.", "The decoded tokens of each row."),
        ("function", "Re-encodes the text.", "Return the decoded tokens."),
        ("function", "Passes the batch on.", "Whether a row is free."),
        ("property", "Number of free rows.", "Of both."),
        ("summary", "Rows of one batch.", "As of a run."),
        ("entry", "Number of rows.", "By model."),
    ],
)
def test_docstrings_open_with_a_statement(kind: str, good: str, bad: str) -> None:
    assert not rules(good, kind)
    assert rules(bad, kind)


PYTHON = '''"""What is here."""

ROWS = 3
"""Of a batch."""


class Batch:
    """By model.

    Attributes:
        rows: Whose rows they are.
    """

    @property
    def size(self) -> int:
        """Number of rows."""

    @app.command()
    def serve(self) -> None:
        """Serve models."""

    def add(self, row: int) -> None:
        """Row to add.

            nobody()  # code is no prose

        It is long:
        goes by nobody.

        Args:
            row: Likewise.

        Source: whoever wrote it, of which nobody knows
        """
        run()  # who asks
        # The first line of a comment
        # that a newcomer reads.
        return row  # (B, S)  # noqa: likewise
'''

MARKDOWN = """# Whoever

A line that goes
by nobody.

```
whoever
```

| name | meaning |
|---|---|
| a | newcomer |

- Likewise.
"""


def test_findings_have_file_line_rule_and_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text(PYTHON, "utf-8")
    (tmp_path / "b.md").write_text(MARKDOWN, "utf-8")
    (tmp_path / "c.txt").write_text("whoever", "utf-8")
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.removeprefix(f"{tmp_path}/") for line in lines] == [
        "a.py:1: clause for a noun: What is here.",
        "a.py:1: fragment: What is here.",
        "a.py:4: fragment: Of a batch.",
        "a.py:8: fragment: By model.",
        "a.py:11: fragment: Whose rows they are.",
        "a.py:23: no verb in the third person: Row to add.",
        "a.py:27: missing actor: It is long: goes by nobody.",
        "a.py:27: riddle: It is long: goes by nobody.",
        "a.py:31: fragment: Likewise.",
        "a.py:31: riddle: Likewise.",
        "a.py:35: who without a noun: who asks",
        "a.py:36: riddle: The first line of a comment that a newcomer reads.",
        "b.md:3: missing actor: A line that goes by nobody.",
        "b.md:3: riddle: A line that goes by nobody.",
        "b.md:12: riddle: newcomer",
        "b.md:14: riddle: Likewise.",
    ]


def test_generated_measurements_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    block = "\n\n| engine |\n| --- |\n| nobody |\n\ndate 1; likewise.\nnobody\n\n"
    path.write_text(f"<!-- bench:a-b -->{block}<!-- /bench:a-b -->\nPlain text.\n", "utf-8")
    assert [passage.lines for passage in passages_of(path)] == [[(11, "Plain text.")]]
