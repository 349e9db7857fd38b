"""Translates short phrases as items of a numbered list.

Models have seen few texts of one to three words. They add words or brackets to them: `Thank you`
becomes `Obrigado por enviar uma edição`. If a model reads `1. Thank you`, it adds less. A phrase
is therefore decoded as a list item, by a beam search. The hypotheses without the number are the
candidates, which are ranked by their log-probabilities.

A phrase in Title Case is decoded twice, also in sentence case, where models know common words
better. Each of its candidates has two log-probabilities, and their mean decides the rank.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from model.sequence import DecodingOptions, Hypothesis
from service.items import Result, TranslationItem
from service.tasks.threads import run_sized
from service.tasks.translation.guards import MAX_SHORT_CHARS, MAX_SHORT_WORDS, UNSURE, rejecting
from service.tasks.translation.pivoting import PivotPipeline, scored
from service.tasks.translation.sentences import Sentence, num_chars
from service.text.formatting import is_title_case, lower_titles
from service.text.letters import has_words, words_of

PHRASE_WORDS = range(1, 4)
"""Numbers of words of phrases, which are always decoded as list items."""

LONGER_WORDS = range(4, MAX_SHORT_WORDS + 1)
"""Numbers of words of sentences that are decoded as list items if a guard rejects them."""

CHARS_PER_SENTENCE = 8
"""Number of characters whose work takes as long as making one work item, some 2 µs."""

NUMBER = "1. "
_NUMBER = re.compile(r"\s*\d\s?[.\u3002\uff0e\u3001)]\s*")

_ELLIPSIS = re.compile(r"(?<=\w)\s?(?:\.{3}|…)$")

MAX_NUMBER_TOKENS = 4

FINAL_MARKS = " .,:;!?\u2026"

MISSING = -8.0
"""Log-probability of a candidate in a search that has not found it."""

COPY_COST = 1.0
"""Cost of a copy of the phrase, as a log-probability. A copy of a name costs nothing. A name is in
Title Case, or each of its words has a capital letter after the first letter."""

MIN_LOG_PROB = -2.5
"""A phrase gets a warning if the log-probability of its translation is smaller."""

Listed = Mapping[Sentence, list[TranslationItem]]
"""Maps each sentence that is decoded as a list item to its work items."""


@dataclass(slots=True)
class Candidate:
    """A translation of a phrase."""

    text: str  # with markers for its spans
    hypothesis: Hypothesis  # without the number, with its log-probabilities
    totals: dict[int, float]  # log-probability by the number of each search that has found it


async def translate(sentences: Sequence[Sentence], pipeline: PivotPipeline, beam_size: int) -> None:
    """Translates sentences, and phrases as list items; a `beam_size` of 0 makes no list items."""
    short = [each for each in sentences if len(each.source) <= MAX_SHORT_CHARS]
    deadline, size = pipeline.deadline, num_chars(short)
    size_of_all = size + CHARS_PER_SENTENCE * len(sentences)
    arguments = sentences, short, pipeline, beam_size
    listed, items = await run_sized(size_of_all, deadline, _make_items, *arguments)
    results = iter(await pipeline.run(items))
    for sentence in sentences:
        if sentence not in listed:
            sentence.result = next(results)
    if listed:
        left = await run_sized(size, deadline, _choose_all, listed, results, pipeline)
        again = await pipeline.run([each.item(pipeline) for each in left])
        for sentence, result in zip(left, again, strict=True):
            sentence.result = result


def _make_items(
    sentences: Sequence[Sentence],
    short: Sequence[Sentence],
    pipeline: PivotPipeline,
    beam_size: int,
) -> tuple[Listed, list[TranslationItem]]:
    listed = list_items(short, PHRASE_WORDS, pipeline, beam_size) if short else {}
    items = []
    for sentence in sentences:
        if sentence not in listed:
            items.append(sentence.item(pipeline))
    for of_list in listed.values():
        items += of_list
    return listed, items


def list_items(
    sentences: Sequence[Sentence], numbers: range, pipeline: PivotPipeline, beam_size: int
) -> Listed:
    """Returns the items of the sentences whose numbers of words are in `numbers`.

    A sentence is left out if it does not begin with a letter, has too many tokens, or has a prefix.
    It is also left out if two models or a remote model translate it. With a beam size of 0, all are
    left out.
    """
    if not beam_size:
        return {}
    beam_size = max(beam_size, pipeline.options.beam_size)
    options = DecodingOptions(beam_size, beam_size, length_penalty=0.0, return_scores=True)
    listed = {}
    for sentence in sentences:
        source, route = sentence.source, sentence.text.route
        if sentence.prefix or len(source) > MAX_SHORT_CHARS or not source[:1].isalpha():
            continue
        if len(route) > 1 or not route[0].has_attention or len(words_of(source)) not in numbers:
            continue
        tokenizer, limit = sentence.text.tokenizers[0], sentence.text.max_tokens
        read = [tokenizer.encode(NUMBER + each) for each in _readings(sentence)]
        if max(map(len, read)) <= limit:
            ids = [[*each, *tokenizer.source_end] for each in read]
            listed[sentence] = [pipeline.item(each, route, options) for each in ids]
    return listed


def _readings(sentence: Sentence) -> list[str]:
    """Returns the phrase as the models read it. An ellipsis would make them go on: `Open...`."""
    text = _ELLIPSIS.sub("", sentence.read_source)
    return [*dict.fromkeys([text, lower_titles(text, sentence.text.languages[0])])]


def _choose_all(
    listed: Listed, results: Iterator[Result], pipeline: PivotPipeline
) -> list[Sentence]:
    """Gives phrases their best candidates; returns the phrases that have none."""
    left = []
    for sentence, items in listed.items():
        found = [next(results) for _ in items]
        candidates = ranked(sentence, found)
        if not candidates:
            left.append(sentence)
            continue
        hypotheses = [scored(each.hypothesis, pipeline.options) for each in candidates]
        value = hypotheses[: pipeline.options.num_hypotheses]
        sentence.result = replace(found[0], value=value)
        if max(candidates[0].totals.values()) < MIN_LOG_PROB:
            sentence.record(UNSURE, True, pipeline)
    return left


def ranked(sentence: Sentence, results: Sequence[Result]) -> list[Candidate]:
    """Returns the different translations of a list item, best first, from all its searches.

    If guards reject the best translation, those rejected by the fewest guards come first.
    """
    found: dict[str, Candidate] = {}
    for search, result in enumerate(results):
        for text, hypothesis in _translations(sentence, result.value):
            key = text.casefold().rstrip(FINAL_MARKS)
            candidate = found.setdefault(key, Candidate(text, hypothesis, {}))
            candidate.totals.setdefault(search, math.fsum(hypothesis.log_probs))
    searches = {search for each in found.values() for search in each.totals}

    def cost(candidate: Candidate) -> float:
        totals = [candidate.totals.get(search, MISSING) for search in searches]
        copied = COPY_COST if _is_copy(sentence, candidate.text) else 0.0
        return copied - math.fsum(totals) / len(totals)

    def num_rejecting(candidate: Candidate) -> int:
        return len(rejecting(sentence.reading(candidate.hypothesis)))

    candidates = sorted(found.values(), key=cost)
    if candidates and num_rejecting(candidates[0]):
        candidates.sort(key=num_rejecting)
    return candidates


def _translations(
    sentence: Sentence, hypotheses: Sequence[Hypothesis]
) -> Iterator[tuple[str, Hypothesis]]:
    """Yields the translation of each list item that has its number and all spans."""
    decode = sentence.text.tokenizers[1].decode
    number: list[int] = []
    for hypothesis in hypotheses:
        tokens, log_probs = hypothesis.tokens, hypothesis.log_probs
        if not number or tokens[: len(number)] != number:
            number = _number(tokens, decode)
        if not number:
            continue
        found = Hypothesis(tokens[len(number) :], log_probs[len(number) :])
        found = _as_often(found, decode, words_of(sentence.read_source))
        text = sentence.restored(decode(found.tokens))
        if text and has_words(text):
            yield text, found


def _as_often(
    hypothesis: Hypothesis, decode: Callable[[list[int]], str], source: Sequence[str]
) -> Hypothesis:
    """Repeats a word as often as the source does: `Yes yes` for `sim sim`, not `Yes yes yes`.

    A hypothesis or a source with different words changes nothing. Added words cost nothing.
    """
    tokens, log_probs = hypothesis.tokens, hypothesis.log_probs
    words, wanted = words_of(decode(tokens).casefold()), len(source)
    if wanted < 2 or wanted == len(words) or len({*words}) != 1:
        return hypothesis
    if len({word.casefold() for word in source}) != 1:
        return hypothesis

    ends = dict[int, int]()  # of the first words, by their number
    for n in range(len(tokens)):
        found = words_of(decode(tokens[:n]).casefold())
        if found == words[: len(found)]:
            ends.setdefault(len(found), n)
    start, end = ends.get(len(words) - 1), ends.get(min(wanted, len(words)))
    if start is None or end is None:  # a token has several words
        return hypothesis
    last, kept = slice(start, len(tokens) - 1), slice(end)
    more = wanted - len(words)
    return Hypothesis(
        [*tokens[kept], *tokens[last] * more, tokens[-1]],
        [*log_probs[kept], *[0.0] * len(tokens[last]) * more, log_probs[-1]],
    )


def _number(tokens: list[int], decode: Callable[[list[int]], str]) -> list[int]:
    """Returns the tokens of the number of a list item; none if the item does not begin with it."""
    for end in range(1, MAX_NUMBER_TOKENS + 1):
        if _NUMBER.fullmatch(decode(tokens[:end])):
            return tokens[:end]
    return []


def _is_copy(sentence: Sentence, text: str) -> bool:
    """Returns whether a text has the letters of a sentence that is probably not a name."""
    if _letters(sentence.read_source) != _letters(text):
        return False
    is_common = any(word[1:] == word[1:].lower() for word in words_of(sentence.given))
    return is_common and not is_title_case(sentence.given)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
