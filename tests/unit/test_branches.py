"""The branches of messages are translated in their sentences, and the structure stays."""

import random
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.documents.formats import read_document
from service.text import branches
from service.text.messages import Choice, Kept, Kind, Pattern, read_message
from service.text.xml_text import XmlRules, read_xml
from tests.icu import (
    MESSAGES,
    as_xliff,
    composer_of,
    in_capitals,
    parsed,
    quotes,
    structure,
    texts,
    translated,
)


def asked(text: str, language: str = "en", is_markup: bool = False) -> list[str]:
    composer = composer_of(parsed(text, is_markup), lambda _: None, language)
    assert composer.write() is None
    return [*composer.missing]


def by_table(text: str, table: dict[str, str], is_markup: bool = False) -> str:
    return translated(parsed(text, is_markup), table.__getitem__)


@pytest.mark.parametrize("text", MESSAGES)
def test_structure_stays_and_every_text_is_translated(text: str) -> None:
    found = parsed(translated(parsed(text), in_capitals))
    assert structure(found.root) == structure(parsed(text).root)
    assert quotes(found) == quotes(parsed(text))
    assert all(each.isupper() for each in texts(found.root))


@pytest.mark.parametrize("text", MESSAGES)
def test_one_round_is_enough_for_a_good_translation(text: str) -> None:
    known: dict[str, str] = {}
    composer = composer_of(parsed(text), known.get)
    composer.write()
    known |= {sentence: in_capitals(sentence) for sentence in composer.missing}
    assert composer.write() is not None
    assert {*composer.used} == {*known}


SENTENCES = {
    "{n, plural, one {# file} other {# files}}": ["1 file", "25 files"],
    "You have {n, plural, one {# file} other {# files}} in {a}.": [
        "You have 25 files in {4}.",
        "You have 1 file in {4}.",
    ],
    "{n} {n, plural, one {file} other {files}}": ["25 files", "1 file"],
    "{n, plural, offset:2 =2 {# a {n}} =5 {# b} other {# c}}": ["0 a {3}", "3 b", "25 c"],
    "{n, plural, one {{n} of {n} at {a}} other {{n}}}": ["1 of 1 at {4}"],
    "{n, selectordinal, one {#st day} two {#nd day} few {#rd day} other {#th day}}": [
        *("21st day", "22nd day", "23rd day", "24th day")
    ],
    "{n, plural, one {# file} other {# files}} in {m, plural, one {# day} other {# days}}": [
        *("25 files in 47 days", "1 file in 25 days", "25 files in 1 day")
    ],
    "{n, plural, one {# of 1 file} other {# of 25 files}}": ["{2} of 1 file", "47 of 25 files"],
    "{g, select, a {x {n, plural, one {y} other {z}}} other {w}} v": ["w v", "x z v", "x y v"],
    "{n, plural, =0 {} other {a}}, {m, plural, =0 {} other {b}}": ["a", "b"],
    "{n, plural, one {'{'a'}' is '{b}'} other {'{a b}'}}": ["{2}a{3} is {4}", "{a b}"],
    "Hi, {a}! You read {n, plural, one {a book} other {books}}. {g, select, m {He} other {They}}"
    " read. Bye.": ["Hi, {1}! ", "You read books. ", "You read a book. "]
    + ["They read. ", "He read. ", "Bye."],
    "Cats & dogs. Read {n, plural, one {<b>this</b>} other {it}}.": [
        *("Cats &amp; dogs. ", "Read it.", "Read <b>this</b>.")
    ],
    "<b>Hi! {n, plural, one {#} other {#}} a.</b>": ["<b>Hi! 25 a.</b>", "<b>Hi! 1 a.</b>"],
    "{n, plural, one {use '{0} or {1}' and {a}} other {}}": ["use {0} or {1} and {3}"],
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_have_the_text_around_the_branch(text: str) -> None:
    assert asked(text) == SENTENCES[text]


def test_numbers_are_those_of_the_source_language() -> None:
    text = "{n, plural, one {# a} few {# b} many {# c} other {# d}}"
    assert asked(text, "ru") == ["1 a", "2 b", "25 c", "25 d"]
    assert asked(text, "pt-BR") == ["1 a", "25 b", "25 c", "25 d"]
    assert asked(text, "xx") == ["1 a", "25 b", "25 c", "25 d"]


WRITTEN = [
    # Words in common stay outside.
    (
        "You have {n, plural, one {# message} other {# messages}} in {a}.",
        {
            "You have 1 message in {4}.": "Você tem 1 mensagem em {4}.",
            "You have 25 messages in {4}.": "Você tem 25 mensagens em {4}.",
        },
        "Você tem {n, plural, one {# mensagem} other {# mensagens}} em {a}.",
    ),
    # Words outside that must agree move into the branches.
    (
        "{g, select, m {He} other {They}} liked {n, plural, one {it} other {# of them}}.",
        {
            "They liked 25 of them.": "Eles gostaram de 25 delas.",
            "He liked 25 of them.": "Ele gostou de 25 delas.",
            "They liked it.": "Eles gostaram disso.",
        },
        "{g, select, m {Ele gostou} other {Eles gostaram}} "
        "{n, plural, one {disso} other {de # delas}}.",
    ),
    # A word is not cut.
    (
        "{n, selectordinal, one {#st} other {#th}} day",
        {"21st day": "21º dia", "24th day": "24º dia"},
        "{n, selectordinal, one {#º} other {#º}} dia",
    ),
    # A number that the translation does not have.
    (
        "You have {n, plural, one {# message} other {# messages}}",
        {
            "You have 25 messages": "Você tem 25 mensagens",
            "You have 1 message": "Você tem uma mensagem",
            "You have {1}": "Você tem {1}",
            "25 messages": "25 mensagens",
            "1 message": "uma mensagem",
            "{2} message": "{2} mensagem",
        },
        "Você tem {n, plural, one {# mensagem} other {# mensagens}}",
    ),
    # Equal translations.
    (
        "{g, select, f {A professora} other {O professor}} chegou.",
        {
            "O professor chegou.": "The teacher has come.",
            "A professora chegou.": "The teacher has come.",
            "{1} chegou.": "{1} has come.",
            "A professora": "The teacher",
            "O professor": "The teacher",
        },
        "{g, select, f {The teacher} other {The teacher}} has come.",
    ),
    # Equal translations for one of two arguments.
    (
        "{a} added {n, plural, one {a photo} other {# photos}} to "
        "{g, select, m {his} other {her}} album.",
        {
            "{1} added 25 photos to her album.": "{1} adicionou 25 fotos ao seu álbum.",
            "{1} added 25 photos to his album.": "{1} adicionou 25 fotos ao seu álbum.",
            "{1} added a photo to her album.": "{1} adicionou uma foto ao seu álbum.",
            "{1} added 25 photos to {4} album.": "{1} adicionou 25 fotos ao álbum {4}.",
            "{1} added a photo to {4} album.": "{1} adicionou uma foto ao álbum {4}.",
            "his": "dele",
            "her": "dela",
        },
        "{a} adicionou {n, plural, one {uma foto} other {# fotos}} ao álbum "
        "{g, select, m {dele} other {dela}}.",
    ),
    # An argument that would be inside a branch.
    (
        "In {a} {n, plural, one {there is a file} other {there are files}}",
        {
            "In {1} there are files": "Há arquivos em {1}",
            "In {1} there is a file": "Em {1} há um arquivo",
            "In {1} {2}": "Em {1} {2}",
            "there is a file": "há um arquivo",
            "there are files": "há arquivos",
        },
        "Em {a} {n, plural, one {há um arquivo} other {há arquivos}}",
    ),
    # Nested choices inside a sentence.
    (
        "{g, select, f {She has {n, plural, one {a book} other {# books}}} other {They read}} here",
        {
            "They read here": "Eles leem aqui",
            "She has 25 books here": "Ela tem 25 livros aqui",
            "She has a book here": "Ela tem um livro aqui",
        },
        "{g, select, f {Ela tem {n, plural, one {um livro} other {# livros}}} "
        "other {Eles leem}} aqui",
    ),
    # Apostrophes and braces of the translation.
    (
        "{n, plural, one {it is '{'here'}'} other {# '#'}} a",
        {"it is {2}here{3} a": "c'est {2}ici{3} à l'a", "25 {5} a": "25 {5} à l'a"},
        "{n, plural, one {c''est '{'ici'}'} other {# '#'}} à l''a",
    ),
    # Tags of plain text are XML for the translation.
    (
        "{n, plural, one {<b>#</b> cat & dog} other {<b>#</b> cats}}",
        {"<b>1</b> cat &amp; dog": "gato &amp; cão <b>1</b>", "<b>25</b> cats": "<b>25</b> gatos"},
        "{n, plural, one {gato & cão <b>#</b>} other {<b>#</b> gatos}}",
    ),
]


@pytest.mark.parametrize(("text", "table", "expected"), WRITTEN)
def test_message_is_written_from_its_sentences(
    text: str, table: dict[str, str], expected: str
) -> None:
    assert by_table(text, table) == expected


def test_translations_with_the_syntax_of_messages_are_escaped() -> None:
    found = by_table("{n, plural, one {a} other {b #}}", {"a": "{x}'s #", "b 25": "'#' 25"})
    assert found == "{n, plural, one {'{'x'}'''s '#'} other {'''#''' #}}"
    assert texts(parsed(found).root) == ["{x}'s #"]


def test_tags_that_are_not_xml_are_kept() -> None:
    found = by_table("{n, plural, one {a<br>b} other {c}}", {"a<br>b": "x<br>y", "c": "z"})
    assert found == "{n, plural, one {x<br>y} other {z}}"


def test_markup_stays_markup() -> None:
    text = "{n, plural, one {<b>#</b> cat &amp; dog} other {<code id='1'>:</code> # cats}} &lt; 3 d"
    table = {
        "<b>1</b> cat &amp; dog &lt; 3 d": "<b>1</b> gato &amp; cão &lt; 3 d",
        "<code id='1'>:</code> 25 cats &lt; 3 d": '25 gatos <code id="1">:</code> &lt; 3 d',
    }
    expected = (
        '{n, plural, one {<b>#</b> gato &amp; cão} other {# gatos <code id="1">:</code>}} &lt; 3 d'
    )
    assert by_table(text, table, is_markup=True) == expected


def test_long_sentence_is_not_repeated_for_each_branch() -> None:
    numbers = range(branches.MAX_GROWTH * 3)
    around = "a " * 300
    text = around + "{n, plural, " + "".join(f"={n} {{b}} " for n in numbers) + "other {c}}"
    assert asked(text) == [around + f"{{{1}}}"]


SEEDS = st.integers(0, 2**32)


def damaged(sentence: str, seed: int) -> str:
    """Returns a translation that has each stand-in and tag once, and nothing else for sure."""
    chance = random.Random(f"{seed} {sentence}")
    words = re.findall(r"\{\d+\}|<[^<>]*>|[^\W\d_]+|\d+|[^\w\s]", sentence)
    found = []
    for word in words:
        is_kept = word[0] in "<{" and len(word) > 1
        if is_kept or chance.random() < 0.9:
            found.append(word)
        if not is_kept:
            found += chance.choice([[], [], [], [word], ["x"], ["'"], ["{"], ["7"], ["#"]])
    if chance.random() < 0.5 and "<" not in sentence:
        chance.shuffle(found)
    return " ".join(found)


@given(st.sampled_from(MESSAGES), SEEDS)
def test_structure_stays_in_any_translation(text: str, seed: int) -> None:
    message = parsed(text)
    found = parsed(translated(message, lambda sentence: damaged(sentence, seed)))
    assert structure(found.root) == structure(message.root)


def pattern_of(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    branch = st.tuples(parts, parts)
    choice = st.sampled_from(["plural", "select", "selectordinal"])
    return st.builds(
        lambda kind, pair: f"{{n, {kind}, one {{{pair[0]}}} other {{{pair[1]}}}}}", choice, branch
    )


LITERALS = ["a", "bc d", " ", "3", "''", "'{'", "'{x y}'", "#", "'#'", "& ", "< ", ". ", "-"]
ARGUMENTS = ["{n}", "{name}", "{0, date, short}", "{{x}}"]
TAGS = ["<b>", "</b>", "<i>e</i>", '<a x="{u}" y="">f</a>', '<a x="" x="">g</a>', "<br/>", "<ö/>"]
PATTERNS = st.recursive(
    st.lists(st.sampled_from([*LITERALS, *ARGUMENTS, *TAGS]), max_size=4).map("".join),
    lambda inner: st.lists(inner | pattern_of(inner), max_size=4).map("".join),
    max_leaves=12,
)


def readings(pattern: Pattern) -> set[str]:
    """Returns all texts that a pattern can show, in which arguments stand as they are."""
    found = {""}
    for node in pattern.nodes:
        if isinstance(node, Choice):
            after = set[str]().union(*map(readings, node.branches))
        elif isinstance(node, Kept):
            after = {node.quoted if node.kind is Kind.QUOTE else node.source}
        else:
            after = {node.value}
        found = {first + last for first in found for last in after}
    return found


@given(pattern_of(PATTERNS) | PATTERNS.map(lambda text: f"a {text} {{n, plural, other {{b}}}}"))
def test_message_in_the_same_language_shows_the_same(text: str) -> None:
    message = read_message(text)
    assume(message is not None and len(readings(message.root)) < 200)
    assert message is not None

    def same(sentence: str) -> str:
        if message.has_xml_tags:
            read_xml(sentence, XmlRules())  # raises no error
        return sentence

    found = parsed(translated(message, same))
    assert structure(found.root) == structure(message.root)
    assert readings(found.root) == readings(message.root)


def test_inline_elements_of_xliff_stay_in_their_branches() -> None:
    source = (
        '{N, plural, =0 {just now} other {<x id="INTERPOLATION" equiv-text="{{n}}"/> minutes '
        '<g id="1">ago</g>}}'
    )
    text = as_xliff(["@"]).replace("@", source)
    document = read_document("a.xlf", text.encode())
    (html,) = document.texts()
    found = document.write([translated(parsed(html, True), in_capitals)], "pt").decode()
    words = {"just now": "JUST NOW", " minutes ": " MINUTES ", ">ago<": ">AGO<"}
    for before, after in words.items():
        source = source.replace(before, after)
    assert f">{source}</target>" in found
