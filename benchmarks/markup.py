"""Measures how well translations keep HTML tags.

    python -m benchmarks.markup --source en.txt --target pt.txt

The command makes HTML fragments from sentences: nested and badly nested inline tags, lists, tables,
comments, images and entities. A running server translates the fragments, and also the sentences
without tags. The command prints:

- the number of fragments whose translation has the same tags, with the same attributes,
- the BLEU score of the sentences without tags, and of the fragments after their tags are removed,
- the number of tags around a single word, if the plain translation has this word exactly once,
- the number of these tags that still surround their word in the translation,
- the time of both translations.
"""

import argparse
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import httpx
import sacrebleu
from lxml import html

from benchmarks.translations import translate

WRAPPERS = ("<b>{}</b>", "<i>{}</i>", '<a href="https://example.com/?a=1&amp;b=2">{}</a>')
NESTED = ('<span class="x"><em>{}</em></span>', "<strong>{}</strong>", "<u>{}</u>")
CONTAINERS = (
    ("<p>", "</p>"),
    ("<ul>\n  <li>", "</li>\n</ul>"),
    ("<table><tr><td>", "</td></tr></table>"),
    ("<div><h2>", "</h2></div>"),
)
PARTS = re.compile(r"\w+(?:['.,:\u2013-]\w+)*|\W+")


@dataclass(slots=True)
class Fragment:
    """An HTML fragment made from a sentence.

    Attributes:
        source: The HTML.
        probes: Maps the `id` of each tag around a single word to this word.
    """

    source: str
    probes: dict[str, str] = field(default_factory=dict)


def make_fragment(sentence: str, number: int) -> Fragment:
    """Returns a fragment with random tags around and between the words; `number` is the seed."""
    rng = random.Random(number)
    parts = [[part] for part in PARTS.findall(sentence)]
    words = [n for n, (part,) in enumerate(parts) if part[0].isalnum()]
    probes: dict[str, str] = {}
    shown = [escape(part, quote=False) for (part,) in parts]
    for n in words[1:]:
        word = parts[n][0]
        if (word[0].isupper() or word[0].isdigit()) and len(probes) < 2:
            name = f"p{len(probes)}"
            probes[name] = word
            shown[n] = f'<em id="{name}">{shown[n]}</em>'
    first, last = sorted(rng.sample(words, 2)) if len(words) > 1 else (words[0], words[0])
    middle = rng.choice([n for n in words if first <= n <= last])
    shown[middle] = rng.choice(NESTED).format(shown[middle])
    opening, closing = rng.choice(WRAPPERS).split("{}")
    shown[first] = opening + shown[first]
    shown[last] += closing
    place = rng.choice(words)
    extra = rng.randrange(5)
    if extra == 0:
        shown[place] += "<!-- a comment -->"
    elif extra == 1:
        shown[place] = '<img src="a.png" alt="x"> ' + shown[place]
    elif extra == 2:
        shown = [part.replace("e", "&#101;", 1) if part[0] != "<" else part for part in shown]
    elif extra == 3 and len(words) > 3:
        shown[words[0]] = "<b>" + shown[words[0]]
        shown[words[1]] = "<i>" + shown[words[1]] + "</b>"
        shown[words[2]] += "</i>"
    before, after = rng.choice(CONTAINERS)
    return Fragment(before + "".join(shown) + after, probes)


def parse(text: str) -> Any:
    """Parses a fragment and returns its root element."""
    return html.fragment_fromstring(text, create_parent="div")


def tags_of(text: str) -> Counter[tuple[str, str]]:
    """Counts the tags of a fragment by name and attributes, and its comments by text."""
    counts: Counter[tuple[str, str]] = Counter()
    for element in parse(text).iter():
        is_tag = isinstance(element.tag, str)
        name = element.tag if is_tag else "comment"
        counts[name, str(sorted(element.items())) if is_tag else element.text] += 1
    return counts


def plain(text: str) -> str:
    """Returns the text of a fragment without comments, with single spaces."""
    root = parse(text)
    for comment in root.xpath("//comment()"):
        comment.drop_tag() if comment.tail else None
    return " ".join(root.text_content().split())


def main() -> None:
    """Measures a running server and prints the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.markup")
    add = parser.add_argument
    add("--source", type=Path, required=True, help="file with one sentence per line")
    add("--target", type=Path, required=True, help="file with the translation of each line")
    add("--lines", type=int, default=300, help="number of sentences to read")
    add("--pair", default="en-pt", help="source and target language")
    add("--url", default="http://127.0.0.1:8000", help="address of the server")
    add("--show", type=int, default=0, help="number of failures to print")
    args = parser.parse_args()
    sources = args.source.read_text("utf-8").splitlines()[: args.lines]
    references = args.target.read_text("utf-8").splitlines()[: args.lines]
    source, target = args.pair.split("-")
    fragments = [make_fragment(sentence, n) for n, sentence in enumerate(sources)]
    pages = [fragment.source for fragment in fragments]
    with httpx.Client(base_url=args.url) as client:
        start = time.perf_counter()
        without = translate(client, sources, source=source, target=target)
        middle = time.perf_counter()
        found = translate(client, pages, source=source, target=target, format="html")
        end = time.perf_counter()
    same = [tags_of(f.source) == tags_of(t) for f, t in zip(fragments, found, strict=True)]
    print(f"same tags: {sum(same)} of {len(same)}")
    scores = [
        sacrebleu.corpus_bleu(texts, [references]).score
        for texts in (without, [plain(text) for text in found])
    ]
    print(f"BLEU without tags {scores[0]:.2f}, with tags taken out {scores[1]:.2f}")
    probes = landed = 0
    shown = args.show
    for fragment, text, untagged in zip(fragments, found, without, strict=True):
        for name, word in fragment.probes.items():
            if len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", untagged)) != 1:
                continue
            probes += 1
            (element,) = parse(text).xpath(f'//*[@id="{name}"]')
            is_right = element.text_content().strip() == word
            landed += is_right
            if not is_right and shown:
                shown -= 1
                print(f"{word!r}: {fragment.source}\n    {text}")
    print(f"tags on copied words: {landed} of {probes}, {landed / max(probes, 1):.1%}")
    print(f"seconds without tags {middle - start:.1f}, with tags {end - middle:.1f}")


if __name__ == "__main__":
    main()
