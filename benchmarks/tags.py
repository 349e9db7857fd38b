"""Measures how well translations keep the tags of HTML.

    python -m benchmarks.tags --source en.txt

Makes a fragment of HTML from each sentence: nested tags, and one kind of difficulty. A server
translates the fragments, and the sentences without tags. Prints for each kind:

- whole: fragments whose translation has the same tags with the same attributes, balanced.
- words: fragments whose words are the translation of the sentence without tags.
- right: fragments in which the difficulty is right, as the function of the kind says.

The last line counts the tags around a name or a number that the plain translation has once. It
also says how many of them are still around it.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from typing import Any

import httpx

from benchmarks.options import command_line
from service.files.private_server import running_server

WRAPPERS = ("<b>{}</b>", "<i>{}</i>", '<a href="https://example.com/?a=1&amp;b=2">{}</a>')
NESTED = ('<span class="x"><em>{}</em></span>', "<strong>{}</strong>", "<u>{}</u>")
CONTAINERS = (
    ("<p>", "</p>"),
    ("<ul>\n  <li>", "</li>\n</ul>"),
    ("<table><tr><td>", "</td></tr></table>"),
    ("<div><h2>", "</h2></div>"),
)
ALT = "A red house"
INDEX = "10<sup>6</sup>"
PARTS = re.compile(r"\w+(?:['.,:\u2013-]\w+)*|\W+")
TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)([^>]*)>|<!--.*?-->")
BATCH = 50


@dataclass(slots=True)
class Fragment:
    """A fragment of HTML made from a sentence.

    Attributes:
        parts: The words of the sentence and the characters between them, with tags.
        words: Places of the words in `parts`.
        probes: Maps the id of each tag around one name or number to this word.
    """

    sentence: str
    kind: str
    rng: random.Random
    parts: list[str] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    probes: dict[str, str] = field(default_factory=dict)
    source: str = ""


def comment(fragment: Fragment) -> None:
    fragment.parts[fragment.rng.choice(fragment.words)] += "<!-- a comment -->"


def image(fragment: Fragment) -> None:
    place = fragment.rng.choice(fragment.words)
    fragment.parts[place] = f'<img src="a.png" alt="{ALT}"> {fragment.parts[place]}'


def crossing(fragment: Fragment) -> None:
    first, second, third = fragment.words[:3]
    fragment.parts[first] = f"<b>{fragment.parts[first]}"
    fragment.parts[second] = f"<i>{fragment.parts[second]}</b>"
    fragment.parts[third] += "</i>"


def entities(fragment: Fragment) -> None:
    parts = fragment.parts
    parts[:] = [part if "<" in part else part.replace("e", "&#101;", 1) for part in parts]


def wrapped(fragment: Fragment) -> None:
    fragment.parts[:] = [
        part.replace(" ", "\n  ") if part == " " else part for part in fragment.parts
    ]


def inner(fragment: Fragment) -> None:
    place = fragment.rng.choice(fragment.words)
    word = fragment.parts[place]
    if word.isalpha() and len(word) > 3:
        cut = fragment.rng.randint(1, len(word) - 1)
        fragment.parts[place] = f'{word[:cut]}<s id="in">{word[cut:]}</s>'


def adjacent(fragment: Fragment) -> None:
    parts = fragment.parts
    pairs = [n for n in fragment.words if parts[n + 1 : n + 2] == [" "] and n + 2 in fragment.words]
    pairs = [n for n in pairs if (parts[n] + parts[n + 2]).isalpha()]
    if pairs:
        place = fragment.rng.choice(pairs)
        for number, at in enumerate((place, place + 2)):
            parts[at] = f'<s id="a{number}">{parts[at]}</s>'
        parts[place + 1] = ""


def index(fragment: Fragment) -> None:
    place = fragment.words[-1]
    fragment.parts[place] = f"{fragment.parts[place]} ({INDEX})"


def plain(fragment: Fragment) -> None:
    pass


KINDS: dict[str, Callable[[Fragment], None]] = {
    each.__name__: each
    for each in (plain, comment, image, crossing, entities, wrapped, inner, adjacent, index)
}


def make_fragment(sentence: str, number: int) -> Fragment:
    """Returns a fragment with tags at random places; `number` is the seed."""
    kind = [*KINDS][number % len(KINDS)]
    fragment = Fragment(sentence, kind, random.Random(number))
    rng, parts = fragment.rng, [escape(part, quote=False) for part in PARTS.findall(sentence)]
    fragment.parts = parts
    fragment.words = words = [n for n, part in enumerate(parts) if part[0].isalnum()]
    KINDS[kind](fragment)
    for n in words[1:]:
        word = parts[n]
        if (word[0].isupper() or word[0].isdigit()) and word.isalnum() and len(fragment.probes) < 2:
            name = f"p{len(fragment.probes)}"
            fragment.probes[name] = word
            parts[n] = f'<em id="{name}">{word}</em>'
    first, last = sorted(rng.sample(words, 2))
    middle = rng.choice([n for n in words if first <= n <= last])
    parts[middle] = rng.choice(NESTED).format(parts[middle])
    opening, closing = rng.choice(WRAPPERS).split("{}")
    if kind != "crossing":
        parts[first] = opening + parts[first]
        parts[last] += closing
    before, after = rng.choice(CONTAINERS)
    fragment.source = before + "".join(parts) + after
    return fragment


def tags_of(text: str) -> Counter[tuple[str, str]]:
    """Counts the start tags by name and attributes, without the texts of attributes."""
    return Counter(
        (found[2] or "comment", re.sub(' alt="[^"]*"', "", found[3] or ""))
        for found in TAG.finditer(text)
        if not found[1]
    )


def is_balanced(text: str) -> bool:
    opened: list[str] = []
    for found in TAG.finditer(text):
        if found[1]:
            if not opened or opened.pop() != found[2]:
                return False
        elif found[2] and found[2] != "img":
            opened.append(found[2])
    return not opened


def words_of(text: str) -> str:
    return " ".join(unescape(TAG.sub("", text)).split())


def inside(text: str, name: str) -> str | None:
    """Returns the words in the element with an id; None if there is none."""
    found = re.search(f'<([a-z]+) id="{name}">(.*?)</\\1>', text, re.DOTALL)
    return words_of(found[2]) if found else None


def is_right(fragment: Fragment, found: str, alt: str) -> bool:
    """Returns whether the difficulty of a fragment is right in its translation."""
    if fragment.kind == "image":
        return f'alt="{alt}"' in found
    if fragment.kind == "index":
        return INDEX in found
    if fragment.kind == "inner" and 'id="in"' in fragment.source:
        before = TAG.sub("", found[: found.index('<s id="in">')])
        return bool(inside(found, "in")) and before[-1:].isalpha()
    if fragment.kind == "adjacent":
        return all(inside(found, name) != "" for name in ("a0", "a1"))
    return True


def translate(server: httpx.Client, texts: Sequence[str], pair: str, form: str) -> list[str]:
    source, target = pair.split("-")
    found: list[str] = []
    for start in range(0, len(texts), BATCH):
        body: dict[str, Any] = {"q": texts[start : start + BATCH], "format": form}
        body |= {"source": source, "target": target}
        reply = server.post("/translate", json=body, timeout=600)
        found += reply.raise_for_status().json()["translatedText"]
    return found


def report(
    fragments: Sequence[Fragment], found: Sequence[str], alone: Sequence[str], alt: str
) -> list[str]:
    """Returns the lines to print."""
    counts = {kind: Counter[str]() for kind in (*KINDS, "all")}
    probes: Counter[str] = Counter()
    for fragment, text, sentence in zip(fragments, found, alone, strict=True):
        is_whole = tags_of(text) == tags_of(fragment.source) and is_balanced(text)
        with_words = fragment.kind == "index" or words_of(text) == " ".join(sentence.split())
        for kind in (fragment.kind, "all"):
            counts[kind]["number"] += 1
            counts[kind]["whole"] += is_whole or fragment.kind == "crossing" and is_balanced(text)
            counts[kind]["words"] += with_words
            counts[kind]["right"] += is_right(fragment, text, alt)
        for name, word in fragment.probes.items():
            if len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", sentence)) == 1:
                probes["number"] += 1
                probes["right"] += inside(text, name) == word
    columns = ("number", "whole", "words", "right")
    lines = [" ".join(["kind".ljust(10), *(name.rjust(7) for name in columns)])]
    for kind, figures in counts.items():
        lines.append(" ".join([kind.ljust(10), *(str(figures[c]).rjust(7) for c in columns)]))
    return [*lines, f"tags around a copied word: {probes['right']} of {probes['number']}"]


def main() -> None:
    parser = command_line("tags", __doc__)
    parser.add_argument("--source", type=Path, required=True, help="file with one sentence a line")
    parser.add_argument("--lines", type=int, default=500, help="number of sentences to read")
    parser.add_argument("--pair", default="en-pt", help="source and target language")
    parser.add_argument("--url", help="address of a running server; without it, one is started")
    parser.add_argument("--show", type=int, default=0, help="number of failures to print")
    args = parser.parse_args()
    sentences = args.source.read_text("utf-8").splitlines()[: args.lines]
    fragments = [make_fragment(sentence, number) for number, sentence in enumerate(sentences)]
    with running_server(args.url) as url, httpx.Client(base_url=url) as server:
        found = translate(server, [each.source for each in fragments], args.pair, "html")
        alone = translate(server, sentences, args.pair, "text")
        (alt,) = translate(server, [ALT], args.pair, "text")
    print("\n".join(report(fragments, found, alone, alt)))
    for fragment, text, sentence in zip(fragments, found, alone, strict=True):
        if args.show and "0" in report([fragment], [text], [sentence], alt)[-2].split()[2:]:
            args.show -= 1
            print(f"\n{fragment.kind}\n{fragment.source}\n{text}\n{sentence}")


if __name__ == "__main__":
    main()
