"""The Markdown pages of the repository, taken apart: blocks, commands, tables and links."""

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
CHANGELOG = ROOT / "CHANGELOG.md"
PAGES = [README, CHANGELOG, *sorted(DOCS.glob("*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ASSIGNMENT = re.compile(r"[A-Z_]+=")
SHELL = ("sh", "bash")


@dataclass(frozen=True)
class Block:
    """A code block of a page, such as ```` ```sh ````."""

    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """A shell command of a page.

    Attributes:
        page: Name of the page.
        settings: Environment variables that are set in front of the command.
        words: The command and its arguments, without redirection.
        reply: The JSON that the page shows as the answer of the command, one line for each object
            of a stream; empty without one.
    """

    page: str
    settings: dict[str, str]
    words: tuple[str, ...]
    reply: str = ""

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def read(page: Path) -> str:
    return page.read_text("utf-8")


def blocks(page: Path) -> list[Block]:
    return [Block(language, text) for language, text in BLOCK.findall(read(page))]


def commands(page: Path) -> list[Command]:
    """Returns the commands of all shell blocks of a page.

    The answer of a command is a comment below it, or the JSON block that follows its block.
    """
    found = []
    for block, following in pairwise([*blocks(page), Block("", "")]):
        if block.language in SHELL:
            found += _block_commands(page, block.text, following)
    return found


def _block_commands(page: Path, text: str, following: Block) -> list[Command]:
    pairs: list[tuple[str, str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("# "):
            command, reply = pairs[-1]
            pairs[-1] = (command, f"{reply}\n{line[2:]}".lstrip())
        elif line.strip():
            pairs.append((line, ""))
    if following.language == "json" and not pairs[-1][1]:
        pairs[-1] = (pairs[-1][0], following.text)
    return [_command(page, line, reply) for line, reply in pairs]


def _command(page: Path, line: str, reply: str) -> Command:
    words = shlex.split(line, comments=True)
    settings = {}
    while ASSIGNMENT.match(words[0]):
        name, _, settings[name] = words.pop(0).partition("=")
    if ">" in words:
        words = words[: words.index(">")]
    return Command(page.name, settings, tuple(words), reply)


def table_rows(text: str) -> list[list[str]]:
    """Returns the cells of all rows of all tables, without headings' rules."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [re.split(r"\s*\|\s*", line)[1:-1] for line in lines]
    return [row for row in rows if not re.fullmatch(r"[-: |]+", row[0])]


def section(text: str, title: str) -> str:
    _, below = re.split(rf"^#+ {re.escape(title)}$", text, maxsplit=1, flags=re.MULTILINE)
    return re.split(r"^#", below, maxsplit=1, flags=re.MULTILINE)[0]


def prose_lines(text: str) -> list[tuple[int, str]]:
    """Returns the numbered lines outside code blocks, tables, HTML and generated measurements."""
    found = []
    is_code = is_generated = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            is_code = not is_code
        elif line.startswith(("<!-- bench:", "<!-- /bench:")):
            is_generated = line.startswith("<!-- bench:")
        elif not (is_code or is_generated or line.lstrip().startswith(("|", "<"))):
            found.append((number, line))
    return found


LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")


def links(page: Path) -> list[str]:
    found = [a or b for a, b in LINK.findall(read(page))]
    return [link for link in found if not link.startswith("http")]


def linked_file(page: Path, link: str) -> Path:
    name = link.partition("#")[0]
    return (page.parent / name).resolve() if name else page


def anchors(page: Path) -> set[str]:
    titles: list[str] = re.findall(r"^#+ (.+)$", BLOCK.sub("", read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
