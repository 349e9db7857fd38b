"""Gives the sentences of a translation the case and the final punctuation of their source."""

from dataclasses import dataclass, replace

from model.tokenization.tokenizer import Tokenizer
from service.text.chunking import ChunkedText
from service.text.formatting.casing import is_all_caps, lower_case, sentence_case, with_case
from service.text.formatting.punctuation import has_ending, with_ending, with_ordinals
from service.text.protection import FIRST_MARKER


@dataclass(slots=True, eq=False)
class Formatting:
    """Source sentences. Each translation gets the case and the final punctuation of its source.

    Attributes:
        sentences: Sentences with markers for protected spans; empty if translations stay as they
            are.
        languages: Codes of the source and the target.
    """

    sentences: tuple[str, ...] = ()
    languages: tuple[str, str] = ("", "")

    def part(self, index: int) -> "Formatting":
        """Returns the formatting of one sentence. In the new object, the sentence has index 0."""
        return replace(self, sentences=self.sentences[index : index + 1])

    def apply(self, index: int, translation: str) -> str:
        """Returns a translation with the case and the final punctuation of its source sentence.

        A marker is a character that stands for a tag or another protected span. Markers of tags
        at the ends of the translation stay there. A missing final punctuation mark is added after
        the markers at the end.
        """
        if not self.sentences:
            return translation
        source = self.sentences[index]
        translation = with_ordinals(source, translation.strip())
        first, last = 0, len(translation)
        while first < last and _is_tag(translation[first], source):
            first += 1
        while first < last and _is_tag(translation[last - 1], source):
            last -= 1
        head, body, tail = translation[:first], translation[first:last], translation[last:]
        ended = with_ending(source, body)
        is_added = ended.startswith(body) and not has_ending(body)
        added = ended[len(body) :] if is_added else ""
        cased = with_case(source, ended.removesuffix(added), self.languages)
        return head + cased + tail + added


def _is_tag(char: str, source: str) -> bool:
    """Returns whether a character is the marker of a tag.

    The source has the markers of all protected spans except tags. A marker that is missing in the
    source therefore belongs to a tag.
    """
    return ord(char) >= FIRST_MARKER and char not in source


def lower_capitals(chunked: ChunkedText, tokenizer: Tokenizer, limit: int, language: str) -> None:
    """Changes sentences in ALL CAPS to sentence case, because models know few words in capitals.

    A word such as `USB` stays in capitals, because it has fewer tokens in capitals than in lower
    case. A sentence is replaced only if its number of characters stays the same, so the places of
    its tags stay valid.

    Args:
        chunked: Sentences. Their texts and token ids are changed.
        tokenizer: Tokenizer of the source.
        limit: Largest number of tokens of a sentence. A sentence stays as it is if its new form
            would exceed this limit.
        language: Code of the source.
    """
    language = language.partition("-")[0]

    def is_known(word: str) -> bool:
        lowered = lower_case(word, language)
        return len(tokenizer.encode(word)) < len(tokenizer.encode(lowered))

    found = [index for index, each in enumerate(chunked.segments.sentences) if is_all_caps(each)]
    if not found:
        return
    sentences = list(chunked.segments.sentences)
    for index in found:
        lowered = sentence_case(sentences[index], language, is_known)
        ids = tokenizer.encode(lowered)
        if len(ids) <= limit and len(lowered) == len(sentences[index]):
            sentences[index], chunked.sources[index] = lowered, ids
    chunked.segments = replace(chunked.segments, sentences=tuple(sentences))
