"""Computes the scores of texts, or of pairs of a query and a text, in a worker.

The work is divided in the same way as in `service.workers.executors.embedding`.
"""

from collections.abc import Sequence

from model.checkpoints.cross_encoder import load_cross_encoder_model
from model.checkpoints.families.cross_encoders import CrossEncoderFiles
from model.device import select_device
from model.encoding.embedding import EmbeddingEncode, EmbeddingJob, embed
from service.items.rerank import RERANK, RerankItem
from service.workers.batch_sizes import batch_tokens
from service.workers.device_memory import held_bytes
from service.workers.executors.embedding import Batch, EmbeddingExecutor
from service.workers.loading import WARM_TOKENS, LoadedModel
from service.workers.messages import WorkerConfig


class RerankExecutor(EmbeddingExecutor):
    """Scores texts or pairs; inputs of similar length are computed together.

    A step computes one slice, a part of a batch.
    """

    noun = "pair"
    phase = "rerank"


def load_cross_encoder(files: CrossEncoderFiles, config: WorkerConfig) -> LoadedModel:
    """Loads and warms up a cross-encoder.

    Raises:
        ModelError: The files or the device cannot be used.
    """
    model = load_cross_encoder_model(files, select_device(config.device), config.dtype)
    embed(model, [EmbeddingJob([0] * min(WARM_TOKENS, model.config.max_tokens))])

    tokens = batch_tokens(model.encoder.device.type == "cuda")

    def begin(items: Sequence[RerankItem]) -> Batch:
        return EmbeddingEncode(model, [EmbeddingJob(item.ids) for item in items], tokens)

    precision = str(model.precision)
    return LoadedModel({RERANK: begin}, model.encoder.device, precision, held_bytes(model))
