"""Gives remote models the context of each sentence: the texts and sentences around it.

A chat model translates `It is late.` differently after a text about a train. Subtitles and lists of
messages are short texts of this kind. Other models read single sentences, and get no context.
"""

from collections.abc import Callable, Sequence

from service.models.prompts import Hints
from service.tasks.threads import run_sized
from service.tasks.translation.sentences import TranslatedText
from service.text.letters import has_letters

MAX_CONTEXT_CHARS = 300
"""Largest length of each text in a context; the characters that are farther away are cut off."""

MAX_GIVEN_CHARS = 2000
"""Largest length of a context that the request names itself; the end is cut off."""


class Neighbors:
    """Finds the texts around a text.

    A text that occurs several times has the neighbours of its first place. Equal texts of a request
    therefore get equal prompts. `context` is another text, which comes before all texts.
    """

    def __init__(self, texts: Sequence[str], context: str = "") -> None:
        self.texts = texts
        self.context = context[:MAX_GIVEN_CHARS]
        self.places: dict[str, int] = {}
        for place, text in enumerate(texts):
            self.places.setdefault(text, place)

    def around(self, text: str, num_before: int) -> tuple[Sequence[str], Sequence[str]]:
        """Returns the texts before a text, and the one after it."""
        place = self.places[text]
        return self.texts[max(0, place - num_before) : place], self.texts[place + 1 : place + 2]


async def give_context(
    texts: Sequence[TranslatedText],
    given: Sequence[str],
    neighbors: Neighbors,
    words: Callable[[str, bool], str],
    num_before: int,
    deadline: float,
) -> None:
    """Gives the sentences for remote models at most `num_before` texts and sentences as context.

    `words` returns the words of a given text or of a part of it, without its markup.
    """
    remote = [text for text in texts if text.route and not text.route[0].has_attention]
    around = [neighbors.around(given[text.number], num_before) for text in remote]

    def line(text: str, is_part: bool = False) -> str:
        return " ".join(words(text, is_part).split())

    def give() -> None:
        first = [neighbors.context] if neighbors.context else []
        for text, (before, after) in zip(remote, around, strict=True):
            lines = [*map(line, before)]
            for sentence in text.sentences:
                restored = sentence.text.protected.restore(sentence.given)
                lines.append(line(restored, is_part=True))
            lines += map(line, after)
            for place, sentence in enumerate(text.sentences, len(before)):
                earlier = filter(has_letters, lines[max(0, place - num_before) : place])
                later = filter(has_letters, lines[place + 1 : place + 2])
                sentence.hints = Hints(
                    before=[*first, *(each[-MAX_CONTEXT_CHARS:] for each in earlier)],
                    after=[each[:MAX_CONTEXT_CHARS] for each in later],
                )

    num_chars = sum(map(len, given))
    num_chars += sum(len(text) for pair in around for part in pair for text in part)
    await run_sized(num_chars, deadline, give)
