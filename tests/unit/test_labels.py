import pytest

from model.checkpoints.load import ModelFiles
from model.tokenization.tokenizer import Tokenizer
from service.tasks.alignment.words import word_spans
from service.tasks.attention.labels import token_labels, word_labels


@pytest.fixture(scope="module")
def tokenizer(built_in: ModelFiles) -> Tokenizer:
    return Tokenizer(built_in.source_vocab)


def test_tokens_of_a_source_have_no_inputs(tokenizer: Tokenizer) -> None:
    labels = token_labels(tokenizer.tokenize("The cat"))
    assert labels.tokens == ["\u2581The", "\u2581cat", "</s>"]
    assert labels.ids == [*tokenizer.encode("The cat"), tokenizer.eos_id]
    assert labels.offsets == [(0, 3), (4, 7), (7, 7)]
    assert labels.special == [False, False, True]
    assert labels.input_tokens is None


@pytest.mark.parametrize("start", ["", "<pad>"])
def test_token_is_put_in_where_the_next_is_predicted(tokenizer: Tokenizer, start: str) -> None:
    labels = token_labels(tokenizer.detokenize([*tokenizer.encode("O gato"), 0]), start)
    assert labels.tokens == ["\u2581O", "\u2581gato", "</s>"]
    assert labels.input_tokens == [start, "\u2581O", "\u2581gato"]


def test_words_stand_as_in_the_text(tokenizer: Tokenizer) -> None:
    side = tokenizer.tokenize("Unbelievably  late.")
    labels = word_labels(side, word_spans(side), "")
    assert labels.tokens == ["Unbelievably", "late", ".", "</s>"]
    assert labels.offsets == [(0, 12), (14, 18), (18, 19), (19, 19)]
    assert labels.special == [False, False, False, True]
    assert labels.input_tokens == ["", "Unbelievably", "late", "."]
    assert [len(ids) for ids in labels.ids if isinstance(ids, list)][1:] == [1, 1, 1]
    assert sum((ids for ids in labels.ids if isinstance(ids, list)), []) == side.ids
    assert word_labels(side, word_spans(side)).input_tokens is None
