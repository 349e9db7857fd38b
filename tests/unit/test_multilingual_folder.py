"""Folders of models of many languages, from their files to translations.

These are M2M100, SMaLL-100, NLLB-200, T5, MADLAD-400 and mBART-50.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from sentencepiece import SentencePieceProcessor

from model.checkpoints.build import load_engine
from model.checkpoints.families import hf_config
from model.checkpoints.families import translation_folder as codes
from model.checkpoints.languages import LanguageTokens
from model.checkpoints.load import Vocabularies, find_models, load_vocabularies, read_folder
from model.errors import CheckpointError, CheckpointFormatError, UnsupportedModelError
from model.sequence import EngineLimits, Sequence
from tests.checkpoint_folders import change_tensors
from tests.hf_files import (
    SENTENCE,
    SOURCE_TEXT,
    greedy_targets,
    new_model,
    pieces_model,
    randomize,
    save_tokenizer,
    transformers,
    write_multilingual,
)
from tests.tiny import translate
from tests.tiny_text import change_json, write_json

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
AFRIKAANS, CHINESE = ["af", "en", "pt"], ["en", "pt", "zh-Hans", "zh-Hant"]
WITH_PROMPTS = (*SOURCE_TEXT, "translate English to German: the house, French: a tree")


def write_folder(folder: Path, kind: str, spare: int = 3, **changes: Any) -> int:
    """The number of its pieces, signs among them."""
    return write_multilingual(folder, kind, LANGUAGES[kind], spare, **changes)


def t5_pieces(kind: str) -> bytes:
    return pieces_model(WITH_PROMPTS, vocab_size=60, **PIECES[kind])


def write_t5(folder: Path, kind: str, **changes: Any) -> Any:
    """Writes a folder as save_pretrained does, and returns the tokenizer of transformers."""
    theirs = save_tokenizer(
        folder, "T5Tokenizer", "spiece.model", t5_pieces(kind), extra_ids=2 if kind == "t5" else 0
    )
    own: dict[str, Any] = {"task_specific_params": PROMPTS}
    if kind == "madlad":
        own = {"feed_forward_proj": "gated-gelu", "pad_token_id": 1, "eos_token_id": 2}
    model = new_model(
        "T5ForConditionalGeneration",
        vocab_size=len(theirs) + 28,
        d_model=16,
        d_kv=4,
        d_ff=32,
        num_layers=2,
        num_heads=3,
        **{**own, "decoder_start_token_id": 0, **changes},
    )
    randomize(model, seed=4)
    model.save_pretrained(folder)
    if "task_specific_params" in own:  # version 5 of transformers no longer saves them
        change_json(folder / "config.json", **own)
    return theirs


def write_mbart(folder: Path, **changes: Any) -> Any:
    theirs = save_tokenizer(
        folder, "MBart50Tokenizer", "sentencepiece.bpe.model", pieces_model(tuple(SOURCE_TEXT))
    )
    sizes = {
        f"{side}_{part}": number
        for side in ("encoder", "decoder")
        for part, number in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 32))
    }
    own = {"vocab_size": len(theirs), "d_model": 16, "max_position_embeddings": 40}
    start = {"decoder_start_token_id": 2, "forced_eos_token_id": None}
    model = new_model("MBartForConditionalGeneration", **{**sizes, **own, **start, **changes})
    randomize(model, seed=5)
    model.save_pretrained(folder)
    return theirs


def between(folder: Path, source: str, target: str) -> Vocabularies:
    (files,) = find_models(str(folder))
    assert files.tokens is not None
    return load_vocabularies(files).between(files.tokens, source, target)


write_t5_folder = partial(write_t5, kind="t5")
write_madlad = partial(write_t5, kind="madlad")
write_m2m, write_nllb, write_small = (partial(write_folder, kind=kind) for kind in LANGUAGES)


@pytest.mark.parametrize(
    ("write", "name", "sources", "targets"),
    [
        (write_m2m, "m2m100_418M", AFRIKAANS, AFRIKAANS),
        (write_nllb, "nllb-200-distilled-600M", CHINESE, CHINESE),
        (write_small, "small100", AFRIKAANS, AFRIKAANS),
        (write_small, "any", AFRIKAANS, AFRIKAANS),
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
    make: Any = transformers().M2M100Tokenizer
    theirs = make(vocabulary, pieces, src_lang="en")
    _, *expected = theirs(text)["input_ids"]  # theirs has 100 languages, before this one others
    assert load_vocabularies(read_folder(folder)).source.tokenize(text).ids[1:] == expected


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


TRANSLATED: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "m2m": (write_m2m, ["af-en", "en-pt", "pt-af"]),
    "nllb": (write_nllb, ["en-zh-Hans", "pt-zh-Hant", "pt-en"]),
    "small": (write_small, ["af-en", "en-pt", "pt-af"]),
    "t5": (write_t5_folder, ["en-de"]),
    "madlad": (write_madlad, ["de-pt", "pt-fr-CA"]),
    "mbart": (write_mbart, ["en-zh", "de-en"]),
}


@pytest.mark.parametrize(("write", "pairs"), TRANSLATED.values(), ids=TRANSLATED)
def test_translations_are_those_of_transformers(
    tmp_path: Path, write: Callable[[Path], None], pairs: list[str]
) -> None:
    """In one batch, sequences to different languages, and some of them alone."""
    write(tmp_path / "model")
    (files,) = find_models(str(tmp_path))
    engine = load_engine(files, CPU, "float32", EngineLimits(4, 40), True)
    given: list[Sequence] = []
    for pair, text in product(pairs, TEXTS):
        source, _, target = pair.partition("-")
        vocabularies = between(tmp_path, source, target)
        ids = vocabularies.source.tokenize(text).ids
        given.append(Sequence(len(given), ids, first_id=vocabularies.first_id))
    found = translate(engine, given)
    theirs = transformers().AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    expected = greedy_targets(theirs, given, engine.config)
    assert [found[each.id][0].tokens for each in given] == expected
    assert len(set(map(tuple, expected))) >= 3
    for sequence, tokens in zip(given[:3], expected, strict=False):
        assert translate(engine, [sequence])[sequence.id][0].tokens == tokens


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
    make: Any = transformers().M2M100Tokenizer
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
    theirs = transformers().models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES
    assert codes.LANGUAGE_CODES == {name: list(listed) for name, listed in theirs.items()}


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
def test_folder_without_pieces_names_the_missing_file(tmp_path: Path, kind: str) -> None:
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
        folder, "NllbTokenizer", "sentencepiece.bpe.model", pieces, extra_special_tokens=languages
    )
    model = new_model("M2M100ForConditionalGeneration", vocab_size=len(theirs) + 2, **SIZES)
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
