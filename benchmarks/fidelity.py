"""Counts sentences whose protected spans are preserved: placeholders, URLs, emoji, and the like.

The command puts one to four spans at random places of random sentences, in both directions of a
pair. A running server translates them. A sentence is complete if each span occurs in the
translation as often as in the source. The command prints the number of complete sentences, and
each incomplete sentence with its translation.

Example:
    .venv/bin/python -m service serve --port 8451 &
    .venv/bin/python -m benchmarks.fidelity --url http://127.0.0.1:8451 \
        --source flores-dev.en --target flores-dev.pt
"""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.translations import translate

PLACEHOLDERS = "{name} {0} {count} %s %d %(name)s $y ${value} [X7X] {{user.name}} &nbsp;".split()
TAGS = ('<x id="1"/>', "<b>", "</b>", "`git pull`")
ADDRESSES = (
    "https://example.com/a/b?c=d&e=1",
    "www.example.org",
    "ann@example.com",
    "/usr/local/bin",
    "C:\\temp",
    "@user",
    "#tag",
    "max_size",
)
SYMBOLS = "🎉 🐈 👍🏽 ❤️ → • < { % ~ ^ €".split()
WORDS = "€50 £2,000 °C ñ 中文 Ωmega Łódź".split()
SPANS = (*PLACEHOLDERS, *TAGS, *ADDRESSES, *SYMBOLS, *WORDS)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sentence with spans between its words."""

    text: str
    spans: tuple[str, ...]

    def lost(self, translation: str) -> list[str]:
        """Returns the spans that the translation has more or less often than the sentence."""
        return [span for span in self.spans if translation.count(span) != self.text.count(span)]


def make_sample(sentence: str, rng: random.Random) -> Sample:
    """Returns a sentence with one to four different spans at random places."""
    words = sentence.split(" ")
    spans = rng.sample(SPANS, rng.randint(1, 4))
    for span in spans:
        words.insert(rng.randint(0, len(words)), span)
    return Sample(" ".join(words), tuple(spans))


def main() -> None:
    """Measures a running server and prints the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fidelity")
    add = parser.add_argument
    add("--source", type=Path, required=True, help="file with one sentence per line")
    add("--target", type=Path, required=True, help="file with the translation of each line")
    add("--pair", default="en-pt", help="languages of the two files")
    add("--samples", type=int, default=1000, help="number of sentences in each direction")
    add("--url", default="http://127.0.0.1:8000", help="address of the server")
    args = parser.parse_args()
    languages = args.pair.split("-")
    rng = random.Random(7)
    with httpx.Client(base_url=args.url) as client:
        for path, (source, target) in (
            (args.source, languages),
            (args.target, reversed(languages)),
        ):
            sentences = path.read_text("utf-8").splitlines()
            samples = [make_sample(rng.choice(sentences), rng) for _ in range(args.samples)]
            texts = [sample.text for sample in samples]
            found = translate(client, texts, source=source, target=target)
            complete = 0
            for sample, translation in zip(samples, found, strict=True):
                lost = sample.lost(translation)
                complete += not lost
                if lost:
                    print(f"{lost}\n    {sample.text}\n    {translation}")
            share = complete / len(samples)
            print(f"{source}-{target}: {complete} of {len(samples)} complete ({share:.2%})")


if __name__ == "__main__":
    main()
