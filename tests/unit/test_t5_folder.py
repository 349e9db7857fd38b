"""Folders of T5, MADLAD-400 and mBART-50 from their files to translations."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from sentencepiece import SentencePieceProcessor
from transformers import (
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)

from model.checkpoints.build import load_engine
from model.checkpoints.load import Vocabularies, find_models, load_vocabularies
from model.errors import CheckpointError, UnsupportedModelError
from model.sequence import EngineLimits, Sequence
from tests.checkpoint_folders import change_tensors
from tests.hf_files import (
    SENTENCE,
    SOURCE_TEXT,
    greedy_targets,
    pieces_model,
    randomize,
    save_tokenizer,
)
from tests.tiny import translate
from tests.tiny_text import change_json

CPU = torch.device("cpu")
PIECES: dict[str, dict[str, Any]] = {
    "t5": {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "madlad": {
        "unk_id": 0,
        "bos_id": 1,
        "eos_id": 2,
        "user_defined_symbols": "<2de>,<2fr_CA>,<2pt>",
    },
}
PROMPTS = {"summarization": {"prefix": "summarize: "}} | {
    f"translation_en_to_{code}": {"prefix": f"translate English to {name}: "}
    for code, name in (("de", "German"), ("fr", "French"))
}
MBART = (
    "ar cs de en es et fi fr gu hi it ja kk ko lt lv my ne nl ro ru si tr vi zh af az bn fa he hr "
    "id ka km mk ml mn mr pl ps pt sv sw ta te th fil uk ur xh gl sl"
).split()
WITH_PROMPTS = (*SOURCE_TEXT, "translate English to German: the house, French: a tree")


def t5_pieces(kind: str) -> bytes:
    return pieces_model(WITH_PROMPTS, vocab_size=60, **PIECES[kind])


def write_t5(folder: Path, kind: str, **changes: Any) -> Any:
    """Writes a folder as save_pretrained does, and returns the tokenizer of transformers."""
    theirs = save_tokenizer(
        folder, T5Tokenizer, "spiece.model", t5_pieces(kind), extra_ids=2 if kind == "t5" else 0
    )
    own: dict[str, Any] = {"task_specific_params": PROMPTS}
    if kind == "madlad":
        own = {"feed_forward_proj": "gated-gelu", "pad_token_id": 1, "eos_token_id": 2}
    config = T5Config(
        vocab_size=len(theirs) + 28,
        d_model=16,
        d_kv=4,
        d_ff=32,
        num_layers=2,
        num_heads=3,
        **{**own, "decoder_start_token_id": 0, **changes},
    )
    model = T5ForConditionalGeneration(config)
    randomize(model, seed=4)
    model.save_pretrained(folder)
    if "task_specific_params" in own:  # version 5 of transformers no longer saves them
        change_json(folder / "config.json", **own)
    return theirs


def write_mbart(folder: Path, **changes: Any) -> Any:
    theirs = save_tokenizer(
        folder, MBart50Tokenizer, "sentencepiece.bpe.model", pieces_model(tuple(SOURCE_TEXT))
    )
    sizes = {
        f"{side}_{part}": number
        for side in ("encoder", "decoder")
        for part, number in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 32))
    }
    own = {"vocab_size": len(theirs), "d_model": 16, "max_position_embeddings": 40}
    start = {"decoder_start_token_id": 2, "forced_eos_token_id": None}
    model = MBartForConditionalGeneration(MBartConfig(**{**sizes, **own, **start, **changes}))
    randomize(model, seed=5)
    model.save_pretrained(folder)
    return theirs


def between(folder: Path, source: str, target: str) -> Vocabularies:
    (files,) = find_models(str(folder))
    assert files.tokens is not None
    return load_vocabularies(files).between(files.tokens, source, target)


write_t5_folder = partial(write_t5, kind="t5")
write_madlad = partial(write_t5, kind="madlad")


@pytest.mark.parametrize(
    ("write", "name", "sources", "targets"),
    [
        (write_t5_folder, "t5-small", ["en"], ["de", "fr"]),
        (write_t5_folder, "t5-en-fr", ["en"], ["fr"]),
        (write_t5_folder, "t5-de-en", ["de"], ["en"]),  # fine-tuned without a prompt
        (write_madlad, "madlad400-3b-mt", ["de", "fr-CA", "pt"], ["de", "fr-CA", "pt"]),
        (write_madlad, "madlad400-7b-mt-bt", ["de", "fr-CA", "pt"], ["de", "fr-CA", "pt"]),
        (write_madlad, "en-pt", ["en"], ["pt"]),
        (write_mbart, "mbart-large-50-many-to-many-mmt", MBART, MBART),
        (write_mbart, "mbart-large-50-one-to-many-mmt", ["en"], MBART),
        (write_mbart, "mbart-large-50-many-to-one-mmt", MBART, ["en"]),
        (write_mbart, "en-pt", ["en"], ["pt"]),
    ],
)
def test_folder_names_its_languages(
    tmp_path: Path,
    write: Callable[[Path], None],
    name: str,
    sources: list[str],
    targets: list[str],
) -> None:
    write(tmp_path / name)
    (files,) = find_models(str(tmp_path))
    assert [files.sources, files.targets] == [sources, targets]


TEXTS = (SENTENCE, "trees \ufb01t the, é", "a small house")


@pytest.mark.parametrize("text", TEXTS)
def test_ids_of_t5_are_those_of_transformers(tmp_path: Path, text: str) -> None:
    """With the prompt of the pair in front, and from a SentencePiece file as from JSON."""
    theirs = write_t5(tmp_path / "t5", "t5")
    expected = theirs(f"translate English to French: {text}")["input_ids"]
    source = between(tmp_path, "en", "fr").source
    tokenized = source.tokenize(text)
    assert tokenized.ids == expected == [*source.encode(text), 1]
    assert tokenized.special.index(False) == len(source.prefix) == tokenized.special.count(True) - 1
    assert source.decode(source.encode(text)) == theirs.decode(expected, skip_special_tokens=True)
    (tmp_path / "t5" / "tokenizer.json").unlink()
    (tmp_path / "t5" / "spiece.model").write_bytes(t5_pieces("t5"))
    assert between(tmp_path, "en", "fr").source.tokenize(text).ids == expected


@pytest.mark.parametrize("text", TEXTS)
def test_ids_of_madlad_begin_with_the_token_of_the_target(tmp_path: Path, text: str) -> None:
    theirs = write_t5(tmp_path / "madlad", "madlad")
    ids = SentencePieceProcessor(model_proto=t5_pieces("madlad")).encode(text)
    expected = [theirs.convert_tokens_to_ids("<2fr_CA>"), *ids, 2]
    vocabularies = between(tmp_path, "pt", "fr-CA")
    tokenized = vocabularies.source.tokenize(text)
    assert (tokenized.ids, vocabularies.first_id, tokenized.special[0]) == (expected, None, True)
    assert vocabularies.target.encode(text) == expected[1:-1]


@pytest.mark.parametrize("text", TEXTS)
def test_ids_of_mbart_are_those_of_transformers(tmp_path: Path, text: str) -> None:
    theirs = write_mbart(tmp_path / "mbart")
    vocabularies = between(tmp_path, "en", "pt")
    assert vocabularies.source.tokenize(text).ids == theirs(text)["input_ids"]
    assert vocabularies.first_id == theirs.convert_tokens_to_ids("pt_XX")


@pytest.mark.parametrize(
    ("write", "make", "pair"),
    [
        (write_t5_folder, T5ForConditionalGeneration, ("en", "de")),
        (write_madlad, T5ForConditionalGeneration, ("de", "pt")),
        (write_mbart, MBartForConditionalGeneration, ("en", "zh")),
    ],
)
def test_translations_are_those_of_transformers(
    tmp_path: Path, write: Callable[[Path], None], make: Any, pair: tuple[str, str]
) -> None:
    """In one batch, and each sentence alone."""
    folder = tmp_path / "model"
    write(folder)
    (files,) = find_models(str(tmp_path))
    engine = load_engine(files, CPU, "float32", EngineLimits(4, 40), True)
    vocabularies = between(tmp_path, *pair)
    sources = [vocabularies.source.tokenize(text).ids for text in TEXTS]
    given = [Sequence(i, ids, first_id=vocabularies.first_id) for i, ids in enumerate(sources)]
    found = translate(engine, given)
    theirs: Any = make.from_pretrained(folder)
    expected = greedy_targets(theirs, given, engine.config)
    assert [found[each.id][0].tokens for each in given] == expected
    for sequence, target in zip(given, expected, strict=True):
        assert translate(engine, [sequence])[sequence.id][0].tokens == target


def test_copies_and_unused_tensors_of_old_versions_change_nothing(tmp_path: Path) -> None:
    """A pickle holds the shared matrix under all of its names."""
    folder = tmp_path / "t5"
    write_t5(folder, "t5")
    (files,) = find_models(str(tmp_path))
    source = [Sequence(0, between(tmp_path, "en", "de").source.tokenize(SENTENCE).ids)]
    expected = translate(load_engine(files, CPU, "float32", EngineLimits(4, 40), True), source)

    def change(tensors: dict[str, Any]) -> None:
        for name in ("lm_head", "encoder.embed_tokens", "decoder.embed_tokens"):
            tensors[f"{name}.weight"] = tensors["shared.weight"].copy()
        unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
        tensors[unused] = tensors["shared.weight"].copy()

    change_tensors(folder, change)
    assert (
        translate(load_engine(files, CPU, "float32", EngineLimits(4, 40), True), source) == expected
    )


def test_source_may_not_be_longer_than_the_learned_positions(tmp_path: Path) -> None:
    write_mbart(tmp_path / "mbart")
    (files,) = find_models(str(tmp_path))
    with pytest.raises(UnsupportedModelError, match="has 40 positions; set REGARD_MAX_SOURCE_TOK"):
        load_engine(files, CPU, "float32", EngineLimits(4, 41), True)
    config = load_engine(files, CPU, "float32", EngineLimits(4, 40), True).config
    assert [config.max_target_tokens(length) for length in (2, 12, 40)] == [32, 36, 40]


@pytest.mark.parametrize(
    ("write", "changes", "message"),
    [
        (write_t5_folder, {"feed_forward_proj": "gated-mish"}, "feed_forward_proj is 'gated-mish'"),
        (write_t5_folder, {"relative_attention_num_buckets": 6}, "not a multiple of 4"),
        (write_t5_folder, {"is_encoder_decoder": False}, "is_encoder_decoder is False"),
        (write_t5_folder, {"eos_token_id": [1, 2]}, r"eos_token_id is \[1, 2\], not an id"),
        (write_t5_folder, {"d_kv": 0}, "d_kv is 0, not a size"),
        (write_t5_folder, {"num_layers": 10**6}, "the sizes need .* weights"),
        (write_t5_folder, {"task_specific_params": None}, "name the folder after the pair"),
        (write_mbart, {"normalize_before": False}, "normalize_before is False, supported: True"),
        (write_mbart, {"decoder_start_token_id": 7}, "decoder_start_token_id is 7, supported: 2"),
        (write_mbart, {"max_position_embeddings": 0}, "max_position_embeddings is 0, not a size"),
    ],
)
def test_unsupported_option_is_named(
    tmp_path: Path, write: Callable[[Path], None], changes: dict[str, Any], message: str
) -> None:
    write(tmp_path / "model")
    change_json(tmp_path / "model" / "config.json", **changes)
    with pytest.raises(CheckpointError, match=message):
        load_engine(find_models(str(tmp_path))[0], CPU, "float32", EngineLimits(4, 32), True)


def test_encoder_of_t5_is_no_translation_model(tmp_path: Path) -> None:
    write_t5(tmp_path / "gtr", "t5")
    change_json(tmp_path / "gtr" / "config.json", architectures=["T5EncoderModel"])
    with pytest.raises(CheckpointError, match="holds no model"):
        find_models(str(tmp_path))
