"""Texts and their sentences, from the preparation to the reply."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from model.sequence import DecodingOptions, Hypothesis
from model.tokenization.tokenizer import Span, Tokenizer
from service.items import Result, TranslationItem
from service.models.prompts import NO_HINTS, Hints
from service.models.served import Direction
from service.tasks.alignment.aligner import TranslatedPair
from service.tasks.alignment.alignment import Alignment
from service.tasks.translation.guards import GuardWarning, Reading
from service.tasks.translation.pivoting import PivotPipeline
from service.text.attributes import values_in
from service.text.carriage import Carrier, carry
from service.text.detection import Detection
from service.text.formatting import formatted
from service.text.letters import words_start
from service.text.markup import MarkupText
from service.text.protection import MARKER, NO_SPANS, ProtectedText
from service.text.tags import Tag

# Largest number of inline tags of a sentence that is translated as a whole. A sentence of 127
# tokens in which each word has four tags has fewer. The placement of tags takes some 0.1 ms for
# each element, and is recursive.
MAX_TAGS = 512


@dataclass(frozen=True, slots=True)
class TokenScore:
    """The log-probability of one target token."""

    token: Annotated[str, Field(description="The token, in the spelling of the vocabulary.")]
    log_prob: Annotated[float, Field(description="Natural logarithm of the token's probability.")]


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """The score of one sentence, and the log-probability of each of its tokens."""

    score: Annotated[float, Field(description="Mean log-probability of its tokens.")]
    tokens: list[TokenScore]


@dataclass(slots=True, eq=False)
class TranslatedText:
    """A text with its sentences, and its translation once all sentences are translated."""

    route: tuple[Direction, ...]  # models in their order; empty if the text stays as it is
    detected: Detection | None  # source language; None if the request names it
    separators: tuple[str, ...]  # text before, between and after the sentences, with markers
    sentences: list["Sentence"] = field(default_factory=list)
    languages: tuple[str, str] = ("", "")  # codes of source and target
    protected: ProtectedText = NO_SPANS  # spans that a model must not change
    max_tokens: int = 0  # of a sentence, without EOS
    num_cut: int = 0  # sentences that were cut into pieces, because they had too many tokens
    # Maps the marker of a glossary term to the marker of the term with a capital first letter. The
    # second marker is used at the start of a translated sentence.
    capitals: dict[str, str] = field(default_factory=dict)
    # Span in the given text of each character of the translated text. It is empty if the two are
    # equal, or if no alignment is requested.
    origins: Sequence[Span] = ()
    number: int = 0  # index of the text in its request
    index: int = 0  # of its first sentence: 0, unless the text is a part of another text
    text: str = ""  # best translation, with the separators
    alternatives: list[str] = field(default_factory=list)  # best first, all different
    scores: list[SentenceScore] = field(default_factory=list)  # of each sentence, if requested
    # Alignment of the words of each sentence, in code points of the text and of its translation;
    # None unless the request asks for alignments.
    alignments: list[Alignment] | None = None
    warnings: list[GuardWarning] = field(default_factory=list)
    # Values of attributes in the text's tags, as texts of their own, by value. Their sentences are
    # numbered after those of the text.
    attributes: dict[str, "TranslatedText"] = field(default_factory=dict)
    # Models of this server that translated sentences in place of a remote model.
    substitutes: dict[str, None] = field(default_factory=dict)

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Source tokenizer of the first model, and target tokenizer of the last model."""
        return self.route[0].vocabularies.source, self.route[-1].vocabularies.target

    @property
    def models(self) -> list[str]:
        return [*(direction.name for direction in self.route), *self.substitutes]

    def parts(self) -> list["TranslatedText"]:
        """Makes each sentence a text of its own, and returns these texts.

        The joined translations of the parts are the translation of the whole text. The separator
        after a sentence belongs to its part, and so does the one before the first sentence. A text
        without sentences is one part.
        """
        if len(self.sentences) < 2:
            return [self]
        parts = []
        for index, sentence in enumerate(self.sentences):
            separators = ("" if index else self.separators[0], self.separators[index + 1])
            part = self._part([sentence], separators, index)
            part.attributes = self._attributes_in(part)
            parts.append(part)
        return parts

    def _part(
        self, sentences: list["Sentence"], separators: tuple[str, ...], index: int
    ) -> "TranslatedText":
        part = replace(
            self,
            separators=separators,
            sentences=sentences,
            index=index,
            capitals={},
            alternatives=[],
            scores=[],
            warnings=[],
            substitutes={},
        )
        for sentence in sentences:
            sentence.text = part
        return part

    def _attributes_in(self, part: "TranslatedText") -> dict[str, "TranslatedText"]:
        """Returns the attributes of the tags in a part of the text, as texts of this part alone.

        Several parts may have the same attribute, and parts are translated at the same time.
        """
        if not self.attributes:
            return {}
        texts = [*part.separators]
        for sentence in part.sentences:
            texts += (sentence.source, *(tag.marker for tag in sentence.tags))
        markers = MARKER.findall("".join(texts))
        found = {}
        for value in values_in(map(self.protected.span, markers)):
            attribute = self.attributes[value]
            sentences = [replace(each, decoded={}) for each in attribute.sentences]
            found[value] = attribute._part(sentences, attribute.separators, attribute.index)
        return found

    def source_length(self) -> int:
        """Returns the number of code points of the text, with its separators."""
        parts = (*self.separators, *(sentence.source for sentence in self.sentences))
        return sum(len(self.protected.restore(part)) for part in parts)

    def assemble(self) -> None:
        """Sets the translations and the scores from the results of all sentences."""
        if not self.route:
            self.text = self.separators[0]
            return
        for value, attribute in self.attributes.items():
            attribute.assemble()
            self.warnings += attribute.warnings
            self.substitutes |= attribute.substitutes
            assert isinstance(self.protected, MarkupText)
            self.protected.values[value] = attribute.text
        depth = 1
        for sentence in self.sentences:
            depth = max(depth, len(sentence.result.value))
            if sentence.result.substitute:
                self.substitutes[sentence.result.substitute] = None
        versions: dict[str, None] = {}
        for rank in range(depth):
            if (version := self._version(rank)) is not None:
                versions[version] = None
        self.text, *self.alternatives = versions
        for sentence in self.sentences:
            best = sentence.result.value[0]
            if best.score is not None:
                self.scores.append(sentence_score(best, self.tokenizers[1]))
            # Without this cycle, Python frees the text, and the models of its route, at once.
            del sentence.text
        for attribute in self.attributes.values():
            self.scores += attribute.scores

    def _version(self, rank: int) -> str | None:
        """Returns the translation of the text from the translations with a rank.

        The result is None if a protected span is missing, occurs twice, or is in a wrong place.
        This can happen only in alternatives, the translations after the best one. In the best one,
        `fidelity.complete` has made sure that every span is present.
        """
        separators = self.separators
        if typography := self.protected.typography:
            separators = tuple(map(typography.applied, separators))
        parts = [separators[0]]
        for sentence, separator in zip(self.sentences, separators[1:], strict=True):
            if (translation := sentence.translation(rank)) is None:
                return None
            parts += (translation, separator)
        return self.protected.restore("".join(parts))


@dataclass(slots=True, eq=False)
class Sentence:
    """A sentence of a text, from its tokens to its translation."""

    text: TranslatedText
    index: int  # in the whole text
    # The sentence with markers for its protected spans, without its inline tags. `terminology` may
    # have replaced terms in it.
    source: str
    ids: list[int]  # tokens that the model reads first, EOS included
    given: str  # the sentence with its own capitals
    tags: Sequence[Tag] = ()  # inline tags, with their places in `source`
    terms: Collection[str] = ()  # first words of the glossary's terms that keep their capitals
    hints: Hints = NO_HINTS  # for a remote model
    # Whether the model must read a carrier in place of `source`. If there is none, the sentence
    # already contains a stand-in, or is too long with stand-ins.
    has_spans: bool = False
    carrier: Carrier | None = None  # that the model has read last
    carrier_ids: list[int] = field(default_factory=list)  # EOS included
    prefix: tuple[int, ...] = ()  # target ids that the translation begins with
    given_prefix: str = ""  # the same as a text
    in_parts: str | None = None  # translation with markers, if it was translated in parts
    result: Result = field(init=False)  # of the last translation
    # Decoded translations by rank. Those of a sentence with tags have their tags.
    decoded: dict[int, str] = field(default_factory=dict)

    @property
    def read_source(self) -> str:
        return self.carrier.text if self.carrier else self.source

    def load(self, variant: int) -> bool:
        """Gives the sentence a carrier with the stand-ins of `VARIANTS[variant]`, if it can."""
        tokenizer, limit = self.text.tokenizers[0], self.text.max_tokens
        self.has_spans = True
        self.carrier = carry(self.source, variant, limit) if len(self.tags) <= MAX_TAGS else None
        if self.carrier is not None:
            ids = tokenizer.encode(self.carrier.text)
            self.carrier_ids = [*ids, *tokenizer.source_end]
            if len(ids) > limit:
                self.carrier = None
        return self.carrier is not None

    def item(
        self, pipeline: PivotPipeline, options: DecodingOptions | None = None
    ) -> TranslationItem:
        if options is None:
            options = pipeline.with_attention if self.tags else pipeline.options
        if self.prefix:
            options = replace(options, prefix=self.prefix)
        ids = self.carrier_ids if self.carrier else self.ids
        return pipeline.item(ids, self.text.route, options, self.hints)

    def pair(self, hypothesis: Hypothesis) -> TranslatedPair:
        """Returns the sentence as the model has read it, with a translation by a single model."""
        (direction,), (source, target) = self.text.route, self.text.tokenizers
        tokens, translation = (
            source.tokenize(self.read_source),
            target.detokenize(hypothesis.tokens),
        )
        return TranslatedPair(direction.name, tokens, translation, hypothesis.attention)

    def reading(self, hypothesis: Hypothesis) -> Reading:
        tokenizer = self.text.route[-1].vocabularies.target
        decoded = tokenizer.decode(hypothesis.tokens)
        return Reading(self.ids, self.read_source, hypothesis, decoded, tokenizer.eos_id)

    def decode(self, rank: int) -> str:
        """Returns the translation with a rank, or the last one if there are fewer."""
        rank = min(rank, len(self.result.value) - 1)
        if rank in self.decoded:
            return self.decoded[rank]
        return self.text.tokenizers[1].decode(self.result.value[rank].tokens)

    def translation(self, rank: int) -> str | None:
        """Returns the final translation with a rank, with markers; None as in `restored`."""
        restored = self.restored(self.decode(rank))
        if not restored:
            return restored
        translation = formatted(self.given, restored, self.text.languages, self.terms)
        if typography := self.text.protected.typography:
            translation = typography.applied(translation)
        # The case or the final mark of the source may contradict the prefix.
        return translation if translation.startswith(self.given_prefix) else restored.strip()

    def restored(self, decoded: str) -> str | None:
        """Returns a translation with markers in place of stand-ins.

        The result is None if a stand-in is missing or occurs twice, or if the markers of inline
        tags are in a wrong order. Without a carrier, it is None until the parts are translated.
        """
        restored = self.in_parts
        if restored is None:
            if not self.has_spans:
                return decoded
            restored = None if self.carrier is None else self.carrier.restore(decoded)
            if restored is None or not self.text.protected.keeps_order(restored):
                return None
        return self._with_capital(restored) if self.text.capitals else restored

    def _with_capital(self, translation: str) -> str:
        """Replaces a marker at the start by the one that `TranslatedText.capitals` maps it to."""
        for found in MARKER.finditer(translation, 0, words_start(translation)):
            if capital := self.text.capitals.get(found[0]):
                return translation[: found.start()] + capital + translation[found.end() :]
            if not self.text.protected.may_move(found[0]):
                break  # only tags and symbols may stand before the term
        return translation

    def record(self, guard: str, is_kept: bool, pipeline: PivotPipeline) -> None:
        """Counts a translation that a guard rejected, and adds a warning if it was kept."""
        outcome = "kept" if is_kept else "replaced"
        key = self.text.route[-1].name, guard, outcome
        pipeline.rejected[key] = pipeline.rejected.get(key, 0) + 1
        if is_kept:
            self.text.warnings.append(GuardWarning(self.index, guard))


def num_chars(sentences: Sequence[Sentence]) -> int:
    total = 0
    for sentence in sentences:
        total += len(sentence.source)
    return total


def total_chars(texts: Sequence[TranslatedText]) -> int:
    """Returns the number of characters of all sentences and separators."""
    total = 0
    for text in texts:
        total += sum(map(len, text.separators))
        for sentence in text.sentences:
            total += len(sentence.source)
    return total


def sentence_score(hypothesis: Hypothesis, tokenizer: Tokenizer) -> SentenceScore:
    """Returns the scores of a sentence and its tokens; the hypothesis must have a score."""
    assert hypothesis.score is not None
    pieces = tokenizer.pieces(hypothesis.tokens)
    tokens = [TokenScore(p, lp) for p, lp in zip(pieces, hypothesis.log_probs, strict=True)]
    return SentenceScore(hypothesis.score, tokens)
