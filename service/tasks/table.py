"""The task table: one row for each kind of work that the server does.

A new kind needs a row in ROWS, an entry in KINDS, a class of work items, and an executor in
`service.workers.executors.EXECUTORS`. If it has models of its own, their load function needs an
entry in `service/workers/loading.py`. The scheduler and the main loop of a worker have no code for
particular kinds.
"""

from model.checkpoints.families.cross_encoders import CrossEncoderFiles
from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from service.items import (
    ATTENTION,
    EMBED,
    RERANK,
    TRANSLATE,
    AttentionItem,
    EmbeddingItem,
    RerankItem,
    TranslationItem,
)
from service.metrics.definitions import TaskSeries
from service.models.remote import RemoteFiles
from service.scheduling.policies import RowPolicy, SlotPolicy, TaskKind, TokenPolicy
from service.settings import Settings
from service.workers.messages import AnyFiles

EMBEDDING_SHARE = 0.44
"""Share of a worker's time for embedding or reranking while sentences are translated. The share is
about a half, because the server cannot know which work is more urgent. docs/decisions.md has the
measurements."""

ROWS = [
    TaskKind(
        item=TranslationItem,
        policy=RowPolicy(),
        share=lambda _: None,
        series=TaskSeries(phases=("encode", "decode"), sides=("source", "target")),
        lengths=lambda item, hypotheses: (len(item.source), len(hypotheses[0].tokens)),
    ),
    TaskKind(
        item=EmbeddingItem,
        policy=TokenPolicy(TRANSLATE),
        share=lambda _: EMBEDDING_SHARE,
        series=TaskSeries(phases=("embed",), sides=("source",)),
        lengths=lambda item, _: (len(item.ids),),
    ),
    TaskKind(
        item=RerankItem,
        policy=TokenPolicy(TRANSLATE),
        share=lambda _: EMBEDDING_SHARE,
        series=TaskSeries(phases=("rerank",), sides=("source",)),
        lengths=lambda item, _: (len(item.ids),),
    ),
    TaskKind(
        item=AttentionItem,
        policy=SlotPolicy(TRANSLATE),
        share=lambda settings: settings.attention_share,
        series=TaskSeries(phases=("attention",), sides=()),
        lengths=None,
    ),
]

TASKS = {row.name: row for row in ROWS}
"""Maps the name of each task kind to its row, in the order of precedence in a worker."""

KINDS: dict[type, tuple[str, ...]] = {
    ModelFiles: (TRANSLATE, EMBED, ATTENTION),
    EmbeddingFiles: (EMBED, ATTENTION),
    CrossEncoderFiles: (RERANK, ATTENTION),
    RemoteFiles: (),
}
"""Maps the type of a model's files to the task kinds that the workers compute with the model."""


def kinds_of(files: AnyFiles) -> tuple[str, ...]:
    return KINDS[type(files)]


def task_series() -> dict[str, TaskSeries]:
    return {row.name: row.series for row in ROWS}


def shares(settings: Settings) -> dict[str, float | None]:
    return {row.name: row.share(settings) for row in ROWS}
