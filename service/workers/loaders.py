"""The table of loaders: how a worker loads each type of model."""

from model.checkpoints.families.cross_encoders import CrossEncoderFiles
from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from service.workers.executors.rerank import load_cross_encoder
from service.workers.loading import Loaders, load_embedder, load_translation_model

LOADERS: Loaders = {
    ModelFiles: load_translation_model,
    EmbeddingFiles: load_embedder,
    CrossEncoderFiles: load_cross_encoder,
}
"""Maps the type of a model's files to the function that loads the model."""
