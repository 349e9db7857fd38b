"""Folders of M2M100 and NLLB-200 from their files to translations."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration, M2M100Tokenizer

from model.checkpoints.build import load_engine
from model.checkpoints.load import find_models, load_vocabularies, read_folder
from model.errors import CheckpointError, CheckpointFormatError, UnsupportedModelError
from model.sequence import EngineLimits
from tests.hf_files import SENTENCE, SOURCE_TEXT, pieces_model, pieces_of, randomize
from tests.tiny import greedy_ids

CPU = torch.device("cpu")
LANGUAGES = {"m2m": ["__af__", "__en__", "__pt__"], "nllb": ["eng_Latn", "por_Latn", "zho_Hans"]}
SIGNS = ["<s>", "<pad>", "</s>", "<unk>"]


def write_folder(folder: Path, kind: str, spare: int = 3, **changes: Any) -> int:
    """The number of its pieces, signs among them."""
    folder.mkdir(parents=True)
    pieces = pieces_model(tuple(SOURCE_TEXT))
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    names = [*SIGNS, *pieces_of(pieces)]
    if kind == "m2m":
        names = [*SIGNS, *reversed(names[4:])]  # any numbers, not those of the pieces
        ids = {name: number for number, name in enumerate(names)}
        (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    special = {"additional_special_tokens": LANGUAGES[kind]}
    (folder / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")
    of_a_side = {"layers": 2, "attention_heads": 2, "ffn_dim": 32}
    sizes = {
        f"{side}_{part}": number
        for side in ("encoder", "decoder")
        for part, number in of_a_side.items()
    }
    size = len(names) + len(LANGUAGES[kind]) + spare
    config = M2M100Config(**{"vocab_size": size, "d_model": 16, **sizes, **changes})
    model = M2M100ForConditionalGeneration(config)
    randomize(model, seed=2)
    model.save_pretrained(folder)
    return len(names)


@pytest.mark.parametrize(
    ("kind", "name", "tokens"),
    [
        ("m2m", "en-pt", ("__en__", "__pt__")),
        ("nllb", "en-pt", ("eng_Latn", "por_Latn")),
        ("nllb", "nllb-por-zh", ("por_Latn", "zho_Hans")),
    ],
)
def test_folder_becomes_a_model_of_the_pair_it_is_named_after(
    tmp_path: Path, kind: str, name: str, tokens: tuple[str, str]
) -> None:
    start = write_folder(tmp_path / name, kind)
    (files,) = find_models(str(tmp_path))
    assert (files.source_token, files.target_token) == tokens
    vocabularies = load_vocabularies(files)
    source = vocabularies.source.tokenize(SENTENCE)
    first, second = (start + LANGUAGES[kind].index(token) for token in tokens)
    assert (source.ids[0], source.ids[-1], source.special[0]) == (first, 2, True)
    assert source.pieces[1].startswith("▁the")
    engine = load_engine(files, CPU, "float32", EngineLimits(max_rows=2), True)
    (target,) = greedy_ids(engine, [source.ids])
    assert target[0] == second == vocabularies.target.tokenize("x").ids[0]
    assert vocabularies.target.decode(target) == vocabularies.target.decode(target[1:])


def test_pieces_of_nllb_have_the_numbers_of_the_file_and_one_more(tmp_path: Path) -> None:
    write_folder(tmp_path / "en-pt", "nllb")
    tokenizer = load_vocabularies(read_folder(tmp_path / "en-pt")).source
    plain = tokenizer.processor.encode(SENTENCE)
    assert tokenizer.encode(SENTENCE)[1:] == [i + 1 if i > 2 else 3 for i in plain]


@pytest.mark.parametrize("text", [SENTENCE, "the  house, é", ""])
def test_ids_of_m2m100_are_those_of_transformers(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "en-pt"
    write_folder(folder, "m2m")
    vocabulary, pieces = str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model")
    make: Any = M2M100Tokenizer
    theirs = make(vocabulary, pieces, src_lang="en")
    _, *expected = theirs(text)["input_ids"]  # theirs has 100 languages, before this one others
    assert load_vocabularies(read_folder(folder)).source.tokenize(text).ids[1:] == expected


@pytest.mark.parametrize("name", ["en-ja", "ja-en", "m2m100_418M"])
def test_languages_it_does_not_have_are_refused(tmp_path: Path, name: str) -> None:
    write_folder(tmp_path / name, "m2m")
    with pytest.raises(UnsupportedModelError, match="af, en, pt"):
        find_models(str(tmp_path))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "special_tokens_map.json").unlink(), r"without special_tokens_map\.json"),
        (lambda f: (f / "special_tokens_map.json").write_text("{}"), "no additional_special_tok"),
        (lambda f: (f / "special_tokens_map.json").write_text("["), "is not JSON"),
        (lambda f: (f / "model.safetensors").unlink(), r"without model\.safetensors or"),
        (lambda f: (f / "vocab.json").write_text('{"</s>": 1}'), "does not number its 1 pieces"),
        (lambda f: (f / "sentencepiece.bpe.model").write_bytes(b"x"), "not a SentencePiece model"),
    ],
)
def test_damaged_folder_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "en-pt"
    write_folder(folder, "m2m")
    damage(folder)
    with pytest.raises(CheckpointFormatError, match=message):
        load_vocabularies(read_folder(folder))


def test_more_pieces_than_weights_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "en-pt", "m2m", spare=-1)
    files = read_folder(tmp_path / "en-pt")
    with pytest.raises(CheckpointError, match="the weights are for"):
        load_engine(files, CPU, "float32", EngineLimits(max_rows=2), True)
