"""Our scores against transformers', with the same random weights and tokenizers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from model.checkpoints.embedding import load_cross_encoder_model
from model.checkpoints.families.cross_encoders import CrossEncoderFiles, read_cross_encoder
from model.encoding.embedding import EmbeddingJob, embed
from model.errors import UnsupportedModelError
from service.models.served import ServedReranker
from service.tasks.embedding.inputs import ScoreParameters
from service.tasks.reranking import ids_of, tokenize
from tests.attention_jobs import pair_results
from tests.tiny_cross_encoder import (
    FAMILIES,
    SEGMENTED,
    limit_of,
    tokenizer,
    write_cross_encoder,
)
from tests.tiny_text import change_json, write_json

QUERY = "where did the cat sit"
TEXTS = ["the train is late .", "the cat sat on a mat .", "who", "cat " * 60, "a mat"]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cross") / family


@pytest.fixture(scope="module")
def theirs(family: str, folder: Path) -> Any:
    return write_cross_encoder(folder, family)


def our_scores(
    folder: Path, texts: list[str] = TEXTS, query: str = QUERY, side: Any = "right"
) -> list[float]:
    files = CrossEncoderFiles("tiny", folder, folder)
    served = ServedReranker.load(files)
    model = load_cross_encoder_model(files, torch.device("cpu"), "float32")
    inputs = [(query, text) for text in texts]
    options = ScoreParameters.model_validate({"truncation_direction": side})
    pairs = tokenize(served, inputs, options)
    vectors = embed(model, [EmbeddingJob(ids_of(pair, served)) for pair in pairs])
    assert all(len(pair.ids) <= served.tokenizer.max_tokens for pair in pairs)
    return [float(vector[0]) for vector in vectors]


def their_scores(
    model: Any,
    family: str,
    query: str,
    texts: list[str],
    limit: int,
    side: str = "right",
    has_segments: bool | None = None,
) -> list[float]:
    """Scores of transformers, each pair alone."""
    theirs: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer(family), pad_token="<pad>", truncation_side=side
    )
    scores = []
    for text in texts:
        inputs = theirs(
            query,
            text,
            truncation="longest_first",
            max_length=limit,
            return_tensors="pt",
            return_token_type_ids=family in SEGMENTED if has_segments is None else has_segments,
        )
        with torch.inference_mode():
            scores.append(float(model(**inputs).logits[0, 0]))
    return scores


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("query", [QUERY, "the cat " * 40, "on"])
def test_scores_are_those_of_transformers(
    theirs: Any, family: str, folder: Path, query: str, side: Any
) -> None:
    """Also of pairs that are too long, whose longer part is cut first."""
    expected = their_scores(theirs, family, query, TEXTS, limit_of(family), side)
    np.testing.assert_allclose(our_scores(folder, TEXTS, query, side), expected, atol=1e-5)
    assert np.ptp(expected) > 0.01


def test_attention_of_a_pair_is_that_of_transformers(
    theirs: Any, family: str, folder: Path
) -> None:
    texts = TEXTS[:3]
    files = CrossEncoderFiles("tiny", folder, folder)
    found = pair_results(files, [(QUERY, text) for text in texts])
    assert [score for _, _, score in found] == our_scores(folder, texts)
    reader: Any = PreTrainedTokenizerFast(tokenizer_object=tokenizer(family))  # type: ignore[no-untyped-call]
    theirs.set_attn_implementation("eager")
    for text, (_, weights, _) in zip(texts, found, strict=True):
        inputs = reader(QUERY, text, return_tensors="pt", return_token_type_ids=family in SEGMENTED)
        with torch.inference_mode():
            expected = torch.cat(theirs(**inputs, output_attentions=True).attentions)
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", ["right", "left"])
def test_very_long_text_is_cut_at_the_requested_end(
    theirs: Any, family: str, folder: Path, side: Any
) -> None:
    """Of such a text only one end is tokenised."""
    texts = [f"on a mat {'cat ' * 30_000}who runs home ."]
    expected = their_scores(theirs, family, QUERY, texts, limit_of(family), side)
    np.testing.assert_allclose(our_scores(folder, texts, side=side), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("xlm-roberta", {}),  # such as models that were fine-tuned from Multilingual-MiniLM
        ("bert", {"model_input_names": ["input_ids", "attention_mask"]}),
    ],
)
def test_tokenizer_may_put_both_parts_of_a_bert_in_one_segment(
    tmp_path: Path, family: str, options: dict[str, Any]
) -> None:
    model = write_cross_encoder(tmp_path, "bert")
    tokenizer(family).save(str(tmp_path / "tokenizer.json"))
    write_json(tmp_path / "tokenizer_config.json", options)
    expected = their_scores(model, family, QUERY, TEXTS, 40, has_segments=not options)
    np.testing.assert_allclose(our_scores(tmp_path), expected, atol=1e-5)


def test_truncation_of_the_left_side_is_refused(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"truncation_side": "left"}')
    with pytest.raises(UnsupportedModelError, match="truncation_side"):
        ServedReranker.load(CrossEncoderFiles("tiny", tmp_path, tmp_path))


def test_default_prompt_is_refused(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path)
    write_json(tmp_path / "config_sentence_transformers.json", {"default_prompt_name": "query"})
    with pytest.raises(UnsupportedModelError, match="default_prompt_name is 'query'"):
        read_cross_encoder(CrossEncoderFiles("tiny", tmp_path, tmp_path))


@pytest.mark.parametrize("labels", [3, ["LABEL_0"], "LABEL_0"])
def test_labels_of_a_wrong_type_are_refused(tmp_path: Path, labels: object) -> None:
    write_cross_encoder(tmp_path)
    change_json(tmp_path / "config.json", id2label=labels)
    with pytest.raises(UnsupportedModelError, match="id2label must be an object"):
        read_cross_encoder(CrossEncoderFiles("tiny", tmp_path, tmp_path))
