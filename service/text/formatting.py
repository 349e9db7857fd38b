"""Gives the sentences of a translation the case and the final punctuation of their source."""

from dataclasses import dataclass, replace

from model.tokenization.tokenizer import Tokenizer
from service.text.casing import is_all_caps, sentence_case, with_case
from service.text.chunking import ChunkedText
from service.text.punctuation import with_ending


@dataclass(frozen=True, slots=True)
class Formatting:
    """The formatting of a text, for its translation.

    Attributes:
        sentences: Sentences as the client wrote them; empty if translations stay as they are.
        languages: Codes of the source and the target.
    """

    sentences: tuple[str, ...] = ()
    languages: tuple[str, str] = ("", "")

    def apply(self, index: int, translation: str) -> str:
        """Returns the translation of a sentence with the formatting of the sentence."""
        if not self.sentences:
            return translation
        source = self.sentences[index]
        return with_case(source, with_ending(source, translation.strip()), self.languages)


def lower_capitals(chunked: ChunkedText, tokenizer: Tokenizer, limit: int) -> None:
    """Puts sentences in ALL CAPS into sentence case, which the model knows.

    A word stays as it is if the vocabulary has it in capital letters only, such as `USB`.

    Args:
        chunked: Sentences; their texts and token ids are replaced in place.
        tokenizer: Tokenizer of the source.
        limit: Largest number of tokens of a sentence.
    """

    def is_known(word: str) -> bool:
        return len(tokenizer.encode(word)) < len(tokenizer.encode(word.lower()))

    sentences = list(chunked.segments.sentences)
    for index, sentence in enumerate(sentences):
        if is_all_caps(sentence):
            lowered = sentence_case(sentence, is_known)
            ids = tokenizer.encode(lowered)
            if len(ids) <= limit:
                sentences[index], chunked.sources[index] = lowered, ids
    chunked.segments = replace(chunked.segments, sentences=tuple(sentences))
