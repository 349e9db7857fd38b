"""XML texts: documents and fragments, the outline, rules for tags, entities, and faults."""

import pytest

from service.errors import InvalidRequestError
from service.text.entities import named_entities
from service.text.markup import Kind, Token, protect_markup
from service.text.xml_text import XmlRules, plain_text, read_xml
from tests.markup_kinds import kinds

PLAIN = XmlRules()


def rules(ignored: str = "", splitting: str = "", non_splitting: str = "") -> XmlRules:
    names = [frozenset(each.split()) for each in (ignored, splitting, non_splitting)]
    return XmlRules(names[0], names[1], names[2])


TEXTS = [
    "",
    "  Only words, no tags.\n",
    "Press <b>Continue</b> to advance.",
    "<p>One.</p>\n<p>Two <i>and <b>three</b></i>.</p>",
    "<doc>\n  <title>A title</title>\n  <par>One. <br/>Two.</par>\n</doc>",
    "<o:p xmlns:o='urn:x' o:id=\"1\">Text</o:p>",
    'An <x id="1"></x> and an <x id="2"/> here.',
    "<!-- a --> words <?pi b?> <![CDATA[ c ]]>",
    "Zoë 🎉 <b >text</b  > 漢字",
    '<?xml version="1.0" encoding="latin-1"?>\n<!DOCTYPE d [<!ENTITY e "x"> ]>\n<d>é&e;</d><!---->',
    "\n<!DOCTYPE html>\n<html>\n<p>x</p></html>\n",
    " <!-- <!DOCTYPE a> --><?pi?>\n<!DOCTYPE html><html/>",
    "\n\n<?xml version='1.0'?>\n\n<d>x</d>\n\n",
    "\ufeff<?xml version='1.0'?><d>x</d>",
    "<!-- a -->\n<p>b</p>\n",
]


ENTITIES = [
    "<h4>&nbsp;</h4>",
    "Caf&eacute; &amp; &laquo;bar&raquo;&hellip;",
    "<p>10&nbsp;km &mdash; <b>&frac12;</b>&copy;</p>",
    '<a title="&nbsp;&rarr;">&rarr;</a>',
    "<!DOCTYPE html>\n<html>&nbsp;<p>&euro;5</p></html>",
    "<![CDATA[&nbsp;]]><!-- &eacute; --> é \u00a0",
    "<!DOCTYPE d [<!ENTITY nbsp 'x'>]><d>&nbsp;</d>",
    "<?xml version='1.0' standalone='yes'?><d>caf&eacute;</d>",
    '<?xml version="1.0" encoding="utf-8" standalone = "yes" ?>\n<d>&nbsp;<b>x</b></d>',
]


@pytest.mark.parametrize("text", ENTITIES)
def test_entities_of_html_come_back_as_they_are_written(text: str) -> None:
    protected = protect_markup(read_xml(text, PLAIN), entities=named_entities(text))
    assert protected.restore(protected.text) == text.replace("<![CDATA[&nbsp;]]>", "&amp;nbsp;")


def test_entities_of_html_are_words() -> None:
    assert plain_text("<p>Caf&eacute;</p>", PLAIN) == "Café"
    assert plain_text("<p>&AMP; &fjlig; &NotEqualTilde;</p>", PLAIN) == "& fj ≂̸"


@pytest.mark.parametrize("text", TEXTS)
def test_tags_are_as_they_are_written(text: str) -> None:
    joined = "".join(token.source for token in read_xml(text, PLAIN))
    assert joined == text.replace("<![CDATA[", "").replace("]]>", "")
    protected = protect_markup(read_xml(text, PLAIN))
    assert protected.restore(protected.text) == joined


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Press <b>Continue</b> to advance.", "totct"),
        ("<b>Continue</b>", "BtB"),
        ("<p>One.</p>\n<p>Two <i>and <b>three</b></i>.</p>", "BtBtBtototcctB"),
        ("<d> <t>A title</t> <p>One.<br/>Two.</p> </d>", "BtBtBtBtBtBtB"),
        ("<p>a <b><i>c</i></b></p>", "BtootccB"),
        ("<p><b>a</b>, <b>c</b></p>", "BotctotcB"),
        ("<p><b>a</b> <b>c</b></p>", "BBtBtBtBB"),
        ("<p/><p></p> words", "eet"),
        ("<p/><p></p>", "BB"),
        ("a <!-- c --><?pi d?> e", "teet"),
        ("a <![CDATA[<b>]]> c", "t"),
    ],
)
def test_tags_without_words_beside_them_end_a_sentence(text: str, expected: str) -> None:
    assert kinds(read_xml(text, PLAIN)) == expected


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("a <b>c</b>", rules(splitting="b"), "tBtB"),
        ("<d><p>a</p><p>c</p></d>", rules(non_splitting="p"), "BotcotcB"),
        ("<d><p>a</p></d>", XmlRules(detects_outline=False), "ootcc"),
        ("<d><p>a</p></d>", XmlRules(splitting=frozenset({"p"}), detects_outline=False), "oBtBc"),
        ('a <x id="1"></x> c <x>d <b>e</b></x>', rules(ignored="x"), "txtx"),
        ('<x id="1"></x>', rules(ignored="x"), "B"),
        ("<d><x>a</x></d>", rules(ignored="x"), "BBB"),
        ("a <X/> <o:x>c</o:x>", rules(ignored="o:x"), "tetx"),
    ],
)
def test_rules_decide_about_tags(text: str, given: XmlRules, expected: str) -> None:
    assert kinds(read_xml(text, given)) == expected


@pytest.mark.parametrize("end", ["", "\n", "<!-- b > c -->", "\n<?pi </b> ?>"])
@pytest.mark.parametrize("root", ["<a/>", '<a b=">" />', "<a></a >", '<a b=">">c</a>'])
def test_root_of_a_document_ends_at_its_last_byte(root: str, end: str) -> None:
    tokens = read_xml(f'<?xml version="1.0"?>{root}{end}', PLAIN)
    assert "".join(token.source for token in tokens[1:] if token.source != end) == root
    assert tokens[-1].source == end or not end


def test_ignored_element_is_one_token() -> None:
    tokens = read_xml('Call <x id="1">the <b>CEO</b></x>!', rules(ignored="x"))
    expected = [
        Token(Kind.TEXT, "Call "),
        Token(Kind.OPAQUE, '<x id="1">the <b>CEO</b></x>'),
        Token(Kind.TEXT, "!"),
    ]
    assert tokens == expected


def test_entities_become_characters_and_are_written_again() -> None:
    text = '<p>Tom &amp; &#233;&lt;&gt; "x" <b>&amp;</b></p>'
    assert plain_text(text, PLAIN) == 'Tom & é<> "x"  &'
    protected = protect_markup(read_xml(text, PLAIN))
    assert protected.restore(protected.text) == text.replace("&#233;", "é")


def test_entities_of_a_document_are_not_replaced() -> None:
    bomb = '<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><d>One &b; two.</d>'
    assert plain_text(bomb, PLAIN) == "One   two."
    protected = protect_markup(read_xml(bomb, PLAIN))
    assert protected.restore(protected.text) == bomb


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a <b>c", "mismatched tag: line 1, column 8"),
        ("a\n <b>c</i>", "mismatched tag: line 2, column 7"),
        ("a &nbps; c", "undefined entity: line 1, column 2"),
        ("a\n&no_such;", "undefined entity: line 2, column 0"),
        ("\n\n<?xml version='1.0'?>\n<d>&x;</d>", "undefined entity: line 4, column 3"),
        ("a & c", "not well-formed (invalid token): line 1, column 3"),
        ("a < c", "not well-formed (invalid token): line 1, column 3"),
        ("a <b c=d>e</b>", "not well-formed (invalid token): line 1, column 7"),
        ("a\x00", "not well-formed (invalid token): line 1, column 1"),
        ("</regard-fragment><regard-fragment>", "junk after document element: line 1, column 18"),
        ("<?xml version='1.0'?><d>", "no element found: line 1, column 24"),
        ("<!DOCTYPE d>", "no element found: line 1, column 12"),
    ],
)
def test_text_that_is_not_well_formed_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match="^Tag handling parsing failed, please") as caught:
        read_xml(text, PLAIN)
    assert caught.value.details == reason


def test_deep_nesting_is_read() -> None:
    text = "<a>" * 20_000 + "word" + "</a>" * 20_000
    assert len(read_xml(text, PLAIN)) == 40_001
