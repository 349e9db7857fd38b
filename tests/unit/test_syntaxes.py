"""The tables of protected spans: each row finds the spans of its examples, and nothing else."""

import re
import sys
import unicodedata

import pytest

from service.text.code_syntaxes import CODE
from service.text.protection import protect
from service.text.signs import has_signs
from service.text.syntaxes import MARKUP
from service.text.typography import FOLDED, Typography, folded, with_nested_quotes
from service.text.values import VALUES
from tests.protected_spans import KEPT, TRANSLATED
from tests.text_tokenizers import unknown_characters

NAMES = [name for group in (*MARKUP, *CODE, *VALUES) for name in group.rows]


def marked(example: str) -> tuple[str, list[str]]:
    """The text of an example, and its spans; spans that touch are one."""
    joined = example.replace("⟧⟦", "")
    return re.sub("[⟦⟧]", "", joined), re.findall("⟦(.*?)⟧", joined)


@pytest.mark.parametrize("name", NAMES)
def test_row_finds_the_spans_of_its_examples(name: str) -> None:
    for example in KEPT[name]:
        text, spans = marked(example)
        assert spans, example
        found = protect(text)
        assert list(found.spans) == spans
        assert found.restore(found.text) == text
    for text in TRANSLATED.get(name, ()):
        assert protect(text).spans == ()


def test_names_of_rows_differ() -> None:
    assert sorted(KEPT) == sorted(NAMES)
    assert TRANSLATED.keys() <= KEPT.keys()


COMPATIBLE = {
    "ordinals, whose sign is restored afterwards": "ªº",
    "digits, marks and Kana of East Asian widths": (
        "\u3000\uff01-\uff20\uff3b-\uff40\uff5b-\uff60\uffe0-\uffe6\uff61-\uffdc\uffe8-\uffee"
    ),
    "ligatures": (
        "\u0132\u0133\u013f\u0140\u0149\u017f\u01c4-\u01cc\u01f1-\u01f3\u1e9a\ufb00-\ufb06\ufb13-\ufb17"
        "\ufb20-\ufb29\ufb4f\u0587"
    ),
    "forms of a letter in its word, or in vertical text": (
        "\ufb50-\ufdff\ufe70-\ufefc\ufe10-\ufe19\ufe30-\ufe6b\u0675-\u0678\u309f\u30ff"
    ),
    "white space and hyphens": "\u00a0\u2000-\u200a\u202f\u205f\u0f0c\u2011",
    "marks that have the meaning of their parts": (
        "\u2024-\u2026\u203c\u2047-\u2049\u2017\u203e\u00a8\u00af\u00b4\u00b8\u02d8-\u02dd\u037a\u0384"
        "\u1fbd-\u1fc0\u1ffe\u309b\u309c\u3036"
    ),
    "letters with the meaning of their usual forms": (
        "\u00b5\u03d0-\u03d6\u03f0-\u03f5\u03f9\u0e33\u0eb3\u0edc\u0edd\u0f77\u0f79\u20a8\u2e9f\u2ef3"
        "\u2f00-\u2fd5\u3038-\u303a\u3131-\u318e\u3192-\u319f"
    ),
}
"""Characters that NFKC replaces and that are no spans."""


def test_characters_that_nfkc_replaces_are_spans_or_compatible() -> None:
    replaced = [
        character
        for character in map(chr, range(sys.maxunicode + 1))
        if unicodedata.decomposition(character).startswith("<")
    ]
    assert len(replaced) > 3000
    translated = re.compile(f"[{''.join(COMPATIBLE.values())}]")
    for character in replaced:
        kept = () if translated.match(character) else (character,)
        assert protect(f"the {character} here").spans == kept, hex(ord(character))


STYLED = {
    "The cat 𝐀𝐁 sat": ["𝐀𝐁"],
    "The 𝐇𝐞𝐥𝐥𝐨 sat": [],
    "The ＡＢＣ sat": ["ＡＢＣ"],
    "Ｔシャツ and ２０２４年": [],
    "The ﬁre and the ĳ": [],
    "Chapter Ⅳ, № 12 and ℓ": ["Ⅳ", "№", "ℓ"],
    "Bake at 180 ℃ with 2½ cups and ¾ more": ["180 ℃", "2½", "¾"],
    "The \u200ecat\u200e sat": ["\u200e", "\u200e"],
    "שלום\u200f כאן": [],
    "a ≠ b and A ⇒ B": ["a ≠ b", "A ⇒ B"],
    "The ∞ of ∑ and 3\u2033": ["∞", "∑", "\u2033"],
}


@pytest.mark.parametrize("text", STYLED)
def test_signs_are_spans(text: str) -> None:
    assert list(protect(text).spans) == STYLED[text]
    assert bool(STYLED[text]) <= has_signs(text)


UNKNOWN = "<>{}#@\\^`~€“”‘’„«»–—−‑•ñğ¿§$"

APART = {
    "If a <b and c> d, then stop.": ["<", ">"],
    "She said: <<stop right there>> and left.": ["<<", ">>"],
    "The set {red, green and blue} is finite.": ["{", "}"],
    "¿Qué tal? ~about five": ["¿", "~"],
    "It cost €50 or 50€ and I <3 you": ["€50", "50€", "<3"],
    "See § 5, §5 and don~t": ["§", "§5", "don~t"],
    "President Erdoğan of España": ["Erdoğan", "España"],
    "The fox—the red one—jumps": ["—", "—"],
    "{the ñandu}": ["{", "ñandu", "}"],
}


@pytest.mark.parametrize("text", APART)
def test_unknown_signs_stand_apart_from_words(text: str) -> None:
    found = protect(text, unknown_characters(UNKNOWN), keeps_length=True)
    assert list(found.spans) == APART[text]
    assert found.restore(found.text) == text


EMPHASIS = {
    "3. **Belt School**": ["**", "**"],
    "*We* bought ***two*** _old_ __houses here__ and ~~one~~.": [
        *("*", "*", "***", "***", "_", "_", "__", "__", "~~", "~~")
    ],
    "The a*b* is a word*s*": ["a*b"],
    "A note* and the field __init__": ["__init__"],
    "**not closed": [],
    "The **word*s** c": ["**", "**"],
}


@pytest.mark.parametrize("text", EMPHASIS)
def test_marks_of_emphasis_are_spans(text: str) -> None:
    assert list(protect(text).spans) == EMPHASIS[text]


STYLES = {
    ("“Yes”, he said", '"Sim", disse ele'): "“Sim”, disse ele",
    ("«Yes», he said", '"Sim", disse ele'): "«Sim», disse ele",
    ("„Ja“, sagte er", '"Sim", disse ele ("não")'): "„Sim“, disse ele („não“)",
    ("”Ja” sa han", '"Sim", disse'): "”Sim”, disse",
    ("“He said ‘hi’,” she noted", "\"Ele disse 'oi'\", notou"): "“Ele disse ‘oi’”, notou",
    ("“‘Yes,’ he said”", '"\'Sim\', disse" ("não")'): "“‘Sim’, disse” (“não”)",
    ("„Ja“, «oui» and ‹yes›", '"Ja", "oui" e \'sim\''): "„Ja“, «oui» e ‹sim›",
    ("‘Yes’, she doesn’t", "'Sim', n'água"): "‘Sim’, n’água",
    ('The “old" house', 'A "velha" casa'): 'A “velha" casa',
    ('The “old" house', 'A "velha'): 'A "velha',
    ('The "a", “b” and «c»', 'O "a", "b" e "c"'): 'O "a", “b” e «c»',
    ("One — two", "Um - dois"): "Um — dois",
    ("One — two − three", "Um - dois - três."): "Um — dois − três.",
    ("One — two − three", "Um - dois, três"): "Um - dois, três",
    ("One — two - three", "Um - dois - três"): "Um — dois - três",
    ("One—two", "Um - dois"): "Um — dois",
    ("pages 5—7", "páginas 5-7"): "páginas 5—7",
    ("One – two — three", "Um - dois - três"): "Um - dois — três",
    ("pages 5—7, 8–9 and 2-3", "páginas 5-7, 8-9 e 2-3"): "páginas 5—7, 8–9 e 2-3",
    ("pages 5—7 and 8–9", "páginas 5-7"): "páginas 5-7",
    ("The Paris–London train", "O trem Paris-Londres"): "O trem Paris–Londres",
    ("a Wi\u2011Fi network", "uma rede Wi-Fi"): "uma rede Wi\u2011Fi",
    ("a cat–dog", "um cão-gato"): "um cão-gato",
    ("1914–1918 and −5", "1914-1918 e -5, guarda-chuva"): "1914–1918 e −5, guarda-chuva",
    ("Wait… now", "Espere... agora"): "Espere… agora",
    ("Wait… now...", "Espere... agora..."): "Espere... agora...",
    ("10\u00a0km from Mr.\u00a0Smith", "10 km do Sr. Smith"): "10\u00a0km do Sr.\u00a0Smith",
    ("the\u00a0cat", "o gato"): "o gato",
}


@pytest.mark.parametrize(("source", "translation"), STYLES)
def test_translation_gets_the_style_of_the_source(source: str, translation: str) -> None:
    assert Typography.of(source).applied(translation) == STYLES[source, translation]


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("He said, \"I 'never' left\"", 'Ele: "Eu "nunca" saí"', "Ele: \"Eu 'nunca' saí\""),
        ("The 'cat' isn't \"gato\"", 'O "gato" não é "gato"', "O 'gato' não é \"gato\""),
        ("“The ‘best’ day”", '“O "melhor" dia”', "“O ‘melhor’ dia”"),
        ("The 'red' and \"blue\" teams", "Os \"azul\" e 'verm'", "Os \"azul\" e 'verm'"),
        ('The boys\' "big" day', 'O dia "grande"', 'O dia "grande"'),
    ],
)
def test_nested_quotes_keep_their_kind(source: str, translation: str, expected: str) -> None:
    assert with_nested_quotes(source, translation) == expected


def test_only_unknown_signs_are_folded() -> None:
    assert folded("“a” – ’b’", {"“", "”"}, False) == '"a" – ’b’'
    assert folded("a—b — c", {"—"}, False) == "a - b - c"
    assert folded("a—b — c", {"—"}, True) == "a—b - c"
    assert folded("5—7", {"—"}, False) == "5-7"
    text = "".join(FOLDED)
    assert set(folded(text, text, False)) == {*"\"'-"}
    assert Typography.of(f"a {text}").applied("ab") == "ab"
