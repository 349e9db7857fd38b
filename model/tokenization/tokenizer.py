"""Converts text to token ids and back with SentencePiece, and finds the span of each token."""

import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, Self

import sentencepiece

from model.errors import CheckpointFormatError
from model.regular_files import check_file
from model.tokenization.tokenizer_json import sentencepiece_model

WORD_START = "\u2581"

_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"[^\W\d_]+")
_SURROGATE = re.compile("[\ud800-\udfff]")

UNKNOWN = "\U0010fffd"
"""A private-use character, which no vocabulary has."""

Span = tuple[int, int]
"""Half-open range of code points: [start, end)."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of a text, without EOS; `offsets` include the space before a word."""

    ids: list[int]
    pieces: list[str]
    offsets: list[Span]


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text with its tokens, EOS included, for display."""

    text: str  # the text that was tokenised, or the text that the ids decode to
    ids: list[int]
    pieces: list[str]  # spelling of each id in the vocabulary
    # Span of each token in the text, without white space around the token. Starts never decrease,
    # and ends never decrease. Tokens that share a character (the pieces of a fraction sign, the
    # bytes of an emoji) have the same span. A token of white space, or without text, has an empty
    # span. The empty span of EOS is at the end of the text.
    offsets: list[Span]
    special: list[bool]  # whether each token is a special token, such as EOS, and not text


class Tokenizer:
    """Tokenises with one SentencePiece vocabulary, whose file also holds the normaliser.

    The file may also be a `tokenizer.json` that was converted from one of SentencePiece. Texts must
    not have lone surrogates.
    """

    def __init__(self, path: Path) -> None:
        try:
            check_file(path)
            if path.suffix == ".json":
                made = sentencepiece_model(path)
                self.processor = sentencepiece.SentencePieceProcessor(model_proto=made)
            else:
                self.processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
            self.vocab_size: int = self.processor.vocab_size()
            # This call raises an error if a piece is not valid UTF-8.
            self.processor.id_to_piece([*range(self.vocab_size)])
        except (RuntimeError, OSError, UnicodeDecodeError) as error:
            raise CheckpointFormatError(f"{path.name} is not a SentencePiece model") from error
        self.eos_id: int = self.processor.eos_id()
        self.unk_id: int = self.processor.unk_id()
        if self.eos_id < 0:
            raise CheckpointFormatError(f"{path.name} has no end-of-sentence token")
        is_control = self.processor.is_control([*range(self.vocab_size)])
        self.special_ids = frozenset(compress(range(self.vocab_size), is_control))
        # Decoded text leaves these ids out.
        self.hidden_ids: frozenset[int] = frozenset((self.eos_id, self.unk_id))
        self.prefix: list[int] = []  # ids in front of every text, such as a language token
        self.source_end = [self.eos_id]  # ids behind every source; none in models of OpenNMT-py
        # Characters that `unknown_spans` has met. A character is unknown if the vocabulary does not
        # have it, or not in all places of a word.
        self.known_characters: set[str] = set()
        self.known_bytes = bytearray()  # those in ASCII
        self.unknown_characters: set[str] = set()

    def id_of(self, piece: str) -> int:
        number: int = self.processor.piece_to_id(piece)
        return number

    def before(self, token: str) -> Self:
        other = copy(self)
        other.prefix = [self.id_of(token)] if token else []
        return other

    def encode(self, text: str) -> list[int]:
        """Returns the prefix and the ids of a text, without EOS; none for white space alone."""
        ids = self._ids(text)
        return [*self.prefix, *ids] if ids and self.prefix else ids

    def unknown_spans(self, text: str) -> list[Span]:
        """Returns the spans of the characters that the model would read as unknown tokens.

        A character without a piece of its own is not unknown in a word that is one piece. A capital
        letter is not unknown in a word that `lowered` changes.
        """
        if text.isascii():  # this takes a fifth of the time of a set
            is_known = not text.encode().translate(None, self.known_bytes)
        else:
            is_known = self.known_characters.issuperset(text)  # this is faster than making a set
        if is_known:
            return []
        characters = set(text) - self.known_characters
        for character in characters - self.unknown_characters:
            is_unknown = self._is_unknown(character)
            (self.unknown_characters if is_unknown else self.known_characters).add(character)
            if character.isascii() and not is_unknown:
                self.known_bytes += character.encode()
        unknown = characters & self.unknown_characters
        if unknown and any(map(str.isupper, unknown)):
            text = self.lowered(text)
        words = _WORD.finditer(text) if unknown else ()
        return [
            (word.start() + first, word.start() + last)
            for word in words
            if not unknown.isdisjoint(word[0])
            for first, last in self._unknown_in_word(word[0])
        ]

    def lowered(self, text: str) -> str:
        """Returns a text with unknown capital letters in lower case, if the vocabulary knows these.

        Many vocabularies have `▁índice`, but not `Í`. A word is changed if it is one piece in lower
        case, because it may be a name otherwise. A word in capitals is changed in any case. The
        length of the text stays.
        """
        return _LETTERS.sub(self._lowered_word, text)

    def _lowered_word(self, found: re.Match[str]) -> str:
        word, lower = found[0], found[0].lower()
        if word == lower or len(lower) != len(word) or self.unk_id not in self._ids(word):
            return word
        ids = self._ids(lower)
        if len(ids) == 1 and ids[0] != self.unk_id:
            return lower
        if len(word) == 1 or not word.isupper() or self.unk_id in ids:
            return word
        title = word[0] + lower[1:]
        return lower if self.unk_id in self._ids(title) else title

    def _is_unknown(self, character: str) -> bool:
        if character.isspace():
            return False
        # A vocabulary may have a character at the start of a word alone.
        inside = f"{character} {character}{character}"
        return bool(_SURROGATE.match(character)) or self.unk_id in self.encode(inside)

    def _unknown_in_word(self, word: str) -> list[Span]:
        encoding = self.encode_with_offsets(_SURROGATE.sub(UNKNOWN, word))
        tokens = zip(encoding.ids, share(encoding.pieces, encoding.offsets), strict=True)
        spans = dict.fromkeys(span for token, span in tokens if token == self.unk_id)
        return [(first, last) for first, last in spans if first < last]

    def encode_with_offsets(self, text: str) -> Encoding:
        found = self._segment(text)
        if not (found.ids and self.prefix):
            return found
        return Encoding(
            [*self.prefix, *found.ids],
            [*self.pieces(self.prefix), *found.pieces],
            [*[(0, 0)] * len(self.prefix), *found.offsets],
        )

    def decode(self, ids: list[int]) -> str:
        first = self.first_texts[ids[0]] if ids else ""
        # SentencePiece removes the space in front of the first word. It takes four times as long.
        if first:
            return first + "".join(map(self.next_texts.__getitem__, ids[1:]))
        text: str = self.processor.decode([i for i in ids if i not in self.hidden_ids])
        return text

    @cached_property
    def first_texts(self) -> list[str]:
        """The text of each token alone; only "" if the vocabulary has bytes.

        SentencePiece joins the bytes of a character. All other tokens have texts of their own.
        """
        tokens = [*range(self.vocab_size)]
        return [""] * len(tokens) if any(self.processor.is_byte(tokens)) else self._texts_after([])

    @cached_property
    def next_texts(self) -> list[str]:
        first = next(i for i, text in enumerate(self.first_texts) if text)
        length = len(self.first_texts[first])
        return [text[length:] for text in self._texts_after([first])]

    def _texts_after(self, before: list[int]) -> list[str]:
        tokens, hidden = range(self.vocab_size), self.hidden_ids
        lists = [before if token in hidden else [*before, token] for token in tokens]
        texts: list[str] = self.processor.decode(lists, num_threads=1)
        return texts

    def tokenize(self, text: str) -> TokenizedText:
        encoding = self._segment(text)
        spans = [trim(text, span, self._is_blank) for span in encoding.offsets]
        shared = share(encoding.pieces, spans)
        ids = [*self.prefix, *encoding.ids, *self.source_end]
        around = [[None] * len(each) for each in (self.prefix, self.source_end)]
        found = self._beside(text, ids, [*around[0], *shared, *around[1]])
        special = [True] * len(self.prefix) + found.special[len(self.prefix) :]
        return replace(found, special=special)

    def detokenize(self, ids: list[int]) -> TokenizedText:
        """Returns ids that the model wrote, with the text that `decode` returns for them."""
        is_shown = [i not in self.hidden_ids for i in ids]
        mapping = self._join(list(compress(ids, is_shown)))
        text: str = mapping["text"]
        spans = [trim(text, span, str.isspace) for span in mapping["offsets"]]
        shared = iter(share(mapping["pieces"], spans))
        return self._beside(text, ids, [next(shared) if known else None for known in is_shown])

    def pieces(self, ids: list[int]) -> list[str]:
        return [self.processor.id_to_piece(i) for i in ids]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.processor.encode(text)
        return ids

    def _segment(self, text: str) -> Encoding:
        mapping = self.processor.encode_as_offset_mapping(text)
        return Encoding(mapping["ids"], mapping["pieces"], mapping["offsets"])

    def _join(self, ids: list[int]) -> dict[str, Any]:
        mapping: dict[str, Any] = self.processor.decode(ids, return_type="offset_mapping")
        return mapping

    def _is_blank(self, char: str) -> bool:
        if char.isalnum():
            return False
        normal: str = self.processor.normalize(char)
        return char.isspace() or not normal.strip(f" {WORD_START}")

    def _beside(self, text: str, ids: list[int], spans: list[Span | None]) -> TokenizedText:
        """Returns a text with its tokens; those without a span get an empty one before the next."""
        places = []
        start = len(text)
        for span in reversed(spans):
            start, end = span or (start, start)
            places.append((start, end))
        places.reverse()
        ends = accumulate((end for _, end in places), max)
        offsets = [(start, end) for (start, _), end in zip(places, ends, strict=True)]
        special = [i in self.special_ids for i in ids]
        return TokenizedText(text, ids, self.pieces(ids), offsets, special)


def trim(text: str, span: Span, is_blank: Callable[[str], bool]) -> Span:
    start, end = span
    while start < end and is_blank(text[start]):
        start += 1
    while start < end and is_blank(text[end - 1]):
        end -= 1
    return start, end


def share(pieces: list[str], spans: list[Span]) -> list[Span]:
    """Gives all tokens that share one character the span of this character.

    SentencePiece gives it only to the last of them, and an empty span before it to the others.
    """
    shared = list(spans)
    following = (-1, -1)
    for i in reversed(range(len(spans))):
        if pieces[i].strip(WORD_START):
            start, end = spans[i]
            if start == end == following[0]:
                shared[i] = following
            following = shared[i]
    return shared


class MappedTokenizer(Tokenizer):
    """Splits text into pieces with a SentencePiece file; a vocabulary gives the ids of the pieces.

    `ids` are 0, 1, 2 and so on, each used once. `special` are the ids that stand for no text, EOS
    included. `unk_id` is the id of every piece that is not in `ids`.
    """

    def __init__(
        self, path: Path, ids: Mapping[str, int], special: Collection[int], eos_id: int, unk_id: int
    ) -> None:
        super().__init__(path)
        self.ids = ids
        self.names = sorted(ids, key=ids.__getitem__)
        self.vocab_size = len(ids)
        self.eos_id, self.unk_id = eos_id, unk_id
        self.source_end = [eos_id]
        self.special_ids = frozenset(special)
        self.hidden_ids = self.special_ids | {unk_id}

    def id_of(self, piece: str) -> int:
        return self.ids[piece]

    def before(self, token: str) -> Self:
        other = super().before("")
        other.prefix = [self.ids[token]] if token in self.ids else self._ids(token)
        return other

    def decode(self, ids: list[int]) -> str:
        shown = [i for i in ids if i not in self.hidden_ids]
        text: str = self.processor.decode(self._spelled(shown))
        return _spaced(text)

    def pieces(self, ids: list[int]) -> list[str]:
        return [self.names[i] for i in ids]

    def _ids(self, text: str) -> list[int]:
        return self._number(self.processor.encode(text, out_type=str))

    def _number(self, pieces: list[str]) -> list[int]:
        return [self.ids.get(piece, self.unk_id) for piece in pieces]

    def _spelled(self, ids: list[int]) -> list[str]:
        pieces = self.pieces(ids)
        # SentencePiece removes the space of a first piece that is in its file.
        if pieces and self.processor.piece_to_id(pieces[0]) == self.processor.unk_id():
            pieces[0] = pieces[0].removeprefix(WORD_START)
        return pieces

    def _segment(self, text: str) -> Encoding:
        found = super()._segment(text)
        return Encoding(self._number(found.pieces), found.pieces, found.offsets)

    def _join(self, ids: list[int]) -> dict[str, Any]:
        mapping: dict[str, Any] = self.processor.decode(
            self._spelled(ids), return_type="offset_mapping"
        )
        return {**mapping, "text": _spaced(mapping["text"])}


def _spaced(text: str) -> str:
    """Replaces each WORD_START, which SentencePiece leaves in pieces that are not in its file."""
    return text.replace(WORD_START, " ")
