"""Keeps the protected spans of one text while a model translates its sentences."""

from dataclasses import dataclass, field

from model.tokenization.tokenizer import Tokenizer
from service.text.chunking import ChunkedText
from service.text.protection import MARKER, ProtectedText
from service.text.segmentation import Segments, has_words
from service.text.stand_ins import Carrier, carry

NO_SPANS = ProtectedText("", ())


@dataclass(slots=True)
class Carriage:
    """The protected spans of one text while a model translates it.

    Attributes:
        protected: The text with markers, and its spans.
        carriers: Form of each sentence with markers in which the model reads it, by the sentence's
            index: words that models copy stand in for the markers. None for a sentence that is
            translated in parts.
        parts: Translation of each sentence that was translated in parts, with its markers.
        capitals: Markers of spans that begin with a small letter, and for each a second marker,
            whose span begins with a capital letter. The second one replaces the first one at the
            start of a translated sentence.
    """

    protected: ProtectedText = NO_SPANS
    carriers: dict[int, Carrier | None] = field(default_factory=dict)
    parts: dict[int, str] = field(default_factory=dict)
    capitals: dict[str, str] = field(default_factory=dict)

    def restore(self, index: int, decoded: str) -> str | None:
        """Returns the translation of a sentence with its markers; or None.

        None means that a stand-in is missing or that markers are in a wrong order. It also means
        that the sentence cannot have stand-ins, as long as its parts are not translated.
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
        """Returns a sentence with a capital marker in place of a marker before the first word."""
        for found in MARKER.finditer(sentence) if self.capitals else ():
            before, marker = sentence[: found.start()], found[0]
            if has_words(before):
                break
            if marker in self.capitals:
                return before + self.capitals[marker] + sentence[found.end() :]
            if not self.protected.may_move(marker):  # tags and symbols may stand before the word
                break
        return sentence


def trim(segments: Segments, protected: ProtectedText) -> Segments:
    """Moves tags and symbols from the ends of the sentences to the separators.

    The model does not read them there. A sentence that consists only of them becomes empty.
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
    chunked: ChunkedText, protected: ProtectedText, tokenizer: Tokenizer, limit: int
) -> Carriage:
    """Puts stand-ins into the sentences that have markers, and replaces the sentences' token ids.

    Args:
        chunked: Sentences with markers. Their token ids are changed.
        protected: The text and its spans.
        tokenizer: Tokenizer of the source.
        limit: Largest number of tokens of a sentence.
    """
    carriage = Carriage(protected)
    if protected.spans:
        for index, sentence in enumerate(chunked.segments.sentences):
            if MARKER.search(sentence):
                carrier = carry(sentence, 0)
                ids = tokenizer.encode(carrier.text) if carrier else []
                if len(ids) > limit:
                    carrier = None
                elif carrier:
                    chunked.sources[index] = ids
                carriage.carriers[index] = carrier
    return carriage
