"""What a front end and the main process say to each other, in lists, over one socket pair.

A short request takes one message each way: a Run, Ask or EmbedRun, and an Answer or a Refusal. A
long one asks for its place first (Reserve), so that nothing is computed for what is refused. How a
request ended (Ended) goes along with later messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.errors import ServiceError
from service.ipc.channel import pickle_by_fields
from service.items.orders import Inquiry, Sentence, TextToEmbed
from service.metrics.definitions import Ended
from service.models.model_set import ModelSet
from service.scheduling.lanes import EmbeddedText, Shown, Translated
from service.settings import Settings
from service.tasks.backend import Status


@dataclass(frozen=True, slots=True)
class FrontendConfig:
    """Main process to front end, first.

    Attributes:
        settings: How the server runs, flags included.
        started: When it was started, in Unix seconds.
        models: What is served now.
    """

    settings: Settings
    started: int
    models: ModelSet


@dataclass(frozen=True, slots=True)
class Listening:
    """Front end to main process: it takes requests."""


@dataclass(frozen=True, slots=True)
class Began:
    """Front end to main process: a request has come."""

    task: str


@dataclass(frozen=True, slots=True)
class Reserve:
    """Front end to main process: may a request of about so many tokens be worked on?

    Attributes:
        id: Of the request, unique in the front end; a Run, an Ask, an EmbedRun or a Cancel follows.
        tokens: An estimate.
    """

    id: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Run:
    """Front end to main process: translate the sentences of a request.

    Attributes:
        id: Of the request.
        tokens: The estimate with which it is admitted; for one that is, of no account.
        sentences: All of them; there may be none.
        is_bulk: Which lane they wait in.
        deadline: By time.perf_counter, which all processes of a machine share.
    """

    id: int
    tokens: int
    sentences: Sequence[Sentence]
    is_bulk: bool
    deadline: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Front end to main process: show the attention that a request asks for.

    Attributes:
        id: Of the request.
        tokens: As of a Run.
        inquiries: All of them.
        deadline: As of a Run.
    """

    id: int
    tokens: int
    inquiries: Sequence[Inquiry]
    deadline: float


@dataclass(slots=True)
class EmbedRun:
    """Front end to main process: embed the texts of a request; the attributes are a Run's."""

    id: int
    tokens: int
    texts: Sequence[TextToEmbed]
    is_bulk: bool
    deadline: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Front end to main process: nobody waits for the request any more."""

    id: int


@dataclass(frozen=True, slots=True)
class AskStatus:
    """Front end to main process: how is the server?"""

    id: int


@dataclass(frozen=True, slots=True)
class AskMetrics:
    """Front end to main process: what are the figures?"""

    id: int


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Front end to main process: load a model.

    Attributes:
        id: Of the question.
        name: The model's.
        source: A reference to it.
    """

    id: int
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Front end to main process: unload a model."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Serve:
    """Main process to front end: these are served from now on; Served answers.

    Attributes:
        id: Of this message.
        models: All of them.
    """

    id: int
    models: ModelSet


@dataclass(frozen=True, slots=True)
class Served:
    """Front end to main process: it goes by a Serve, and nothing it began goes by what was before.

    Attributes:
        id: Of the Serve.
        failure: Why it does not.
    """

    id: int
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Main process to front end: what was asked for under that id.

    Attributes:
        id: Of the question.
        value: Nothing for a Reserve, translations for a Run, attention for an Ask, vectors for an
            EmbedRun, what became of a model, else a Status or a text.
    """

    id: int
    value: list[Translated] | list[Shown] | list[EmbeddedText] | Status | bytes | str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Main process to front end: what a request ends in other than a result."""

    id: int
    error: ServiceError


@dataclass(frozen=True, slots=True)
class Drain:
    """Main process to front end: take no more, finish, end."""


Order = Run | Ask | EmbedRun
"""What a request wants computed."""

Question = Reserve | Order | AskStatus | AskMetrics | LoadModel | UnloadModel
FromFrontend = Listening | Began | Ended | Question | Cancel | Served
ToFrontend = Answer | Refusal | Serve | Drain

for _cls in (Answer, EmbeddedText, EmbedRun, Ended, Run, Sentence, TextToEmbed, Translated):
    pickle_by_fields(_cls)
