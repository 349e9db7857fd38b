"""Rerankers in folders as transformers, sentence-transformers and Qwen's makers write them.

The expected scores and attention are computed with transformers and PyTorch.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import nn

from model.checkpoints.embedding import load_cross_encoder_model
from model.checkpoints.families.cross_encoders import CrossEncoderFiles, read_cross_encoder
from model.checkpoints.formats.files import read_options_if_there
from model.encoding.embedding import EmbeddingJob
from model.errors import CheckpointError, CheckpointNotFoundError
from service.models.catalog import find_text_models
from service.models.served import ServedReranker
from service.tasks.embedding.inputs import ScoreParameters
from service.tasks.reranking import ids_of, tokenize
from tests.attention_jobs import pair_results
from tests.embedding_reference import CPU, embed_alone_and_together
from tests.hf_files import new_model, randomize, transformers
from tests.text_tokenizers import KINDS
from tests.tiny_cross_encoder import (
    FAMILIES,
    IDS,
    SEGMENTED,
    SIZES,
    limit_of,
    make_modular,
    write_cross_encoder,
)
from tests.tiny_cross_encoder import tokenizer as pair_tokenizer
from tests.tiny_text import change_json, write_dense, write_json

QUERY = "where did the cat sit"
TEXTS = ["the train is late .", "the cat sat on a mat .", "who", "a mat"]
LONG = "cat " * 60
IDENTITY = "torch.nn.modules.linear.Identity"
TOLERANCE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}


def files_of(folder: Path) -> CrossEncoderFiles:
    (files,) = find_text_models(str(folder))
    assert isinstance(files, CrossEncoderFiles)
    return files


def ids_and_scores(
    folder: Path, texts: list[str], query: str = QUERY, **options: Any
) -> tuple[Any, list[float]]:
    files = files_of(folder)
    served = ServedReranker.load(files)
    pairs = [(query, text) for text in texts]
    read = tokenize(served, pairs, ScoreParameters.model_validate(options))
    assert all(len(pair.ids) <= served.tokenizer.max_tokens for pair in read)
    ids = [ids_of(pair, served) for pair in read]
    model = load_cross_encoder_model(files, CPU, "float32")
    found = embed_alone_and_together(model, list(map(EmbeddingJob, ids)))
    return ids, [float(score[0]) for score in found]


def their_inputs(
    family: str, query: str, text: str, has_segments: bool | None = None, **options: Any
) -> Any:
    """Returns the inputs of a model of transformers, by its own tokenizer."""
    kind: Any = transformers().PreTrainedTokenizerFast
    side = options.pop("side", "right")
    theirs = kind(tokenizer_object=pair_tokenizer(family), pad_token="<pad>", truncation_side=side)
    is_typed = family in SEGMENTED if has_segments is None else has_segments
    return theirs(query, text, return_tensors="pt", return_token_type_ids=is_typed, **options)


def their_scores(
    model: Any, family: str, texts: list[str], query: str = QUERY, **options: Any
) -> list[float]:
    """Returns the scores of transformers, each pair alone; the longer part is cut first."""
    cut = {"truncation": "longest_first", "max_length": limit_of(family), **options}
    with torch.inference_mode():
        inputs = [their_inputs(family, query, text, **cut) for text in texts]
        return [float(model(**each).logits[0, 0]) for each in inputs]


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


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("query", [QUERY, "the cat " * 40, "on"])
def test_scores_are_those_of_transformers(
    theirs: Any, family: str, folder: Path, query: str, side: Any
) -> None:
    texts = [*TEXTS, LONG]
    expected = their_scores(theirs, family, texts, query, side=side)
    _, found = ids_and_scores(folder, texts, query, truncation_direction=side)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(expected) > 0.01


@pytest.mark.parametrize("side", ["right", "left"])
def test_very_long_text_is_cut_at_the_requested_end(
    theirs: Any, family: str, folder: Path, side: Any
) -> None:
    """Of such a text only one end is tokenised."""
    texts = [f"on a mat {'cat ' * 30_000}who runs home ."]
    expected = their_scores(theirs, family, texts, side=side)
    _, found = ids_and_scores(folder, texts, truncation_direction=side)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_attention_of_a_pair_is_that_of_transformers(
    theirs: Any, family: str, folder: Path
) -> None:
    found = pair_results(files_of(folder), [(QUERY, text) for text in TEXTS])
    assert [score for _, _, score in found] == ids_and_scores(folder, TEXTS)[1]
    theirs.set_attn_implementation("eager")
    for text, (_, weights, _) in zip(TEXTS, found, strict=True):
        with torch.inference_mode():
            output = theirs(**their_inputs(family, QUERY, text), output_attentions=True)
        np.testing.assert_allclose(weights, torch.cat(output.attentions), rtol=0, atol=1e-5)


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
    pair_tokenizer(family).save(str(tmp_path / "tokenizer.json"))
    write_json(tmp_path / "tokenizer_config.json", options)
    cut: dict[str, Any] = {"has_segments": not options, "max_length": limit_of("bert")}
    expected = their_scores(model, family, [*TEXTS, LONG], **cut)
    np.testing.assert_allclose(ids_and_scores(tmp_path, [*TEXTS, LONG])[1], expected, atol=1e-5)


PROMPTS = "config_sentence_transformers.json"


MODERN: dict[str, Any] = {**SIZES, **IDS, "max_position_embeddings": 200}
ENCODERS = {"bert": ("BertModel", SIZES), "modernbert": ("ModernBertModel", MODERN)}
PACKAGE = "sentence_transformer.modules"
PARTS = [
    ("1_Pooling", f"{PACKAGE}.pooling.Pooling"),
    ("2_Dense", "base.modules.dense.Dense"),
    ("3_LayerNorm", f"{PACKAGE}.layer_norm.LayerNorm"),
    ("4_Dense", "base.modules.dense.Dense"),
]


def write_modular(folder: Path, family: str) -> tuple[Any, nn.Sequential]:
    torch.manual_seed(4)
    kind, config = ENCODERS[family]
    encoder = new_model(kind, **config)
    randomize(encoder, seed=6)
    encoder.save_pretrained(folder)
    pair_tokenizer(family).save(str(folder / "tokenizer.json"))
    make_modular(folder, None, *PARTS)
    pooling = {"pooling_mode": "mean", "embedding_dimension": 32}
    write_json(folder / "1_Pooling" / "config.json", pooling)
    head: Any = nn.Sequential(nn.Linear(32, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 1))
    for module in (head[0], head[2], head[3]):
        nn.init.normal_(module.weight)
    gelu = {"activation_function": "torch.nn.modules.activation.GELU"}
    write_dense(folder / "2_Dense", head[0].weight.data, head[0].bias.data, **gelu)
    write_json(folder / "3_LayerNorm" / "config.json", {"dimension": 24})
    norms = {f"norm.{name}": values for name, values in head[2].state_dict().items()}
    save_file(norms, folder / "3_LayerNorm" / "model.safetensors")
    last = {"activation_function": IDENTITY, "module_output_name": "scores"}
    write_dense(folder / "4_Dense", head[3].weight.data, head[3].bias.data, **last)
    return encoder, head


@pytest.mark.parametrize("family", ENCODERS)
def test_modules_give_the_score(tmp_path: Path, family: str) -> None:
    encoder, head = write_modular(tmp_path, family)
    encoder.set_attn_implementation("eager")
    ids, scores = ids_and_scores(tmp_path, TEXTS)
    shown = pair_results(files_of(tmp_path), [(QUERY, text) for text in TEXTS])
    assert [(each, score) for each, _, score in shown] == list(zip(ids, scores, strict=True))
    for text, (_, weights, score) in zip(TEXTS, shown, strict=True):
        with torch.no_grad():
            output = encoder(**their_inputs(family, QUERY, text), output_attentions=True)
            expected = head(output.last_hidden_state.mean(dim=1))
        np.testing.assert_allclose(score, float(expected), **TOLERANCE)
        np.testing.assert_allclose(weights, torch.cat(output.attentions), rtol=0, atol=1e-5)
    assert np.ptp(scores) > 0.01
    assert len({*map(len, ids)}) > 1


@pytest.mark.parametrize(
    ("name", "is_raw"),
    [
        (IDENTITY, True),
        ("torch.nn.modules.activation.Sigmoid", False),
        ("own_code.Function", False),  # sentence-transformers takes the sigmoid in its place
        (None, False),
    ],
)
def test_function_of_the_config_decides_about_the_score(
    tmp_path: Path, name: str | None, is_raw: bool
) -> None:
    write_modular(tmp_path, "bert")
    make_modular(tmp_path, name, *PARTS)
    assert read_cross_encoder(files_of(tmp_path)).is_raw is is_raw
    make_modular(tmp_path, "torch.nn.modules.activation.Tanh", *PARTS)
    with pytest.raises(CheckpointError, match=r"activation_fn is torch.*Tanh, supported: torch"):
        read_cross_encoder(files_of(tmp_path))


PROMPT = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>'
    "user\n<Instruct>: {instruct}\n<Query>: {query}\n<Document>: {text}<|im_end|>\n<|im_start|>"
    "assistant\n<think>\n\n</think>\n\n"
)
SEARCH = "Given a web search query, retrieve relevant passages that answer the query"
QWEN: dict[str, Any] = {
    **SIZES,
    "vocab_size": 1000,
    "max_position_embeddings": 640,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
}
SCORE = ("1_LogitScore", "cross_encoder.modules.logit_score.LogitScore")
LOGITS = {"transformer_task": "text-generation", "module_output_name": "causal_logits"}


def qwen_tokenizer() -> Tokenizer:
    made = KINDS["byte-level BPE"]()
    made.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    made.add_tokens(["<think>", "</think>", "yes", "no"])
    return made


def write_qwen(folder: Path, kind: str = "Qwen3ForCausalLM", **options: Any) -> Any:
    torch.manual_seed(3)
    model = new_model(kind, **QWEN, **options)
    randomize(model, seed=8)
    model.save_pretrained(folder)
    qwen_tokenizer().save(str(folder / "tokenizer.json"))
    return model


def write_logit_score(folder: Path, no: bool = True, **options: Any) -> Any:
    model = write_qwen(folder, **options)
    make_modular(folder, None, SCORE)
    write_json(folder / "sentence_bert_config.json", LOGITS)
    yes_id, no_id = map(qwen_tokenizer().token_to_id, ("yes", "no"))
    ids = {"true_token_id": yes_id, "false_token_id": no_id if no else None}
    write_json(folder / "1_LogitScore" / "config.json", ids)
    return model


def prompt_ids(text: str, instruct: str = SEARCH) -> list[int]:
    prompt = PROMPT.format(instruct=instruct, query=QUERY, text=text)
    found: list[int] = qwen_tokenizer().encode(prompt).ids
    return found


def log_odds(model: Any, ids: list[int], no: bool = True) -> float:
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1]
    yes_id, no_id = map(qwen_tokenizer().token_to_id, ("yes", "no"))
    return float(logits[yes_id] - (logits[no_id] if no else 0.0))


@pytest.mark.parametrize("no", [True, False])
@pytest.mark.parametrize("is_tied", [True, False])
def test_logits_of_answers_give_the_score(tmp_path: Path, is_tied: bool, no: bool) -> None:
    model = write_logit_score(tmp_path, no, tie_word_embeddings=is_tied)
    ids, scores = ids_and_scores(tmp_path, TEXTS)
    assert ids == list(map(prompt_ids, TEXTS))
    expected = [log_odds(model, each, no) for each in ids]
    np.testing.assert_allclose(scores, expected, **TOLERANCE)
    assert np.ptp(scores) > 0.01
    model.set_attn_implementation("eager")
    shown = pair_results(files_of(tmp_path), [(QUERY, text) for text in TEXTS[:2]])
    for place, (each, weights, score) in enumerate(shown):
        assert (each, score) == (ids[place], scores[place])
        with torch.no_grad():
            output = model(torch.tensor([each]), output_attentions=True)
        np.testing.assert_allclose(weights, torch.cat(output.attentions), rtol=0, atol=1e-5)


def test_qwen3_reranker_without_modules_is_known_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "Qwen3-Reranker-0.6B"
    model = write_qwen(folder, tie_word_embeddings=True)
    ids, scores = ids_and_scores(folder, TEXTS)
    expected = [log_odds(model, prompt_ids(text)) for text in TEXTS]
    np.testing.assert_allclose(scores, expected, **TOLERANCE)
    with pytest.raises(CheckpointNotFoundError, match=r"has no modules\.json"):
        find_text_models(str(folder.rename(tmp_path / "Qwen3-0.6B")))


@pytest.mark.parametrize("is_modular", [True, False])
def test_converted_reranker_has_a_classifier(tmp_path: Path, is_modular: bool) -> None:
    model = write_qwen(tmp_path, "Qwen3ForSequenceClassification")
    if is_modular:
        make_modular(tmp_path)
    ids, scores = ids_and_scores(tmp_path, TEXTS)
    assert ids == list(map(prompt_ids, TEXTS))
    with torch.no_grad():
        expected = [float(model(torch.tensor([each])).logits) for each in ids]
    np.testing.assert_allclose(scores, expected, **TOLERANCE)


@pytest.mark.parametrize("side", ["right", "left"])
def test_text_that_is_too_long_leaves_the_prompt_whole(tmp_path: Path, side: Any) -> None:
    write_logit_score(tmp_path)
    change_json(tmp_path / "sentence_bert_config.json", max_seq_length=600)
    text = "cat who ... " * 200 + "cat"
    (ids, short), _ = ids_and_scores(tmp_path, [text, "who"], truncation_direction=side)
    whole, bare = prompt_ids(text), prompt_ids("")
    size = len(qwen_tokenizer().encode(PROMPT.partition("{text}")[2]).ids)
    closing, opening = bare[-size:], bare[: -size - 1]
    assert len(whole) > 600 == len(ids)
    assert ids[-size:] == closing
    assert short == prompt_ids("who")
    assert ids[: len(opening)] == opening
    if side == "right":
        assert ids[:-size] == whole[: 600 - size]
    else:
        assert ids[len(opening) :] == whole[len(opening) - 600 :]
    (cut, _), _ = ids_and_scores(tmp_path, [text, "who"], max_tokens_per_doc=4)
    assert cut == [*whole[: len(cut) - size], *closing]
    assert len(opening) + size < len(cut) <= len(opening) + size + 5


def test_a_very_long_query_leaves_no_room_for_the_text(tmp_path: Path) -> None:
    write_logit_score(tmp_path)
    served = ServedReranker.load(files_of(tmp_path))
    (pair,) = served.tokenizer.tokenize([("cat " * 3000, "mat")], end="left")
    assert len(pair.ids) == 640 < pair.num_tokens


def test_text_alone_gets_no_prompt(tmp_path: Path) -> None:
    """A client may have put its own prompt around it."""
    write_logit_score(tmp_path)
    served = ServedReranker.load(files_of(tmp_path))
    prompt = PROMPT.format(instruct="x", query="y", text="z")
    (pair,) = served.tokenizer.tokenize([(prompt,)])
    assert pair.ids == qwen_tokenizer().encode(prompt.strip()).ids


def test_default_prompt_is_the_instruction(tmp_path: Path) -> None:
    write_logit_score(tmp_path)
    prompts = {"prompts": {"own": "Find the cat"}, "default_prompt_name": "own"}
    change_json(tmp_path / PROMPTS, **prompts)
    ids, _ = ids_and_scores(tmp_path, TEXTS)
    assert ids == [prompt_ids(text, "Find the cat") for text in TEXTS]


def test_tokenizer_without_the_tokens_of_the_prompt_is_refused(tmp_path: Path) -> None:
    write_logit_score(tmp_path)
    KINDS["byte-level BPE"]().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointError, match="no token for the beginning of"):
        ServedReranker.load(files_of(tmp_path))


MODEL, TOKENIZER = "config.json", "tokenizer_config.json"
DENSE, NORM, LAST = (f"{place}/config.json" for place in ("2_Dense", "3_LayerNorm", "4_Dense"))
TEMPLATE = "{% if message.role == 'document' %}{{ message.content }}"
OTHER_TEMPLATE = "chat_template is not that of Qwen3-Reranker"
write_modules_of_bert = partial(write_modular, family="bert")
REFUSED: list[tuple[Callable[[Path], Any], str, Any, str]] = [
    (write_cross_encoder, TOKENIZER, {"truncation_side": "left"}, "truncation_side"),
    (write_cross_encoder, PROMPTS, {"default_prompt_name": "query"}, "default_prompt_name is 'q"),
    *(
        (write_cross_encoder, MODEL, {"id2label": labels}, "id2label must be an object")
        for labels in (3, ["LABEL_0"], "LABEL_0")
    ),
    (write_modules_of_bert, LAST, {"module_output_name": None}, "supported: 'scores'"),
    (write_modules_of_bert, DENSE, {"module_output_name": "scores"}, "sentence_embedding"),
    (write_modules_of_bert, NORM, {"dimension": 9}, "LayerNorm of 9 inputs gets vectors of size"),
    (write_modules_of_bert, NORM, {"dimension": "9"}, "dimension is '9'"),
    (write_modules_of_bert, LAST, {"out_features": 3}, "the classifier has 3 labels"),
    (write_logit_score, PROMPTS, {"default_prompt_name": "own"}, "prompt 'own' is not among"),
    (write_logit_score, "chat_template.jinja", TEMPLATE, OTHER_TEMPLATE),
    (write_logit_score, TOKENIZER, {"chat_template": TEMPLATE}, OTHER_TEMPLATE),
    *(
        (write_logit_score, "1_LogitScore/config.json", ids, "the ids of its answers are")
        for ids in (
            {"true_token_id": 1, "false_token_id": 1000},
            {"true_token_id": "yes", "false_token_id": 2},
            {"true_token_id": None, "false_token_id": 3},
            {"true_token_id": True, "false_token_id": 2},
        )
    ),
]


@pytest.mark.parametrize(("write", "file", "changes", "message"), REFUSED)
def test_other_rerankers_are_refused(
    tmp_path: Path, write: Callable[[Path], Any], file: str, changes: Any, message: str
) -> None:
    write(tmp_path)
    if isinstance(changes, str):
        (tmp_path / file).write_text(changes)
    else:
        known = read_options_if_there(tmp_path / file)
        write_json(tmp_path / file, known | changes)
    with pytest.raises(CheckpointError, match=message):
        ServedReranker.load(files_of(tmp_path))
