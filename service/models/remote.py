"""Remote models: models at an OpenAI-compatible endpoint.

Each language pair of a remote model is served as a model of its own.
"""

import re
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from model.checkpoints.load import Vocabularies
from model.tokenization.tokenizer import WORD_START, Encoding, Span, Tokenizer
from service.items import TRANSLATE, TranslationItem
from service.models.prompts import NO_HINTS, PROMPTS, Hints, PromptFormat, prompt_of
from service.models.served import AnyServed, Direction
from service.text.language_codes import normalize_code

MAX_TOKENS = 2001
"""Largest number of tokens of a sentence: 2,000 characters and EOS."""

END = sys.maxunicode + 1
"""Id at the end of a text of characters; no character has this id."""

MAX_PARAGRAPH_CHARS = 1000
"""Largest length of sentences that are sent together. TranslateGemma reads 2,000 tokens."""

REMOTE = re.compile(
    r"openai:(?P<model>[^\s@#]+)@(?P<url>https?://(?=[^/:])[^\s@#?]+[^\s@#?/])/?"
    r"#(?P<pairs>[A-Za-z_]+-[A-Za-z_]+(?:\+[A-Za-z_]+-[A-Za-z_]+)*)"
    r"(?:&prompt=(?P<prompt>[a-z0-9.-]+))?(?P<first>&first)?"
)
"""Matches a reference to a remote model. The address has no user name, key or query."""


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """One language pair of a remote model. A remote model has no files on this machine."""

    model: str  # its name at the endpoint
    url: str  # of the endpoint, such as `http://host/v1`, without `/chat/completions`
    source: str
    target: str
    prompt_name: str = "generic"
    is_first: bool = False  # whether it is preferred to a model of the same pair on this server

    @property
    def prompt(self) -> PromptFormat:
        return PROMPTS[self.prompt_name]

    @property
    def name(self) -> str:
        """Served name, such as `gemma-3-en-de`."""
        return f"{self.model.rpartition('/')[2]}-{self.source}-{self.target}"

    @property
    def folder(self) -> Path:
        return Path()  # a remote model has no folder

    @property
    def revision(self) -> str:
        return sha256(f"{self.model}@{self.url}".encode()).hexdigest()[:12]

    @property
    def sources(self) -> list[str]:
        return [self.source]

    @property
    def targets(self) -> list[str]:
        return [self.target]


def find_remote(reference: str) -> list[RemoteFiles]:
    """Returns the language pairs of a reference; [] if the reference names no remote model."""
    if (match := REMOTE.fullmatch(reference)) is None:
        return []
    try:
        _ = urlsplit(match["url"]).port
    except ValueError:  # a port that is no number, or an unclosed bracket
        return []
    model = match["model"]
    prompt = match["prompt"] or prompt_of(model)
    if prompt not in PROMPTS:
        return []
    pairs = [pair.split("-") for pair in match["pairs"].split("+")]
    return [
        RemoteFiles(
            model,
            match["url"],
            normalize_code(source),
            normalize_code(target),
            prompt,
            match["first"] is not None,
        )
        for source, target in pairs
    ]


@dataclass(slots=True, eq=False)
class RemoteItem(TranslationItem):
    """A sentence for a remote model; it never reaches a worker.

    Attributes:
        fallback: Model of this server that translates the sentence if the remote model fails.
        hints: Terms of the glossary in the sentence, and the texts around it.
    """

    fallback: Direction | None = None
    hints: Hints = NO_HINTS


class CharacterTokenizer(Tokenizer):
    """Turns each character into its code point, for remote models, which read text."""

    def __init__(self) -> None:
        self.vocab_size = END + 1
        self.eos_id = END
        self.unk_id = -1
        self.hidden_ids = frozenset((END,))
        self.prefix = []
        self.source_end = [END]

    def encode(self, text: str) -> list[int]:
        return [] if text.isspace() else list(map(ord, text))

    def unknown_spans(self, text: str) -> list[Span]:
        return []

    def encode_with_offsets(self, text: str) -> Encoding:
        ids = self.encode(text)
        pieces = [WORD_START if each.isspace() else each for each in text[: len(ids)]]
        return Encoding(ids, pieces, [(place, place + 1) for place in range(len(ids))])

    def decode(self, ids: list[int]) -> str:
        return "".join([chr(each) for each in ids if each != END])

    def pieces(self, ids: list[int]) -> list[str]:
        return ["" if each == END else chr(each) for each in ids]


@dataclass(frozen=True, slots=True)
class ServedRemote(AnyServed):
    """A language pair of a remote model.

    The tokens of its tokenizers are characters, because the endpoint receives text.
    """

    task: ClassVar[str] = TRANSLATE

    files: RemoteFiles
    vocabularies: Vocabularies

    @classmethod
    def load(cls, files: RemoteFiles) -> "ServedRemote":
        tokenizer = CharacterTokenizer()
        return cls(files, Vocabularies(tokenizer, tokenizer))

    def direction(self, source: str, target: str, fallback: Direction | None = None) -> Direction:
        chars = MAX_PARAGRAPH_CHARS if self.files.prompt.has_paragraphs else 0
        pair = source, target, self.vocabularies
        return Direction(self.name, *pair, MAX_TOKENS, False, chars, fallback)
