"""A Hugging Face folder from its files to translations; transformers wrote the files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentencepiece import SentencePieceProcessor
from torch.testing import assert_close

from model.architectures.stack import EncoderDecoder
from model.checkpoints.build import load_engine, load_model
from model.checkpoints.folders import title_of
from model.checkpoints.languages import LanguageTokens
from model.checkpoints.load import ModelFiles, find_models, load_vocabularies, read_folder
from model.errors import (
    CheckpointError,
    CheckpointFormatError,
    CheckpointNotFoundError,
    UnsupportedModelError,
)
from model.sequence import EngineLimits
from tests.hf_files import SENTENCE, TARGET_TEXT, transformers, write_marian
from tests.tiny import decoder_inputs, forced_pass, greedy_ids, pad
from tests.tiny_text import change_json, save_pickled_shards, save_shards, write_json

CPU = torch.device("cpu")
TOKENS = (">>fra<<", ">>por<<", ">>pt_br<<", ">>cmn_Hans<<", ">>cmn_Hant<<")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "opus-mt-en-de"
    write_marian(path)
    return path


@pytest.mark.parametrize("target", [["de", "fr"], {"de": 1}, 3])
def test_language_that_is_no_text_is_no_language(folder: Path, target: object) -> None:
    folder = folder.rename(folder.parent / "model")
    write_json(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": target})
    with pytest.raises(CheckpointError):
        find_models(str(folder))


def load(files: ModelFiles, dtype: str = "float32") -> Any:
    return load_model(files, CPU, dtype)


def test_folder_becomes_a_model_of_its_pair(folder: Path) -> None:
    (files,) = find_models(str(folder.parent))
    assert (files.name, files.source, files.target) == ("en-de", "en", "de")
    assert files.weights == folder / "model.safetensors"
    assert (files.shortlist, files.tokens) == (None, None)
    vocabularies = load_vocabularies(files)
    source = [*vocabularies.source.encode(SENTENCE), vocabularies.source.eos_id]
    engine = load_engine(files, CPU, "float32", EngineLimits(max_rows=2), True)
    (target,) = greedy_ids(engine, [source])
    assert 0 < len(target) <= 3 * len(source)
    assert vocabularies.target.decode(target)


@pytest.mark.parametrize(
    "changes",
    [
        {"scale_embedding": False},
        {"activation_function": "relu"},
        {"share_encoder_decoder_embeddings": False},
    ],
    ids=str,
)
def test_switches_of_the_config_are_those_of_transformers(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    folder = tmp_path / "en-de"
    theirs = write_marian(folder, **changes)
    assert_same_logits(theirs, load(read_folder(folder)), [[3, 4, 5], [6, 7, 8]])


def assert_same_logits(theirs: Any, model: EncoderDecoder, targets: list[list[int]]) -> None:
    source, mask = pad([[5, 6, 7, 0], [9, 0]])
    target = torch.tensor(targets)
    with torch.no_grad():
        expected = theirs(
            input_ids=source,
            attention_mask=mask.long(),
            decoder_input_ids=decoder_inputs(model, target),
        ).logits
        logits = forced_pass(model, source, mask, target)
    assert logits.shape == (2, 3, model.config.target_vocab_size)
    assert_close(logits, expected, atol=2e-5, rtol=1e-5)


def test_vocabularies_may_be_two(tmp_path: Path) -> None:
    """`target_vocab.json` numbers the target's pieces, of which there are more."""
    folder = tmp_path / "en-de"
    theirs = write_marian(folder, share_encoder_decoder_embeddings=False, decoder_vocab_size=90)
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    assert len(ids) < 90
    more = [*ids, *(f"piece{number}" for number in range(90 - len(ids)))]
    write_json(folder / "target_vocab.json", {piece: i for i, piece in enumerate(more)})
    model = load(read_folder(folder))
    assert (model.config.source_vocab_size, model.config.target_vocab_size) == (len(ids), 90)
    assert_same_logits(theirs, model, [[3, 4, 85], [6, 89, 8]])


def source_only_ids(folder: Path) -> set[int]:
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    source, target = (
        {each.id_to_piece(i) for i in range(each.vocab_size())}
        for each in (
            SentencePieceProcessor(model_file=str(folder / name))
            for name in ("source.spm", "target.spm")
        )
    )
    return {number for piece, number in ids.items() if piece in source - target}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(("width", "bias"), [(16, 0.0), (64, 1.0)], ids=["torch", "native"])
def test_pieces_of_the_source_alone_are_never_chosen(
    tmp_path: Path, width: int, bias: float, dtype: str
) -> None:
    folder = tmp_path / "en-de"
    sizes: dict[str, Any] = {f"{side}_ffn_dim": width for side in ("encoder", "decoder")}
    theirs = write_marian(folder, tokens=(">>deu<<",), d_model=width, **sizes)
    excluded = source_only_ids(folder)
    theirs.final_logits_bias[:, [*excluded]] += bias  # so that some are the most probable
    theirs.save_pretrained(folder)
    files, limits = read_folder(folder), EngineLimits(max_rows=8)
    sources = [[*range(first, last), 0] for first in range(2, 30, 3) for last in (first + 1, 32)]
    whole, chosen = (
        greedy_ids(load_engine(files, CPU, dtype, limits, use_shortlist), sources)
        for use_shortlist in (False, True)
    )
    assert any(excluded & set(target) for target in whole)
    assert not any(excluded & set(target) for target in chosen)
    kept = [i for i, target in enumerate(whole) if not excluded & set(target)]
    assert kept
    assert [chosen[i] for i in kept] == [whole[i] for i in kept]


def save_pickle(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """As old versions of transformers wrote it: with every name of the one table."""
    shared = tensors["model.shared.weight"]
    names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    copies = dict.fromkeys([*names, "lm_head.weight"], shared)
    torch.save({**tensors, **copies}, folder / "pytorch_model.bin")


@pytest.mark.parametrize("save", [save_shards, save_pickle, save_pickled_shards])
def test_weights_in_any_layout_are_the_same(folder: Path, save: Callable[..., None]) -> None:
    expected = load(read_folder(folder)).state_dict()
    revision = read_folder(folder).revision
    whole = folder / "model.safetensors"
    tensors = load_file(whole)
    whole.unlink()
    save(folder, tensors)
    files = read_folder(folder)
    assert files.weights.name != "model.safetensors"
    assert files.revision != revision
    found = load(files).state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize(
    "text", ["the house", "a  tree, é\n½ 家", "the große Baum", "  is ", "", "x" * 50]
)
def test_ids_and_texts_are_those_of_transformers(folder: Path, text: str) -> None:
    theirs: Any = transformers().MarianTokenizer(
        str(folder / "source.spm"),
        str(folder / "target.spm"),
        str(folder / "vocab.json"),
        source_lang="en",
        target_lang="de",
    )
    ours = load_vocabularies(read_folder(folder))
    ids = theirs(text)["input_ids"]
    assert [*ours.source.encode(text), ours.source.eos_id] == ids
    assert ours.source.tokenize(text).ids == ids
    target = [*ours.source.encode(text), *ours.target.encode(TARGET_TEXT[2]), 0]
    assert ours.target.decode(target) == theirs.decode(target, skip_special_tokens=True).replace(
        "<unk>", ""
    )
    shown = ours.target.detokenize(target)
    assert shown.text == ours.target.decode(target)
    places = [shown.text[start:end] for start, end in shown.offsets]
    assert "".join(places) == shown.text.replace(" ", "")


def named(folder: Path, name: str) -> ModelFiles:
    target = folder.parent / name
    write_marian(target, tokens=TOKENS)
    return read_folder(target)


@pytest.mark.parametrize(
    ("name", "target", "token"),
    [
        ("opus-mt-en-fr", "fr", ">>fra<<"),
        ("opus-mt-tc-big-eng-por", "pt", ">>por<<"),
        ("en-pt_br", "pt-BR", ">>pt_br<<"),
        ("en-zh", "zh", ">>cmn_Hans<<"),
    ],
)
def test_target_token_stands_before_every_source(
    tmp_path: Path, name: str, target: str, token: str
) -> None:
    files = named(tmp_path / "x", name)
    assert (files.source, files.target) == ("en", target)
    assert files.tokens == LanguageTokens({"en": ""}, {target: token})
    tokenizer = load_vocabularies(files).source
    ids = tokenizer.encode(SENTENCE)
    assert tokenizer.pieces(ids[:1]) == [token]
    assert tokenizer.encode(" ") == []
    encoding = tokenizer.encode_with_offsets(SENTENCE)
    assert (encoding.ids, encoding.pieces[0], encoding.offsets[0]) == (ids, token, (0, 0))
    assert tokenizer.decode(ids) == SENTENCE
    shown = tokenizer.tokenize(SENTENCE)
    assert shown.ids == [*ids, 0]
    assert (shown.offsets[0], shown.special[0], shown.special[-1]) == ((0, 0), True, True)
    assert not any(shown.special[1:-1])
    assert "".join(SENTENCE[start:end] for start, end in shown.offsets) == SENTENCE.replace(" ", "")


def test_target_that_the_model_has_no_token_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedModelError, match="ja is not one of fr, pt, pt-BR, zh-Hans, zh-Hant"
    ):
        named(tmp_path / "x", "en-ja")


@pytest.mark.parametrize("name", ["opus-mt-ROMANCE-en", "roa-en", "mul-en", "any", "my-model"])
def test_folder_that_does_not_say_what_it_reads_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedModelError, match="en-de, or en-mul .* fr, pt"):
        named(tmp_path / "x", name)


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("opus-mt-en-ROMANCE", ["en"]),
        ("opus-mt-tc-big-en-roa", ["en"]),
        ("en-mul", ["en"]),
        ("opus-mt-tc-bible-big-deu_eng_fra-mul", ["de", "en", "fr"]),
        ("de+en-fr+pt", ["de", "en"]),
    ],
)
def test_model_of_a_family_writes_what_it_has_tokens_for(
    tmp_path: Path, name: str, sources: list[str]
) -> None:
    files = named(tmp_path / "x", name)
    assert (files.name, files.source, files.target) == (name, "", "")
    assert files.sources == sources
    assert sorted(files.targets) == ["fr", "pt", "pt-BR", "zh-Hans", "zh-Hant"]
    vocabularies, tokens = load_vocabularies(files), files.tokens
    assert tokens is not None
    for target, token in (("pt-BR", ">>pt_br<<"), ("zh-Hant", ">>cmn_Hant<<")):
        between = vocabularies.between(tokens, "en", target)
        assert between.source.pieces(between.source.encode(SENTENCE)[:1]) == [token]
        assert (between.target.prefix, between.first_id) == ([], None)
    assert vocabularies.source.prefix == []


def test_family_is_read_from_the_files_too(tmp_path: Path) -> None:
    """And its sources have no tokens where it writes one language."""
    folder = tmp_path / "models--Helsinki-NLP--opus-mt-tc-big-deu_nld-en" / "snapshots" / "0a1b2c"
    write_marian(folder)
    files = find_models(str(tmp_path))[0]
    assert (files.name, files.sources) == ("opus-mt-tc-big-deu_nld-en", ["de", "nl"])
    assert files.tokens == LanguageTokens({"de": "", "nl": ""}, {"en": ""})
    other = tmp_path / "any"
    write_marian(other, tokens=TOKENS)
    write_json(other / "tokenizer_config.json", {"source_lang": "en", "target_lang": "ROMANCE"})
    assert (read_folder(other).name, read_folder(other).sources) == ("any", ["en"])


HUB = "models--Helsinki-NLP--opus-mt-en-de/snapshots/0a1b2c"
ORIGINAL = "Helsinki-NLP/opus-mt-en-de"


@pytest.mark.parametrize(
    ("path", "original", "languages", "name"),
    [
        (HUB, None, (), "en-de"),
        ("any", ORIGINAL, (), "en-de"),
        ("any", ORIGINAL, ("eng", "fra"), "en-fr"),
        ("opus-mt-en-de-hf", None, ("eng", "deu"), "en-de"),  # `de-hf` looks like a pair
        ("de-fr", None, ("en", "de"), "en-de"),
        ("en-fr", None, ("eng", "roa"), "en-fr"),
        ("en-zh_hant", None, ("eng", "zho"), "en-zh-Hant"),
    ],
)
def test_pair_is_read_from_the_files_or_else_from_a_name(
    tmp_path: Path, path: str, original: str | None, languages: tuple[str, ...], name: str
) -> None:
    folder = tmp_path / path
    write_marian(folder, tokens=(*TOKENS, ">>deu<<"))
    change_json(folder / "config.json", _name_or_path=original)
    named = dict(zip(("source_lang", "target_lang"), languages, strict=False))
    write_json(folder / "tokenizer_config.json", named)
    assert read_folder(folder).name == name


def test_folder_called_snapshots_outside_a_hub_cache_names_no_model(tmp_path: Path) -> None:
    assert title_of(tmp_path / "data" / "snapshots" / "en-de") == "en-de"


def test_folder_of_another_kind_of_model_is_passed_over(folder: Path) -> None:
    other = folder.parent / "bert"
    write_json(other / "config.json", {"model_type": "bert"})
    assert [files.name for files in find_models(str(folder.parent))] == ["en-de"]
    with pytest.raises(CheckpointNotFoundError, match=r"config\.json with the model_type marian"):
        find_models(str(other))


def lose(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def cut_pieces(folder: Path) -> None:
    path = folder / "target.spm"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change(name: str, **changes: Any) -> Callable[[Path], None]:
    return lambda folder: change_json(folder / name, **changes)


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lose("model.safetensors"), CheckpointFormatError, r"has no model\.safetensors or "),
        (lose("source.spm"), CheckpointFormatError, r"opus-mt-en-de is .* has no source\.spm"),
        (lose("vocab.json"), CheckpointFormatError, r"has no vocab\.json"),
        (cut_pieces, CheckpointFormatError, r"^target\.spm is not a SentencePiece model"),
        (
            change("vocab.json", **{"<pad>": 0}),
            CheckpointFormatError,
            r"vocab\.json does not number its \d+ pieces",
        ),
        (
            lambda folder: write_json(folder / "vocab.json", {"a": 0}),
            CheckpointFormatError,
            r"vocab\.json has no </s>, <unk>",
        ),
        (
            change("config.json", eos_token_id=5),
            CheckpointError,
            "EOS ids are 0 and 0 in the vocabularies, and 5 in",
        ),
    ],
)
def test_damaged_folder_is_refused(
    folder: Path, damage: Callable[[Path], None], error: type[CheckpointError], message: str
) -> None:
    damage(folder)
    with pytest.raises(error, match=message):
        load(find_models(str(folder))[0])
