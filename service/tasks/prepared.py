"""A text that is ready to be translated: its route, its sentences and their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from model.sequence import DecodingOptions
from model.tokenization.tokenizer import Tokenizer
from service.models.served import Direction
from service.tasks.pivoting import Sentence
from service.text.carriage import Carriage
from service.text.detection import Detection
from service.text.formatting import Formatting
from service.text.segmentation import Segments


@dataclass(slots=True)
class Prepared:
    """A tokenised text and its route.

    Attributes:
        route: Models that translate the text, in order; empty if it stays as it is.
        segments: Sentences of the text, and the separators between them.
        sources: Source token ids of each sentence, EOS included.
        detected: Detected source language; None if the request names it.
        num_cut: Number of sentences that were longer than the model takes.
        carriage: The protected spans of the text.
        max_tokens: Largest number of tokens of a sentence, without EOS.
        formatting: The formatting of the sentences.
    """

    route: tuple[Direction, ...]
    segments: Segments
    sources: list[list[int]]
    detected: Detection | None
    num_cut: int = 0
    carriage: Carriage = field(default_factory=Carriage)
    max_tokens: int = 0
    formatting: Formatting = Formatting()

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Tokenizers of the first model's source and the last model's target; needs a route."""
        return self.route[0].vocabularies.source, self.route[-1].vocabularies.target

    def sentences(self, options: DecodingOptions) -> list[Sentence]:
        """Returns the sentences to translate."""
        return [Sentence(ids, self.route, options) for ids in self.sources]

    def joined(self, decoded: Sequence[str]) -> str | None:
        """Returns the translated text from the decoded sentences.

        None if a protected span did not come through; this happens in alternatives only.
        """
        restored = [self.carriage.restore(index, text) for index, text in enumerate(decoded)]
        complete = [text for text in restored if text is not None]
        if len(complete) < len(restored):
            return None
        formatted = [self.formatting.apply(index, text) for index, text in enumerate(complete)]
        return self.carriage.protected.restore(self.segments.join(formatted))
