"""Folders of M2M100 and NLLB-200 from their files to translations."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from sentencepiece import SentencePieceProcessor
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    NllbTokenizer,
)
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

from model.checkpoints.build import load_engine
from model.checkpoints.families import hf_config
from model.checkpoints.families import translation_folder as codes
from model.checkpoints.languages import LanguageTokens
from model.checkpoints.load import find_models, load_vocabularies, read_folder
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.sequence import EngineLimits, Sequence
from tests.hf_files import (
    SENTENCE,
    SOURCE_TEXT,
    greedy_targets,
    pieces_model,
    randomize,
    save_tokenizer,
    write_multilingual,
)
from tests.tiny import translate
from tests.tiny_text import write_json

CPU = torch.device("cpu")
SIZES: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}
LANGUAGES = {
    "m2m": ["__af__", "__en__", "__pt__"],
    "nllb": ["eng_Latn", "por_Latn", "zho_Hans", "zho_Hant"],
    "small": ["__af__", "__en__", "__pt__"],
}


def write_folder(folder: Path, kind: str, spare: int = 3, **changes: Any) -> int:
    """The number of its pieces, signs among them."""
    return write_multilingual(folder, kind, LANGUAGES[kind], spare, **changes)


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
    pair = (files.source, files.target)
    assert files.name == "-".join(pair)
    assert files.tokens == LanguageTokens({pair[0]: tokens[0]}, {pair[1]: tokens[1]}, True)
    vocabularies = load_vocabularies(files)
    source = vocabularies.source.tokenize(SENTENCE)
    first, second = (start + LANGUAGES[kind].index(token) for token in tokens)
    assert (source.ids[0], source.ids[-1], source.special[0]) == (first, 2, True)
    assert source.pieces[1].startswith("▁the")
    engine = load_engine(files, CPU, "float32", EngineLimits(max_rows=2), True)
    given = Sequence(0, source.ids, first_id=vocabularies.first_id)
    target = translate(engine, [given])[0][0].tokens
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


@pytest.mark.parametrize(
    ("kind", "name", "languages"),
    [
        ("m2m", "m2m100_418M", ["af", "en", "pt"]),
        ("nllb", "nllb-200-distilled-600M", ["en", "pt", "zh-Hans", "zh-Hant"]),
        ("small", "small100", ["af", "en", "pt"]),
        ("small", "any", ["af", "en", "pt"]),
    ],
)
def test_one_set_of_weights_serves_every_pair(
    tmp_path: Path, kind: str, name: str, languages: list[str]
) -> None:
    """In one batch, each sequence to a language of its own, as transformers translates it."""
    folder = tmp_path / name
    write_folder(folder, kind)
    (files,) = find_models(str(tmp_path))
    tokens = files.tokens
    assert (files.name, files.source, files.sources) == (name, "", languages)
    assert tokens is not None
    engine = load_engine(files, CPU, "float32", EngineLimits(max_rows=4), True)
    vocabularies = load_vocabularies(files)
    given: list[Sequence] = []
    for source, target in permutations(languages, 2):
        between = vocabularies.between(tokens, source, target)
        first = tokens.sources[target if kind == "small" else source]
        ids = between.source.tokenize(SENTENCE).ids
        assert between.source.pieces(ids[:1]) == [first]
        given.append(Sequence(len(given), ids, first_id=between.first_id))
    results = translate(engine, given)
    theirs: Any = M2M100ForConditionalGeneration.from_pretrained(folder)
    found = [results[sequence.id][0].tokens for sequence in given]
    assert found == greedy_targets(theirs, given, engine.config)
    assert len(set(map(tuple, found))) >= 3


def test_what_a_hub_cache_calls_a_model_is_its_name(tmp_path: Path) -> None:
    write_folder(tmp_path / "models--facebook--m2m100_418M" / "snapshots" / "0a1b2c", "m2m")
    assert find_models(str(tmp_path))[0].name == "m2m100_418M"


def test_language_tokens_may_stand_beside_the_tokenizers_options(tmp_path: Path) -> None:
    """As newer versions of transformers write them."""
    folder = tmp_path / "m2m100"
    write_folder(folder, "m2m")
    (folder / "special_tokens_map.json").unlink()
    write_json(folder / "tokenizer_config.json", {"extra_special_tokens": LANGUAGES["m2m"]})
    assert read_folder(folder).targets == ["af", "en", "pt"]


def write_added(folder: Path, ids: dict[str, int], is_old: bool) -> None:
    """Lists ids of added tokens, as one of two versions of transformers does."""
    decoder = {str(number): {"content": token} for token, number in ids.items()}
    if is_old:
        write_json(folder / "added_tokens.json", ids)
    else:
        write_json(folder / "tokenizer_config.json", {"added_tokens_decoder": decoder})


@pytest.mark.parametrize("is_old", [True, False])
def test_added_language_has_the_id_that_the_folder_lists(tmp_path: Path, is_old: bool) -> None:
    """In a fine-tuned NLLB-200, `<mask>` comes before the added language."""
    languages = [*LANGUAGES["nllb"], "tyv_Cyrl"]
    start = write_multilingual(tmp_path / "nllb", "nllb", languages)
    tokens = [*LANGUAGES["nllb"], "<mask>", "tyv_Cyrl"]
    ids = {token: start + number for number, token in enumerate(tokens)}
    write_added(tmp_path / "nllb", ids, is_old)
    found = codes.read_ids(tmp_path / "nllb")
    assert [found[token] for token in languages] == [ids[token] for token in languages]
    assert sorted(found.values()) == list(range(len(found)))
    assert found[f"<unused {ids['<mask>']}>"] == ids["<mask>"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("added_tokens.json", {"por_Latn": 5}, "two tokens the same id, or has more than"),
        ("added_tokens.json", {"por_Latn": 10**9}, "two tokens the same id, or has more than"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"x": {"content": "por_Latn"}}},
            "ids of added tokens cannot be read",
        ),
    ],
)
def test_list_of_added_tokens_of_no_use_is_refused(
    tmp_path: Path, file: str, content: dict[str, Any], message: str
) -> None:
    write_folder(tmp_path / "nllb", "nllb")
    write_json(tmp_path / "nllb" / file, content)
    with pytest.raises(CheckpointFormatError, match=message):
        codes.read_ids(tmp_path / "nllb")


def test_list_of_languages_may_be_named_alone(tmp_path: Path) -> None:
    """As transformers 5 saves M2M100's tokenizer: it was refused."""
    folder = tmp_path / "m2m100"
    languages = [f"__{code}__" for code in codes.LANGUAGE_CODES["m2m100"]]
    first = write_multilingual(folder, "m2m", languages)
    make: Any = M2M100Tokenizer
    files = str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model")
    theirs = make(*files, src_lang="en")
    (folder / "special_tokens_map.json").unlink()
    theirs.save_pretrained(folder)
    assert "__en__" not in (folder / "tokenizer_config.json").read_text("utf-8")
    found = read_folder(folder)
    assert len(found.targets) == 100
    vocabularies = load_vocabularies(found)
    assert found.tokens is not None
    english = vocabularies.between(found.tokens, "en", "pt").source.prefix
    assert english == [theirs.convert_tokens_to_ids("__en__")]
    assert english[0] - first == theirs.convert_tokens_to_ids("__en__") - theirs.encoder_size


def test_lists_of_languages_are_those_of_transformers() -> None:
    assert codes.LANGUAGE_CODES == {
        name: list(listed) for name, listed in FAIRSEQ_LANGUAGE_CODES.items()
    }


@pytest.mark.parametrize("name", ["en-ja", "ja-en"])
def test_languages_it_does_not_have_are_refused(tmp_path: Path, name: str) -> None:
    write_folder(tmp_path / name, "m2m")
    with pytest.raises(UnsupportedModelError, match="af, en, pt"):
        find_models(str(tmp_path))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "special_tokens_map.json").unlink(), r"special_tokens_map\.json nor"),
        (
            lambda f: (f / "special_tokens_map.json").write_text("{}"),
            "a list of the tokens of languages",
        ),
        (lambda f: (f / "special_tokens_map.json").write_text("["), "is not JSON"),
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


@pytest.mark.parametrize("kind", [*LANGUAGES])
def test_folder_without_pieces_says_what_it_lacks(tmp_path: Path, kind: str) -> None:
    """It was taken for an OPUS-MT model without its files."""
    write_folder(tmp_path / "many", kind)
    (tmp_path / "many" / "sentencepiece.bpe.model").unlink()
    with pytest.raises(CheckpointFormatError, match=r"has no sentencepiece\.bpe\.model$"):
        read_folder(tmp_path / "many")


def test_tokenizer_json_alone_has_the_ids_of_both_tokenizers(tmp_path: Path) -> None:
    """As transformers saves NLLB-200 since version 5: it was refused."""
    folder, languages = tmp_path / "nllb", LANGUAGES["nllb"]
    pieces = pieces_model(tuple(SOURCE_TEXT), model_type="bpe")
    theirs = save_tokenizer(
        folder, NllbTokenizer, "sentencepiece.bpe.model", pieces, extra_special_tokens=languages
    )
    model = M2M100ForConditionalGeneration(M2M100Config(vocab_size=len(theirs) + 2, **SIZES))
    randomize(model, seed=2)
    model.save_pretrained(folder)
    (files,) = find_models(str(tmp_path))
    assert files.targets == ["en", "pt", "zh-Hans", "zh-Hant"]
    assert files.tokens is not None
    vocabularies = load_vocabularies(files).between(files.tokens, "en", "zh-Hant")
    assert vocabularies.first_id == theirs.convert_tokens_to_ids("zho_Hant")
    slow = SentencePieceProcessor(model_proto=pieces)
    for text in (SENTENCE, "Trees,  \ufb01t thethehere, é \u6f22", "the eng_Latn </s> is small"):
        first, *ids, last = vocabularies.source.tokenize(text).ids
        assert ids == [number + 1 if number else 3 for number in slow.encode(text)]
        assert (first, last) == (theirs.convert_tokens_to_ids("eng_Latn"), 2)
        assert vocabularies.source.detokenize(ids).text == slow.decode(slow.encode(text)).replace(
            " \u2047 ", ""
        )
    assert vocabularies.source.tokenize(SENTENCE).ids == theirs(SENTENCE)["input_ids"]
    engine = load_engine(files, CPU, "float32", EngineLimits(max_rows=2), True)
    given = Sequence(0, theirs(SENTENCE)["input_ids"], first_id=vocabularies.first_id)
    assert translate(engine, [given])[0][0].tokens[0] == vocabularies.first_id


def test_short_source_may_have_a_long_target(tmp_path: Path) -> None:
    """A word of one piece, which may be many pieces of Burmese, got 9 tokens."""
    write_folder(tmp_path / "en-pt", "nllb")
    config = hf_config.read_config(tmp_path / "en-pt", 10**6, unk_id=3)
    assert [config.max_target_tokens(length) for length in (2, 3, 10, 11)] == [32, 32, 32, 33]
