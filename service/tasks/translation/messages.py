"""Messages in ICU MessageFormat: one text becomes several sentences, and is assembled again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from service.tasks.translation.sentences import TranslatedText
from service.text.branches import Composer, Split
from service.text.messages import Message

Prepare = Callable[[str], TranslatedText]
"""Prepares a sentence of a message for its translation."""


@dataclass(slots=True, eq=False)
class TranslatedMessage(TranslatedText):
    """A message and the texts that are translated for it. `sentences` are those of its texts."""

    message: Message = field(kw_only=True)
    prepare: Prepare = field(kw_only=True)
    split: Split = field(kw_only=True)
    # The translated texts and the waiting texts, by the sentences of the message.
    texts: dict[str, TranslatedText] = field(default_factory=dict)
    waiting: dict[str, TranslatedText] = field(default_factory=dict)

    def parts(self) -> list[TranslatedText]:
        return [self]

    def extend(self) -> list[TranslatedText]:
        """Prepares the texts that must be translated next; returns none if the message is done."""
        for text in self.waiting.values():
            text.assemble()
        self.texts |= self.waiting
        composer = self._composer()
        composer.write()
        self.waiting = {source: self.prepare(source) for source in composer.missing}
        for text in self.waiting.values():
            for each in (text, *text.attributes.values()):
                self.sentences += each.sentences
            self.num_cut += text.num_cut
        return [*self.waiting.values()]

    def assemble(self) -> None:
        """Sets the translations, the scores and the warnings from those of the texts."""
        composer = self._composer()
        written = composer.write()
        assert written is not None  # `extend` has prepared all texts, and they are translated
        self.text = written
        number = 0
        for text in [self.texts[source] for source in dict.fromkeys(composer.used)]:
            self.scores += text.scores
            self.warnings += [
                replace(each, sentence=number + each.sentence) for each in text.warnings
            ]
            number += len(text.sentences)
        versions = {written: None}
        depth = max((len(text.alternatives) for text in self.texts.values()), default=0)
        for rank in range(1, 1 + depth):
            if (version := self._composer(rank).write()) is not None:
                versions[version] = None
        self.alternatives = [*versions][1:]

    def _composer(self, rank: int = 0) -> Composer:
        def find(sentence: str) -> str | None:
            text = self.texts.get(sentence)
            versions = [text.text, *text.alternatives] if text else [None]
            return versions[min(rank, len(versions) - 1)]

        return Composer(self.message, self.languages[0], find, self.split)


def extend_all(messages: Sequence[TranslatedMessage]) -> list[TranslatedText]:
    return [text for message in messages for text in message.extend()]
