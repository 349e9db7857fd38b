"""Messages in ICU MessageFormat, and their structure and texts, for comparisons."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape, unescape
from pathlib import Path

from service.text.branches import Composer, Find
from service.text.letters import has_letters
from service.text.messages import (
    QUOTED,
    Choice,
    Kept,
    Kind,
    Message,
    Pattern,
    Text,
    read_message,
    walk,
)
from service.text.segmentation import split_sentences

MESSAGES = Path(__file__).with_name("data").joinpath("icu_messages.txt").read_text().splitlines()
"""Messages in English, each in a form of its own. The first ones are those of ICU's user guide."""

Structure = tuple[object, ...]

_UNIT = re.compile(r"<[^<>]*>|&lt;.*?&gt;|&\w+;|\{\d+\}|[^\W\d_]+")


def parsed(text: str, is_markup: bool = False) -> Message:
    message = read_message(text, is_markup)
    assert message is not None, text
    return message


def structure(pattern: Pattern) -> Structure:
    """Returns what a translation keeps, but for quotes.

    Within a pattern, kept parts may change their order.
    """
    nodes = [node for node in pattern.nodes if isinstance(node, Kept)]
    kept = sorted(node.source for node in nodes if node.kind is not Kind.QUOTE)
    choices = [
        (choice.kind, choice.name, choice.offset, choice.selectors, choice.around)
        + tuple(map(structure, choice.branches))
        for choice in pattern.choices
    ]
    return (*kept, *sorted(choices, key=repr))


def quotes(message: Message) -> list[str]:
    nodes = walk(message.root)
    found = (node for node in nodes if isinstance(node, Kept) and node.kind is Kind.QUOTE)
    return sorted(node.source for node in found)


def texts(pattern: Pattern) -> list[str]:
    """Returns the literal texts with letters, with what quotes show."""
    found, inside = [""], list[str]()
    for node in pattern.nodes:
        if isinstance(node, Choice):
            inside += [text for branch in node.branches for text in texts(branch)]
        if isinstance(node, Text):
            found[-1] += node.value
        elif isinstance(node, Kept) and node.kind is Kind.QUOTE:
            found[-1] += node.quoted
        else:
            found.append("")
    return [text for text in found if has_letters(text)] + inside


def written(message: Message, pattern: Pattern | None = None, in_plural: bool = False) -> str:
    """Returns a message as it is written without a translation."""
    parts = [""]
    for node in (pattern or message.root).nodes:
        if isinstance(node, Choice):
            branches = [written(message, each, node.is_plural) for each in node.branches]
            parts += (node.write(branches), "")
        elif isinstance(node, Text) or node.kind is Kind.QUOTE:
            parts[-1] += node.value if isinstance(node, Text) else QUOTED % node.quoted
        else:
            parts += (node.source, "")
    literals = [message.escape(part, in_plural) for part in parts[::2]]
    return "".join(map(str.__add__, literals, [*parts[1::2], ""]))


def composer_of(message: Message, find: Find, language: str = "en") -> Composer:
    return Composer(message, language, find, partial(split_sentences, language=language))


def translated(message: Message, translate: Callable[[str], str], language: str = "en") -> str:
    """Returns a message after as many rounds of translation as it needs."""
    known: dict[str, str] = {}
    composer = composer_of(message, known.get, language)
    while (found := composer.write()) is None:
        assert composer.missing.keys().isdisjoint(known)
        known |= {sentence: translate(sentence) for sentence in composer.missing}
    return found


def in_capitals(sentence: str) -> str:
    """Translates into a language of capital letters; tags, entities and stand-ins stay."""
    return _UNIT.sub(lambda unit: unit[0].upper() if unit[0].isalpha() else unit[0], sentence)


def as_json(messages: Sequence[str]) -> str:
    return json.dumps({f"key {number}": each for number, each in enumerate(messages)}, indent=2)


def from_json(data: bytes) -> list[str]:
    return [*json.loads(data).values()]


def as_po(messages: Sequence[str]) -> str:
    header = 'msgid ""\nmsgstr "Language: en\\n"\n\n'
    return header + "\n".join(f'msgid {_quoted(each)}\nmsgstr ""\n' for each in messages)


def _quoted(message: str) -> str:
    return '"' + message.replace("\\", "\\\\").replace('"', '\\"') + '"'


def from_po(data: bytes) -> list[str]:
    found = re.findall(r'(?m)^msgstr "(.+)"$', data.decode())
    return [each.replace('\\"', '"') for each in found[1:]]


def as_xliff(messages: Sequence[str]) -> str:
    units = "".join(
        f'<trans-unit id="{number}"><source>{escape(each)}</source></trans-unit>'
        for number, each in enumerate(messages)
    )
    return f'<xliff version="1.2"><file source-language="en"><body>{units}</body></file></xliff>'


def from_xliff(data: bytes) -> list[str]:
    return [unescape(each) for each in re.findall("<target[^>]*>(.*?)</target>", data.decode())]


SYNTAXES = {".json": (as_json, from_json), ".po": (as_po, from_po), ".xlf": (as_xliff, from_xliff)}
"""For each kind of document: the functions that write messages into one, and read them."""
