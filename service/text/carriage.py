"""Keeps the protected spans of one text while a model translates its sentences.

The module `service.text.protection` has replaced each span by a marker, a private-use character.
Here each marker is replaced by a stand-in, a word that models copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from model.tokenization.tokenizer import Tokenizer
from service.text.chunking import ChunkedText
from service.text.letters import words_start
from service.text.protection import MARKER, ProtectedText
from service.text.segmentation import Segments
from service.text.stand_ins import Carrier, carry
from service.text.tags import Tag

MAX_TAGS = 512
"""Largest number of inline tags of a sentence that is translated as a whole.

A sentence of 127 tokens in which each word has four tags has fewer. The placement of tags takes
some 0.1 ms for each element, and is recursive.
"""

NO_SPANS = ProtectedText("", ())


@dataclass(slots=True)
class Carriage:
    """The protected spans of one text while a model translates it.

    Attributes:
        protected: The text with markers, and its spans.
        carriers: Maps the index of each sentence with markers to its carrier: the sentence with
            stand-ins in place of the markers. The carrier is None if the sentence already contains
            a stand-in, or if the sentence with stand-ins is too long.
        parts: Translations of the sentences that were translated in parts, by the index of the
            sentence. Each translation has the markers of its sentence.
        capitals: Some glossary terms have two markers: one for the term, and one for the term with
            a capital first letter. Maps the first marker to the second, which is used at the start
            of a translated sentence.
    """

    protected: ProtectedText = NO_SPANS
    carriers: dict[int, Carrier | None] = field(default_factory=dict)
    parts: dict[int, str] = field(default_factory=dict)
    capitals: dict[str, str] = field(default_factory=dict)

    def restore(self, index: int, decoded: str) -> str | None:
        """Returns the translation of a sentence with its markers, or None.

        The result is None if a stand-in is missing or occurs twice, or if the markers of inline
        tags are in a wrong order. If the carrier is None, the result is None until the sentence's
        parts have been translated.
        """
        if index in self.parts:
            return self._with_capital(self.parts[index])
        if index not in self.carriers:
            return decoded
        carrier = self.carriers[index]
        restored = None if carrier is None else carrier.restore(decoded)
        if restored is None or not self.protected.keeps_order(restored):
            return None
        return self._with_capital(restored)

    def _with_capital(self, sentence: str) -> str:
        """Replaces a marker at the start of a sentence by the marker that `capitals` maps it to."""
        for found in MARKER.finditer(sentence, 0, words_start(sentence)) if self.capitals else ():
            marker = found[0]
            if marker in self.capitals:
                capital = self.capitals[marker]
                return sentence[: found.start()] + capital + sentence[found.end() :]
            if not self.protected.may_move(marker):  # tags and symbols may stand before the term
                break
        return sentence


def trim(segments: Segments, protected: ProtectedText) -> Segments:
    """Moves markers at the start and at the end of a sentence into the separator beside them.

    Only the markers of symbols may move, and in markup also those of inline tags. The model does
    not read separators. A sentence of only such markers becomes empty.
    """
    if not protected.spans:
        return segments
    separators = [segments.separators[0]]
    sentences = []
    for sentence, separator in zip(segments.sentences, segments.separators[1:], strict=True):
        first, last = _ends(sentence, protected)
        separators[-1] += sentence[:first]
        sentences.append(sentence[first:last])
        separators.append(sentence[last:] + separator)
    return Segments(tuple(separators), tuple(sentences))


def _ends(sentence: str, protected: ProtectedText) -> tuple[int, int]:
    def is_left_out(char: str) -> bool:
        return char.isspace() or (MARKER.match(char) is not None and protected.may_move(char))

    first, last = 0, len(sentence)
    while first < last and is_left_out(sentence[first]):
        first += 1
    while first < last and is_left_out(sentence[last - 1]):
        last -= 1
    return first, last


def load(
    chunked: ChunkedText,
    protected: ProtectedText,
    tags: Mapping[int, Sequence[Tag]],
    tokenizer: Tokenizer,
    limit: int,
) -> Carriage:
    """Returns the carriage of a text, with a carrier for each sentence that has markers.

    A sentence with more than MAX_TAGS tags has the carrier None even if it has no markers.

    Args:
        chunked: Sentences. The token ids of a carrier replace the token ids of its sentence.
        protected: The text and its spans.
        tags: Maps the index of each sentence that has inline tags to these tags.
        tokenizer: Tokenizer of the source.
        limit: Largest number of tokens of a sentence, without EOS.
    """
    carriage = Carriage(protected)
    if protected.spans:
        for index, sentence in enumerate(chunked.segments.sentences):
            num_tags = len(tags.get(index, ()))
            if num_tags > MAX_TAGS or MARKER.search(sentence):
                carrier, ids = carried(sentence, num_tags, 0, tokenizer, limit)
                if carrier:
                    chunked.sources[index] = ids
                carriage.carriers[index] = carrier
    return carriage


def carried(
    sentence: str, num_tags: int, variant: int, tokenizer: Tokenizer, limit: int
) -> tuple[Carrier | None, list[int]]:
    """Returns the carrier of a sentence and its token ids; None if it must be cut into parts.

    Args:
        sentence: A sentence with markers for its spans, without its inline tags.
        num_tags: Number of its inline tags.
        variant: Index in `service.text.stand_ins.VARIANTS`.
        tokenizer: Tokenizer of the source.
        limit: Largest number of tokens of a sentence, without EOS.
    """
    carrier = carry(sentence, variant, limit) if num_tags <= MAX_TAGS else None
    ids = tokenizer.encode(carrier.text) if carrier else []
    return (carrier, ids) if len(ids) <= limit else (None, [])
