"""A text that is ready to be translated: its route, its sentences and their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from model.sequence import DecodingOptions, Hypothesis
from model.tokenization.tokenizer import Tokenizer
from service.items.translation import TranslationItem
from service.models.served import Direction
from service.tasks.alignment.aligner import Pair, TranslatedPair
from service.tasks.alignment.alignment import Alignment
from service.tasks.translation.guards import GuardWarning
from service.tasks.translation.pivoting import PivotPipeline
from service.text.carriage import Carriage
from service.text.detection import Detection
from service.text.formatting import Formatting
from service.text.segmentation import Segments
from service.text.tags import Tag, insert


@dataclass(slots=True)
class Prepared:
    """A tokenised text and its route.

    Attributes:
        route: Models that translate the text, in order; empty if the text stays as it is.
        segments: Sentences of the text, and the separators between them.
        sources: Source token ids of each sentence, EOS included.
        detected: Detected source language; None if the request names it.
        num_cut: Number of sentences that were cut into pieces, because they had too many tokens.
        carriage: Protected spans of the text. A model must not change them.
        max_tokens: Limit of the number of tokens of a sentence, without EOS.
        tags: Maps the index of each sentence that has inline tags to these tags.
        tagged: Translations with tags. Each key is a pair: the index of a sentence, and the rank of
            its translation. The best translation has rank 0.
        formatting: Gives the translations the case and the final punctuation of their sentences.
        alignments: Alignment of the words of each sentence, in code points of the text and of its
            translation; empty unless the request asks for alignments.
        decoded: Maps the index of a sentence to its best translation, if it has been decoded.
        warnings: Guards that reject the final translations of sentences. A guard is a check for
            wrong translations.
    """

    route: tuple[Direction, ...]
    segments: Segments
    sources: list[list[int]]
    detected: Detection | None
    num_cut: int = 0
    carriage: Carriage = field(default_factory=Carriage)
    max_tokens: int = 0
    tags: dict[int, list[Tag]] = field(default_factory=dict)
    tagged: dict[tuple[int, int], str] = field(default_factory=dict)
    formatting: Formatting = Formatting()
    alignments: list[Alignment] = field(default_factory=list)
    decoded: dict[int, str] = field(default_factory=dict)
    warnings: list[GuardWarning] = field(default_factory=list)

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Source tokenizer of the first model, and target tokenizer of the last model.

        The route must not be empty.
        """
        return self.route[0].vocabularies.source, self.route[-1].vocabularies.target

    def items(self, options: DecodingOptions, pipeline: PivotPipeline) -> list[TranslationItem]:
        """Returns the work items of the sentences."""
        with_attention = replace(options, return_attention=True) if self.tags else options
        items = []
        for index, ids in enumerate(self.sources):
            chosen = with_attention if index in self.tags else options
            items.append(pipeline.item(ids, self.route, chosen))
        return items

    def parts(self) -> list["Prepared"]:
        """Returns each sentence as a text of its own.

        The joined translations of these parts are the translation of the whole text. A text without
        sentences is one part.
        """
        if len(self.sources) < 2:
            return [self]
        return [self._part(index) for index in range(len(self.sources))]

    def _part(self, index: int) -> "Prepared":
        """Returns a sentence, and the separator after it, as a text of its own.

        The text of the first sentence also has the separator before the sentence.
        """
        separators, carriers = self.segments.separators, self.carriage.carriers
        before = "" if index else separators[0]
        segments = Segments((before, separators[index + 1]), (self.segments.sentences[index],))
        own = {0: carriers[index]} if index in carriers else {}
        return replace(
            self,
            segments=segments,
            sources=[self.sources[index]],
            carriage=Carriage(self.carriage.protected, own),
            tags={0: self.tags[index]} if index in self.tags else {},
            tagged={},
            alignments=[],
            decoded={},
            warnings=[],
            formatting=self.formatting.part(index),
        )

    def loaded_sentence(self, index: int) -> str:
        """Returns a sentence as the model read it most recently."""
        carrier = self.carriage.carriers.get(index)
        return carrier.text if carrier else self.segments.sentences[index]

    def pair(self, index: int, hypothesis: Hypothesis) -> TranslatedPair:
        """Returns a sentence as the model reads it, with one of its translations.

        The route must be a single model.
        """
        (direction,), (source, target) = self.route, self.tokenizers
        sentence = source.tokenize(self.loaded_sentence(index))
        pair = Pair(sentence, target.detokenize(hypothesis.tokens))
        return TranslatedPair(direction.name, pair, hypothesis.attention)

    def change(self, sentences: Mapping[int, str], spans: Sequence[str]) -> None:
        """Replaces sentences, given by their index, and adds protected spans."""
        old = self.segments.sentences
        changed = tuple(sentences.get(index, sentence) for index, sentence in enumerate(old))
        self.segments.sentences = changed
        self.carriage.protected = self.carriage.protected.extended(spans)

    def tagged_sentence(self, index: int) -> str:
        """Returns a source sentence with its tags."""
        tags = self.tags.get(index, [])
        return insert(self.segments.sentences[index], [(tag.place, tag.marker) for tag in tags])

    def decode(self, index: int, hypotheses: Sequence[Hypothesis], rank: int) -> str:
        """Returns the text of a sentence's translation with a given rank.

        If the sentence has fewer translations, the last one is returned.

        Args:
            index: Index of the sentence.
            hypotheses: Translations, best first.
            rank: Rank of the translation, 0 for the best.
        """
        rank = min(rank, len(hypotheses) - 1)
        if (index, rank) in self.tagged:
            return self.tagged[index, rank]
        if rank == 0 and index in self.decoded:
            return self.decoded[index]
        return self.tokenizers[1].decode(hypotheses[rank].tokens)

    def joined(self, decoded: Sequence[str]) -> str | None:
        """Returns the translated text from the decoded sentences.

        The result is None if a protected span is missing, occurs twice, or is in a wrong place.
        This can happen only in alternatives, the translations after the best one. In the best one,
        `fidelity.complete` has made sure that every span is present.
        """
        formatted = []
        for index, text in enumerate(decoded):
            restored = self.carriage.restore(index, text)
            if restored is None:
                return None
            formatted.append(self.formatting.apply(index, restored))
        return self.carriage.protected.restore(self.segments.join(formatted))


def total_chars(prepared: Sequence[Prepared]) -> int:
    """Returns the number of characters of the sentences of all texts, and of their separators."""
    total = 0
    for text in prepared:
        total += sum(map(len, text.segments.separators)) + sum(map(len, text.segments.sentences))
    return total


@dataclass(frozen=True, slots=True)
class TokenScore:
    """One target token and the natural logarithm of its probability."""

    token: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """The score of a sentence, and the scores of its tokens.

    `model.sequence.Hypothesis` defines the score of a sentence: its log-probability, normalised by
    its length.
    """

    score: float
    tokens: list[TokenScore]


def sentence_score(hypothesis: Hypothesis, tokenizer: Tokenizer) -> SentenceScore:
    """Returns the scores of a sentence and its tokens; the hypothesis must have a score."""
    assert hypothesis.score is not None
    pieces = tokenizer.pieces(hypothesis.tokens)
    tokens = [TokenScore(p, lp) for p, lp in zip(pieces, hypothesis.log_probs, strict=True)]
    return SentenceScore(hypothesis.score, tokens)
