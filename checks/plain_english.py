"""Finds sentences that are hard to read: `python -m checks.plain_english [--summary] [PATH ...]`.

It reads docstrings, comments and Markdown, and applies the rules in this file. Each finding is
printed as `file:line: rule: sentence`. The exit status is 1 if there are findings. Without a PATH,
it reads `DEFAULT_PATHS`. The tests are not among them.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.passages import Passage, passages_of

DEFAULT_PATHS = (
    *("model", "service", "checks", "release", "benchmarks", "setup.py"),
    *("README.md", "CHANGELOG.md", "docs"),
)
SUFFIXES = (".py", ".md")
MAX_WORDS = 25

AUXILIARY = (
    r"(?:is|are|was|were|has|have|had|does|did|can|could|may|might|must|will|would|should|comes?"
    r"|came|goes|lies|stands|remains|follows|makes?|takes?|gives?|needs?)"
)
PEOPLE = r"(?:people|users?|readers?|operators?|contributors?|engineers?|someone|anyone|authors?)"
PHRASES = {
    "clause for a noun": re.compile(rf"\bwhat {AUXILIARY}\b(?!.*\?$)|\bthose (?:that|who)\b", re.I),
    "who without a noun": re.compile(
        rf"\bwhoever\b|(?:^|[^\w\s] |\b(?!{PEOPLE}\b)\w+ )who (?:\w+s|{AUXILIARY})\b", re.I
    ),
    "riddle": re.compile(
        r"\bnobody\b|\bnewcomers?\b|\bhurried\b|\bof which\b|\bof whom\b|\blikewise\b"
        r"|\blacks\b|\bthe (?:former|latter)\b",
        re.I,
    ),
    "missing actor": re.compile(
        r"\b(?:is|are|be|was|were|been) told\b|\b(?:goes|go|went|going) by\b", re.I
    ),
}
FRAGMENT = re.compile(
    r"(?:Of|By|Among|Whose|As of|Likewise|The same|Those|Which|What|Who|Whom|How|Nor|And|Or|But)\b"
)
NO_VERB = re.compile(
    r"(?:This|Its|His|Theirs|Ours|Always|Perhaps|Unless|As|Is|Does|Has|Was|Less|Plus|Minus|Thus"
    r"|Ids|Bytes|Sentences|Tokens|Words|Weights|Texts|Settings|Pieces|Metrics|Models)\b"
    r"|(?!Consists|Disposes)\w+s of\b"
)
VERB = re.compile(r"[A-Z][a-z]*(?<!s)s\b|[A-Z]\w+-\w+s\b")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`*]*[A-Z0-9`])")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|etc|approx|No|Sec|Fig|Eq)\.")
MARKUP = (
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"`+[^`]*`+"), "`code`"),
    (re.compile(r"https?://\S+"), "`link`"),
    (re.compile(r"\*\*|__"), ""),
)


@dataclass(frozen=True, slots=True)
class Finding:
    path: Path
    line: int  # line on which the sentence starts
    rule: str
    sentence: str  # the word `code` replaces each code span in it

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.sentence}"


def check_passage(passage: Passage) -> Iterator[Finding]:
    for index, (line, sentence) in enumerate(sentences_of(passage)):
        opening = [] if index else opening_rules(passage.kind, sentence)
        for rule in (*broken_rules(sentence), *opening):
            yield Finding(passage.path, line, rule, sentence)


def sentences_of(passage: Passage) -> Iterator[tuple[int, str]]:
    starts, text = [], ""
    for number, line in passage.lines:
        starts.append((len(text), number))
        text += without_markup(line) + " "
    text = without_markup(text)
    begin = 0
    ends = [match.end() for match in SENTENCE_END.finditer(_hide_abbreviations(text))]
    for end in [*ends, len(text)]:
        if sentence := text[begin:end].strip():
            yield max(number for start, number in starts if start <= begin), sentence
        begin = end


def without_markup(text: str) -> str:
    """Replaces code, links and emphasis of Markdown by plain words."""
    for pattern, replacement in MARKUP:
        text = pattern.sub(replacement, text)
    return text


def _hide_abbreviations(text: str) -> str:
    return ABBREVIATION.sub(lambda match: match[0].replace(".", "_"), text)


def broken_rules(sentence: str) -> Iterator[str]:
    """Yields the broken rules among the rules that apply to every sentence."""
    yield from (rule for rule, pattern in PHRASES.items() if pattern.search(sentence))
    num_words = sum(any(map(str.isalnum, word)) for word in sentence.split())
    if num_words > MAX_WORDS:
        yield f"{num_words} words"


def opening_rules(kind: str, sentence: str) -> Iterator[str]:
    """Yields the rules that the first sentence of a docstring or of an entry breaks."""
    if kind != "text" and FRAGMENT.match(sentence):
        yield "fragment"
    elif kind == "function" and (NO_VERB.match(sentence) or not VERB.match(sentence)):
        yield "no verb in the third person"


def files_below(paths: Iterable[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in found if each.suffix in SUFFIXES and each.is_file())


def summary(findings: Iterable[Finding]) -> str:
    """Returns a table of the number of findings in each folder, with a total."""
    counts = Counter(str(finding.path.parent) for finding in findings)
    rows = [f"{count:6}  {folder}" for folder, count in sorted(counts.items())]
    return "\n".join([*rows, f"{counts.total():6}  total"])


def main(arguments: Sequence[str]) -> int:
    """Prints the findings, or with --summary their number; returns the exit status."""
    paths = [argument for argument in arguments if argument != "--summary"]
    passages = (p for path in files_below(paths or DEFAULT_PATHS) for p in passages_of(path))
    found = {finding for passage in passages for finding in check_passage(passage)}
    findings = sorted(found, key=lambda each: (each.path, each.line, each.rule))
    if "--summary" in arguments:
        print(summary(findings))
    else:
        print(*findings, sep="\n", end="\n" * bool(findings))
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
