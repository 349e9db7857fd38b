"""Finds the language pair and the text in the messages of a chat.

Programs that translate with chat models put a text into a prompt. This module knows the forms of
such prompts. A message in no known form is a text to translate, as it stands.

The forms are those of Subtitle Edit, Lingarr, Immersive Translate, KISS Translator, pot, Zotero's
PDF Translate, OpenAI Translator, Bob, Hy-MT, TranslateGemma and Qwen-MT.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from service.text.language_names import CODE, code_of

MAX_PROMPT_CHARS = 2000  # of the part of a message that may be an instruction
MAX_NAME_WORDS = 4
MAX_PLACES = 64  # of words such as "to" in an instruction, behind which a name is looked for

SOURCE_KEYS = ("source", "from", "source_lang", "source_language", "source_lang_code")
TARGET_KEYS = (
    *("target", "to", "target_lang", "target_language", "target_lang_code"),
    "targetLanguage",  # KISS Translator
)
TEXT_KEYS = ("text", "line", "content")
"""Names of members in a message that is JSON."""

AUTO = ("", "auto", "detect")

FROM_TO = re.compile(
    r"\b(?P<source>\w[^\n.:;!?]{0,40}?)\s{1,4}(?:in)?to\s(?=(?P<target>[^\n]{2,60}))", re.I
)
INTO = re.compile(r"\b(?:in)?to\s(?=(?P<target>[^\n]{2,60}))", re.I)
TRANSLATE = re.compile(r"\btranslat", re.I)
OF_SOURCE = re.compile(r"\b(?P<source>\w+)\s+(?:source\s+)?(?:text|sentence|segment)", re.I)
CHINESE = re.compile(
    r"(?:从(?P<source>[^\s，。：:]{1,12}?))?(?:翻译|译)(?:成|为|到)\s{0,2}"
    r"(?=(?P<target>[^\s，。：:]{1,16}))"
)
TASK = "\n# Task\n"  # heading of KISS Translator, after a part with the title of the page
OPENING = re.compile(
    r"\s*(?:#|please\b|you are\b|as an?\b|act as\b|only\b|translat|请|将|把|从|翻译|你是)", re.I
)
NAME_END = re.compile(r"[\n,;:!?，。：；]|\.(?:\s|$)|\s[-–—]\s")
SENTENCE_END = re.compile(r"[\n。]|\.\s")
QUOTES = str.maketrans("", "", "\"'`*<>[]{}“”「」")


@dataclass(frozen=True, slots=True)
class Pair:
    """Language codes, which the server may not serve. None means that a code is not given."""

    source: str | None = None
    target: str | None = None

    @property
    def is_complete(self) -> bool:
        return self.source is not None and self.target is not None

    def completed(self, other: "Pair") -> "Pair":
        return Pair(self.source or other.source, self.target or other.target)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of a prompt: the mark before the text, and the removal of the part after the text."""

    mark: re.Pattern[str]
    close: Callable[[str], str] = str.strip
    is_near: bool = False  # whether the mark must be in the sentence that names the target


def _without_end(*ends: str) -> Callable[[str], str]:
    def close(text: str) -> str:
        text = text.strip()
        for end in ends:
            if text[-len(end) :].lower() == end:
                return text[: -len(end)].strip()
        return text

    return close


FORMS = (
    Form(
        re.compile(r"\n[ \t]*(?:(?:source|original|input) )?text[ \t]*[:：]", re.I),
        _without_end("translated text:", "translation:"),
    ),
    Form(re.compile(r"\"\"\""), _without_end('"""')),
    Form(re.compile(r"\n```\w*\n"), _without_end("```")),
    Form(re.compile(r":\s{0,4}🔤"), lambda text: text.partition("🔤")[0].strip()),
    Form(
        re.compile(r"\n<(?:source_text|source|text)>"), lambda text: text.partition("</")[0].strip()
    ),
    Form(re.compile(r":\s{0,4}\"(?=(?s:.*)\" =>\s*\Z)"), _without_end('" =>')),
    Form(re.compile(r"[:：][ \t]+(?=\S)"), is_near=True),
    Form(re.compile(r"[:：][ \t]*\n")),
    Form(re.compile(r"\n[ \t]*\n")),
    Form(re.compile(r"\n"), is_near=True),
)
"""The forms of prompts, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text of a message, and the language pair that the message names."""

    pair: Pair
    text: str


def split(message: str, offered: Collection[str]) -> Prompt | None:
    """Divides a message into instruction and text; None if it has no known form."""
    head = message[:MAX_PROMPT_CHARS]
    if not OPENING.match(head):
        return None
    pairs = [*_pairs(head, offered)]
    for form in FORMS if pairs else ():
        for found in form.mark.finditer(head):
            at, pair = next((each for each in pairs if each[0] < found.start()), (0, None))
            if pair is None or (form.is_near and SENTENCE_END.search(head, at, found.start())):
                continue
            if text := form.close(message[found.end() :]):
                return Prompt(pair, text)
    return None


def instructed(instruction: str, offered: Collection[str]) -> Pair | None:
    """Returns the pair that an instruction names; None if it names no target language."""
    pairs = _pairs(instruction[:MAX_PROMPT_CHARS], offered)
    return next((pair for _, pair in pairs), None)


def _pairs(instruction: str, offered: Collection[str]) -> Iterator[tuple[int, Pair]]:
    """Yields pairs with the index of the target's name, the most certain ones first."""
    for found in islice(CHINESE.finditer(instruction), MAX_PLACES):
        if target := _leading_name(found["target"], offered):
            yield found.start("target"), Pair(code_of(found["source"] or "", offered), target)
    task = max(0, instruction.rfind(TASK))
    start = TRANSLATE.search(instruction, task)
    if start is None:
        return
    for found in islice(FROM_TO.finditer(instruction, task), MAX_PLACES):
        if source := _trailing_name(found["source"], offered):
            if target := _leading_name(found["target"], offered, is_pair=True):
                yield found.start("target"), Pair(source, target)
    for found in islice(INTO.finditer(instruction, start.start()), MAX_PLACES):
        verb = [*TRANSLATE.finditer(instruction, start.start(), found.start())][-1]
        is_far = bool(SENTENCE_END.search(instruction, verb.end(), found.start()))
        if target := _leading_name(found["target"], offered, is_far=is_far):
            sources = OF_SOURCE.finditer(instruction, start.start(), found.start())
            names = (code_of(each["source"], offered) for each in sources)
            yield found.start("target"), Pair(next(filter(None, names), None), target)


def _leading_name(
    phrase: str, offered: Collection[str], is_pair: bool = False, is_far: bool = False
) -> str | None:
    """Returns the code of the language whose name or code a phrase begins with.

    Many codes are English words, such as `it` and `no`. Without a source language (`is_pair`), a
    code must be the whole phrase, in the sentence of the verb (not `is_far`).
    """
    phrase = NAME_END.split(phrase.translate(QUOTES), maxsplit=1)[0].strip()
    words = phrase.removeprefix("the ").split(" ")
    for count in range(min(MAX_NAME_WORDS, len(words)), 0, -1):
        name = " ".join(words[:count])
        is_word = len(name) < 4 and CODE.fullmatch(name) and (is_far or count < len(words))
        if (code := code_of(name, offered)) and (is_pair or not is_word):
            return code
    if not phrase.isascii():  # Chinese has no spaces between words
        for end in range(len(words[0]) - 1, 1, -1):
            if code := code_of(words[0][:end], offered):
                return code
    return None


def _trailing_name(phrase: str, offered: Collection[str]) -> str | None:
    """Returns the code of the language whose name a phrase ends with; a code must follow `from`."""
    _, has_from, after = phrase.translate(QUOTES).rpartition("from ")
    words = after.split()
    for begin in range(max(0, len(words) - MAX_NAME_WORDS), len(words)):
        name = " ".join(words[begin:])
        if (has_from or not CODE.fullmatch(name)) and (code := code_of(name, offered)):
            return code
    return None


def pair_in(members: Mapping[str, Any], offered: Collection[str]) -> Pair:
    """Returns the pair that members such as `source` and `target` give by code or name."""

    def code(keys: Sequence[str]) -> str | None:
        given = next((str(members[key]) for key in keys if members.get(key)), "")
        return None if given.lower() in AUTO else code_of(given, offered) or given

    return Pair(code(SOURCE_KEYS), code(TARGET_KEYS))


def parsed(message: str) -> Any:
    """Returns the value of a message that is a JSON object or list, else None."""
    if not message.lstrip().startswith(("{", "[")):
        return None
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of a message in JSON, and the member of each item that is its text."""

    pair: Pair
    items: list[dict[str, Any]]
    key: str

    @property
    def texts(self) -> list[str]:
        return [item[self.key] for item in self.items]


def batch_of(message: str, offered: Collection[str]) -> Batch | None:
    """Returns the items of a message such as `[{"position": 1, "line": "A cat."}]`, else None."""
    value = parsed(message)
    pair = pair_in(value, offered) if isinstance(value, dict) else Pair()
    lists = value.values() if isinstance(value, dict) else (value,)
    for items in lists:
        if isinstance(items, list) and items:
            for key in TEXT_KEYS:
                if all(isinstance(each, dict) and type(each.get(key)) is str for each in items):
                    return Batch(pair, items, key)
    return None


def text_in(value: Mapping[str, Any]) -> str:
    """Returns the text of a message such as `{"to": "pt", "text": "A cat."}`, "" without one."""
    given = next((value[key] for key in TEXT_KEYS if key in value), "")
    return given if isinstance(given, str) else ""
