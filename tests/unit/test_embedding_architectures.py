"""Which models embed: encoders, and not the classifiers that are built on them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    MPNetForSequenceClassification,
    RobertaForSequenceClassification,
    XLMRobertaForSequenceClassification,
)

from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import find_embedding_models, read_config
from model.errors import UnsupportedModelError
from tests.tiny_text import OPTIONS, write_encoder, write_model


@pytest.mark.parametrize("architecture", ["BertModel", "BertForMaskedLM", "BertForPreTraining"])
def test_encoder_that_was_trained_to_fill_in_words_embeds(
    tmp_path: Path, architecture: str
) -> None:
    folder = write_model(tmp_path / "tiny", architectures=[architecture])
    (files,) = find_embedding_models(str(folder))
    assert read_config(files).output_size == 16
    load_embedding_model(files, torch.device("cpu"), "float32")


CLASSIFIERS = [
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    MPNetForSequenceClassification,
    RobertaForSequenceClassification,
    XLMRobertaForSequenceClassification,
]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifier_is_not_served_as_an_embedder(tmp_path: Path, kind: Any) -> None:
    """Its vectors were served: its config and its encoder's tensors are those of an embedder."""
    folder = write_encoder(tmp_path / "tiny")
    sizes = {name: value for name, value in OPTIONS.items() if name != "model_type"}
    kind(kind.config_class(**sizes)).save_pretrained(folder)
    (files,) = find_embedding_models(str(folder))
    with pytest.raises(UnsupportedModelError, match=rf"architectures is \['{kind.__name__}'\]"):
        read_config(files)


def test_refusal_names_the_architecture_and_a_way_out(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", architectures="BertModel")
    (files,) = find_embedding_models(str(folder))
    reason = r"config\.json is not supported: architectures is 'BertModel'; .*fine-tuned from"
    with pytest.raises(UnsupportedModelError, match=reason):
        read_config(files)
