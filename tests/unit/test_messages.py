"""Messages in ICU MessageFormat are read after the specification, and written as they were."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.messages import (
    MAX_BRANCHES,
    MAX_CHARS,
    MAX_DEPTH,
    Choice,
    Kept,
    Kind,
    Node,
    Text,
    read_message,
)
from tests.icu import parsed, structure, texts, written

AFTER = "{n, plural, other {}}"
"""A choice without words, so that a text before it is a message."""


def nodes(text: str) -> tuple[Node, ...]:
    *found, choice = parsed(text + AFTER).root.nodes
    assert isinstance(choice, Choice)
    return tuple(found)


def shown(nodes: Iterable[Node]) -> str:
    """Returns what ICU shows for nodes; the sources of arguments stand for their values."""
    found = ""
    for node in nodes:
        if isinstance(node, Text):
            found += node.value
        else:
            assert isinstance(node, Kept)
            found += node.quoted if node.kind is Kind.QUOTE else node.source
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "I said '{''Wow!''}'": "I said {'Wow!'}",
        "This '{isn''t}' obvious": "This {isn't} obvious",
        "It's {name}'s": "It's {name}'s",
        "It''s ''{name}''": "It's '{name}'",
        "'{a b} and {c}' d": "{a b} and {c} d",
        "a } b": "a } b",
        "'' ' ": "' ' ",
        "# '#' ": "# '#' ",
        "3 < 4 {n, number, '#'0} '}'": "3 < 4 {n, number, '#'0} }",
    }.items(),
)
def test_apostrophes_quote_braces_only(text: str, expected: str) -> None:
    assert shown(nodes(text)) == expected
    assert shown(nodes(written(parsed(text + AFTER)).removesuffix(AFTER))) == expected


@pytest.mark.parametrize(
    "argument",
    [
        *("{name}", "{0}", "{ name }", "{größe}", "{a.b}", "{a-b}", "{{name}}", "{{ a | number }}"),
        *("{x,number}", "{x, number, percent}", "{n, spellout}", "{d, date, ::yMMMd}"),
        *("{t,time,short}", "{p, number, '{'0.0'}'}", "{c, choice, 0#none|1#{one}}"),
    ],
)
def test_arguments_are_kept(argument: str) -> None:
    before, kept, after = nodes(f"a {argument} b")
    assert isinstance(kept, Kept)
    assert (kept.kind, kept.source) == (Kind.ARGUMENT, argument)
    assert (before, after) == (Text("a "), Text(" b"))


def test_choice_has_its_parts() -> None:
    text = "{ n , plural , offset:1 =0{a} one {b} =-1 {c}\n other { # d } }"
    (choice,) = parsed(text).root.nodes
    assert isinstance(choice, Choice)
    assert (choice.kind, choice.name, choice.offset) == ("plural", "n", 1)
    assert choice.selectors == ("=0", "one", "=-1", "other")
    first = [branch.nodes[0] for branch in choice.branches]
    assert first == [Text("a"), Text("b"), Text("c"), Text(" ")]
    assert choice.write(["a", "b", "c", " # d "]) == text
    assert choice.default == 3


def test_number_sign_is_an_argument_in_plurals_only() -> None:
    (choice,) = parsed("{n, plural, other {# {g, select, x {#} other {'#' }}}}").root.nodes
    assert isinstance(choice, Choice)
    number, _, inner = choice.branches[0].nodes
    assert isinstance(number, Kept)
    assert number.kind is Kind.NUMBER
    assert isinstance(inner, Choice)
    assert [branch.nodes for branch in inner.branches] == [(Text("#"),), (Text("'#' "),)]


@pytest.mark.parametrize(
    "text",
    [
        "Hello {name}, you have {n, number} messages.",
        "a plural, one {b} other {c}",
        "{n, plural}",
        "{n, plural, }",
        "{n, plural, one}",
        "{n, plural, one {a}",
        "{n, plural, one {a} b}",
        "{n, plural, one {a}} {",
        "{n, plural, one {a} {b}}",
        "{n, plural, single {a} other {b}}",
        "{n, plural, one {'{a} other {b}}",
        "{n, select, =1 {a} other {b}}",
        "{n, plural, one {{}} other {b}}",
        "{n m, plural, one {a} other {b}}",
        "{n, plural, one {{a, number} other {b}}",
        "{n, gender, male {a} other {b}}",
        "{n, plural, offset:x one {a} other {b}}",
        "if (a) { b, select, c }",
    ],
)
def test_other_texts_are_no_messages(text: str) -> None:
    assert read_message(text) is None


def nested(depth: int) -> str:
    return "{n, plural, other {" * depth + "a" + "}}" * depth


def test_messages_over_a_limit_are_ordinary_texts() -> None:
    assert read_message(nested(MAX_DEPTH))
    assert read_message(nested(MAX_DEPTH + 1)) is None
    branches = "=1 {a} " * (MAX_BRANCHES - 1)
    assert read_message(f"{{n, plural, {branches}other {{b}}}}")
    assert read_message(f"{{n, plural, =0 {{c}} {branches}other {{b}}}}") is None
    assert read_message("a" * (MAX_CHARS - len(AFTER)) + AFTER)
    assert read_message("a" * (MAX_CHARS - len(AFTER) + 1) + AFTER) is None


def test_tags_are_kept() -> None:
    message = parsed('Read <a href="{url}">this</a> <br/> now, if 1 <2.' + AFTER)
    tags = [node.source for node in message.root.nodes if isinstance(node, Kept)]
    assert tags == ['<a href="{url}">', "</a>", "<br/>"]
    assert message.has_xml_tags
    assert not parsed("a <br> b" + AFTER).has_xml_tags
    assert not parsed("<b>a</i></b>" + AFTER).has_xml_tags
    assert not parsed("<0>a</0>" + AFTER).has_xml_tags
    assert not parsed("<b>" + AFTER + "</b>{n, plural, one {<i>} other {</i>}}").has_xml_tags


def test_markup_has_tags_and_entities() -> None:
    html = "&#39;{&#39; {n, plural,<br>one {<img id='{'>a &lt;b&gt; &lt; 3} other {<i>c</i>}}"
    message = parsed(html, is_markup=True)
    assert texts(message.root) == ["a ", " &lt; 3", "c"]
    assert not message.has_xml_tags
    assert read_message("{n, plural, one {<i>a} other {</i>b}}", is_markup=True) is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("It's", "It's, c''{n, plural, other {a''{b}}}"),
        ("It''s", "It''s, c''{n, plural, other {a''{b}}}"),
        ("It is", "It''s, c''{n, plural, other {a''{b}}}"),
    ],
)
def test_apostrophes_are_written_as_in_the_source(source: str, expected: str) -> None:
    message = parsed(source + AFTER)
    found = message.escape("It's, c'", False) + "{n, plural, other {" + message.escape("a'", True)
    assert found + "{b}}}" == expected


LITERAL = st.text("ab '{}#<>|&1,", min_size=1)


@given(LITERAL, LITERAL, st.booleans())
def test_escaped_text_is_read_again(outer: str, inner: str, doubles: bool) -> None:
    escape = parsed(("It''s" if doubles else "It's") + AFTER).escape
    text = escape(outer, False) + "{n, plural, other {" + escape(inner, True) + "}}"
    *before, choice = parsed(text).root.nodes
    assert isinstance(choice, Choice)
    assert shown(before) == outer
    assert shown(choice.branches[0].nodes) == inner


PIECES = st.sampled_from(
    [
        *("{", "}", "'", "''", "#", ",", " ", "a", "one", "other ", "=0", "{n}", "<b>", "</b>"),
        *("{n, plural, ", "one {", "other {", "}}", "{g, select, x {a} other {", "offset:1 "),
        *("'{'", "{{", "}} ", "<", ">", "&lt;", "{p, number, ", "|", "1"),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join), st.booleans())
def test_any_text_is_read(text: str, is_markup: bool) -> None:
    message = read_message(text, is_markup)
    if message is not None:
        again = parsed(written(message), is_markup)
        assert structure(again.root) == structure(message.root)
        assert texts(again.root) == texts(message.root)
