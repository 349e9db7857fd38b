"""Measures glossaries: how often translations use the terms, and how the BLEU score changes.

Each entry maps a noun of the source texts to a target term. The target term is the word of the
references that occurs with the noun most consistently (Dice's coefficient). So it is a word that a
translator chose. A word counts as a noun if it often follows an English determiner, such as `the`.
So the source must be English.

Example:
    .venv/bin/python -m service serve --port 8451 &
    .venv/bin/python -m benchmarks.glossary --url http://127.0.0.1:8451 \
        --source flores-dev.en --reference flores-dev.pt
"""

import argparse
import re
import time
from collections import Counter, defaultdict
from pathlib import Path

import httpx
import sacrebleu

from benchmarks.translations import translate

WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
DETERMINERS = frozenset("the a an this that these those its his her their our of".split())
NO_NOUNS = frozenset(
    "most other same first many some such more more very only own also which what when where there "
    "both each all another two three four five being about".split()
)


def words_of(text: str) -> list[str]:
    """Returns the words of a text in lower case."""
    return [word.lower() for word in WORD.findall(text)]


def nouns(sources: list[list[str]], least: int) -> list[str]:
    """Returns probable nouns: words that often follow a determiner.

    At least a quarter of a word's occurrences follow a determiner, and at least `least` texts have
    the word. Short words, NO_NOUNS, and words that end in "ly" or "ing" are left out.
    """
    total: Counter[str] = Counter()
    determined: Counter[str] = Counter()
    texts: Counter[str] = Counter()
    for words in sources:
        total.update(words)
        texts.update(set(words))
        determined.update(
            word for before, word in zip(words, words[1:], strict=False) if before in DETERMINERS
        )
    return [
        word
        for word in sorted(total)
        if texts[word] >= least
        and len(word) > 3
        and determined[word] * 4 >= total[word]
        and word not in NO_NOUNS
        and not word.endswith(("ly", "ing"))
    ]


def choose_terms(
    sources: list[list[str]], references: list[list[str]], number: int, least: int
) -> dict[str, str]:
    """Returns the nouns that are translated most consistently, with their target terms."""
    found_in: dict[str, set[int]] = defaultdict(set)
    for index, words in enumerate(references):
        for word in words:
            found_in[word].add(index)
    scored = []
    for noun in nouns(sources, least):
        where = {index for index, words in enumerate(sources) if noun in words}
        candidates = {word for index in where for word in references[index] if len(word) > 3}
        score, best = max(
            (2 * len(where & found_in[word]) / (len(where) + len(found_in[word])), word)
            for word in candidates
        )
        scored.append((score, noun, best))
    return {noun: best for _, noun, best in sorted(scored, reverse=True)[:number]}


def count(term: str, text: str) -> int:
    """Returns the number of places in which a text has a term as whole words."""
    return len(re.findall(rf"(?<![\w-]){re.escape(term)}(?![\w-])", text, re.IGNORECASE))


def wait_until_ready(client: httpx.Client) -> None:
    """Waits until the server has loaded its models, at most two minutes."""
    for _ in range(120):
        try:
            if client.get("/health/ready").is_success:
                return
        except httpx.ConnectError:
            pass
        time.sleep(1)
    raise SystemExit("the server is not ready after 120 s")


def use(terms: dict[str, str], sources: list[str], outputs: list[str]) -> tuple[int, int]:
    """Returns how often the nouns occur in the sources, and how often the outputs use the terms.

    In each text, a term is counted at most as often as its nouns occur in the source.
    """
    total = used = 0
    for source, output in zip(sources, outputs, strict=True):
        wanted: Counter[str] = Counter()
        for noun, term in terms.items():
            wanted[term] += count(noun, source)
        total += wanted.total()
        used += sum(min(number, count(term, output)) for term, number in wanted.items() if number)
    return total, used


def main() -> None:
    """Creates a glossary on the server, measures, and deletes the glossary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--target", default="pt", help="language of the references")
    parser.add_argument("--terms", type=int, default=200)
    parser.add_argument(
        "--least",
        type=int,
        default=3,
        help="smallest number of source texts in which a noun occurs",
    )
    parser.add_argument("--key", default="", help="API key, if the server has keys")
    options = parser.parse_args()
    sources = options.source.read_text("utf-8").splitlines()
    references = options.reference.read_text("utf-8").splitlines()
    terms = choose_terms(
        [words_of(text) for text in sources],
        [words_of(text) for text in references],
        options.terms,
        options.least,
    )
    fields = {"source": "en", "target": options.target, "api_key": options.key}
    headers = {"Authorization": f"DeepL-Auth-Key {options.key}"} if options.key else {}
    with httpx.Client(base_url=options.url, headers=headers, timeout=600) as client:
        entries = "\n".join(f"{noun}\t{term}" for noun, term in terms.items())
        wait_until_ready(client)
        body = {"name": "benchmark", "source_lang": "en", "target_lang": options.target}
        reply = client.post("/v2/glossaries", json={**body, "entries": entries}).raise_for_status()
        glossary = reply.json()["glossary_id"]
        try:
            without = translate(client, sources, **fields)
            outputs = translate(client, sources, **fields, glossary=glossary)
        finally:
            client.delete(f"/v2/glossaries/{glossary}").raise_for_status()
    print(f"{len(terms)} terms, {len(sources)} texts")
    for name, texts in (("without glossary", without), ("with glossary", outputs)):
        total, used = use(terms, sources, texts)
        bleu = sacrebleu.corpus_bleu(texts, [references]).score
        share = 100 * used / total
        print(f"{name}: {used} of {total} terms used ({share:.2f} %), BLEU {bleu:.2f}")


if __name__ == "__main__":
    main()
