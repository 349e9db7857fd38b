"""Reads the languages and vocabularies of translation models' folders, without torch.

A vocabulary of OPUS-MT (of Hugging Face or Marian) is for one language or a few. One vocabulary of
M2M100, NLLB-200, SMaLL-100, mBART-50, T5, mT5 and MADLAD-400 serves all languages.

Source: transformers, models/m2m_100, models/nllb, models/mbart50 and models/t5 (tokenization);
SMaLL-100's own tokenizer (Mohammadshahi et al. 2022); Kudugunta et al. 2023, "MADLAD-400". No code
was copied.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from model.checkpoints.families.hf_config import CONFIG, MODEL_TYPES, T5_TYPES, read_model_options
from model.checkpoints.folders import name_of, title_of
from model.checkpoints.formats.files import (
    YAML_ERRORS,
    find_weights,
    read_json,
    read_options_if_there,
)
from model.checkpoints.languages import (
    LanguageTokens,
    Sides,
    Translates,
    choose_target,
    distinct_tags,
    is_code,
    pair_in,
    pair_of,
    sides_in,
    sides_of,
    target_languages,
)
from model.errors import CheckpointError, CheckpointFormatError, UnsupportedModelError
from model.regular_files import check_file
from model.tokenization.tokenizer import MappedTokenizer, Tokenizer

TOKENIZER_CONFIG = "tokenizer_config.json"
VOCAB = "vocab.json"
TARGET_VOCAB = "target_vocab.json"
PIECES = "sentencepiece.bpe.model"
SOURCE_PIECES = "source.spm"
TARGET_PIECES = "target.spm"

EOS, UNK = "</s>", "<unk>"
SILENT = (EOS, "<s>", "<pad>", "<blank>")
SPECIAL_TOKENS = "special_tokens_map.json"
MULTILINGUAL_TYPES = ("m2m_100", "mbart", *T5_TYPES)

T5_PIECES = "spiece.model"
TOKENIZER = "tokenizer.json"
SIGNS = ("<s>", "<pad>", EOS, UNK)
"""Special tokens with ids 0 to 3. NLLB-200's SentencePiece file begins with only three of them."""

SPECIAL = re.compile(r"</?s>|<pad>|<unused \d+>|<extra_id_\d+>|<2\w+>")
"""Matches tokens that are no text. MADLAD-400 has tokens of languages, such as `<2pt>`."""

MAX_UNUSED, MAX_UNUSED_T5 = 8, 128
"""Largest number of ids without a token. M2M100 has 8, NLLB-200 has 3, and T5 has up to 128."""

REGION = re.compile("_[A-Z]{2}$")
"""The end of mBART-50's tokens, such as `en_XX`. No language has tokens of two regions."""

LANGUAGE_LISTS = ("additional_special_tokens", "extra_special_tokens")

LANGUAGE_CODES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
        "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
        "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th "
        "tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ).split(),
    "wmt21": "en ha is ja cs ru zh de".split(),
}
"""M2M100's lists. Version 5 of transformers saves the name of a list instead of the tokens.

Source: transformers, models/m2m_100/tokenization_m2m_100.py, FAIRSEQ_LANGUAGE_CODES."""

ADDED_TOKENS = "added_tokens.json"

TASK = re.compile(r"translation_([a-z]{2,3})_to_([a-z]{2,3})")
TAG = re.compile(r"<2(\w+)>")

SMALL_100 = re.compile(r"small-?100(?![0-9k])", re.I)
SMALL_100_CODE = "tokenization_small100.py"


def is_translation_model(folder: Path) -> bool:
    # If the config cannot be read, the names of the SentencePiece files decide.
    try:
        options = read_model_options(folder)
        names = options.get("architectures") or [""]
        is_encoder = str(names[0]).endswith("EncoderModel")  # such as that of sentence-t5
        return options.get("model_type") in MODEL_TYPES and not is_encoder
    except CheckpointError:
        return any((folder / name).is_file() for name in (SOURCE_PIECES, PIECES))


def find_parts(folder: Path, is_npz: bool) -> list[Path]:
    """Returns weights, source pieces, target pieces, and one vocabulary or two."""
    if not is_npz:
        names = [SOURCE_PIECES, TARGET_PIECES, VOCAB]
        weights = find_weights(folder, names)
        own = [TARGET_VOCAB] if (folder / TARGET_VOCAB).is_file() else []
        return [weights, *(folder / name for name in (*names, *own))]
    needed = ("*.npz", SOURCE_PIECES, TARGET_PIECES, "*vocab.yml")
    found = {pattern: sorted(folder.glob(pattern)) for pattern in needed}
    found["*.npz"] = trained_npz(folder)
    reasons = [f"{len(found[name])} files {name}" for name in needed if len(found[name]) != 1]
    if reasons:
        raise CheckpointFormatError(f"{folder} is not one model: {', '.join(reasons)}")
    return [found[name][0] for name in needed]


def trained_npz(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.npz")) if is_trained_npz(path)]


def is_trained_npz(path: Path) -> bool:
    """Returns False for a file of optimizer state, which Marian writes beside a model."""
    return not path.name.endswith(".optimizer.npz")


def translates(folder: Path, vocabulary: Path) -> Translates:
    targets = target_languages(read_vocabulary(vocabulary))
    known = ", ".join(sorted(targets))
    for sources, target in _names(folder):
        if not (sources and (targets or target)):
            continue
        if target:
            token = choose_target(target, targets)
            if targets and token is None:
                raise UnsupportedModelError(str(folder), [f"{target} is not one of {known}"])
            targets = {target: token or ""}
        named = LanguageTokens(dict.fromkeys(sources, ""), targets)
        if target and len(sources) == 1:
            return (sources[0], target), named if targets[target] else None
        return None, named
    reason = (
        f"neither the folder's name nor {TOKENIZER_CONFIG} nor {CONFIG} names the "
        "languages; name the folder after them: en-de, or en-mul for all target languages"
    )
    if targets:
        reason += f"; its target languages are {known}"
    raise UnsupportedModelError(str(folder), [reason])


def _names(folder: Path) -> Iterator[Sides]:
    """Yields the languages that config files and names give, the preferred ones first.

    The pair in the tokenizer's config comes first, because the end of a folder's name can mislead,
    as in `opus-mt-en-pt-hf`. It is skipped if the folder's name has the same two languages, because
    the name may also give the script: `zh_hant`, not `zho`. Then comes the folder's name, which a
    user can change. The tokenizer's config may list several source languages, or a family of target
    languages. The last name is that of a folder `models--OWNER--NAME` in the cache of the Hugging
    Face hub.
    """
    own = read_options_if_there(folder / TOKENIZER_CONFIG)
    source, target = own.get("source_lang"), own.get("target_lang")
    pair, named = pair_of(source, target), pair_in(name_of(folder))
    if pair is not None and (named is None or _languages(named) != _languages(pair)):
        yield [pair[0]], pair[1]
    yield sides_in(name_of(folder))
    yield sides_of(source, target)
    original = read_options_if_there(folder / CONFIG).get("_name_or_path")
    for name in (original, folder.absolute().parent.parent.name):
        yield sides_in(name)


def _languages(pair: tuple[str, str]) -> list[str]:
    return [tag.partition("-")[0] for tag in pair]


def read_vocabulary(path: Path) -> dict[str, int]:
    """Returns the id of each piece in a `vocab.json`, a `.vocab.yml` or a list of CTranslate2.

    The ids must be 0, 1, 2 and so on, with EOS and UNK among the pieces.
    """
    ids = _read_yaml(path) if path.suffix == ".yml" else _read_json(path)
    numbers = [number for number in ids.values() if type(number) is int]
    if sorted(numbers) != list(range(len(ids))):
        raise CheckpointFormatError(f"{path} does not number its {len(ids)} pieces from 0 on")
    missing = [sign for sign in (EOS, UNK) if sign not in ids]
    if missing:
        raise CheckpointFormatError(f"{path} has no {', '.join(missing)}")
    return ids


def _read_json(path: Path) -> dict[str, int]:
    """Returns the ids of an object, or of a list: a JSON array, or the lines of a text file."""
    if path.suffix == ".txt":
        check_file(path)
        pieces: Any = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    else:
        pieces = read_json(path)
    if isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces):
        ids = {piece: number for number, piece in enumerate(pieces)}
        if len(ids) == len(pieces):
            return ids
    if not isinstance(pieces, dict):
        raise CheckpointFormatError(f"{path} is not a vocabulary, or has a piece twice")
    return pieces


def _read_yaml(path: Path) -> dict[str, int]:
    """Returns the ids of a Marian vocabulary. Keys such as `no` and `1` are read as text."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # in C, 10 times as fast as BaseLoader
    try:
        check_file(path)
        content = yaml.load(path.read_text(encoding="utf-8"), loader)
        return {str(piece): int(number) for piece, number in content.items()}
    except (OSError, TypeError, *YAML_ERRORS) as error:
        raise CheckpointFormatError(f"{path} is not a vocabulary: {error}") from error


def read_target_ids(source: Path, target: Path, vocabulary: Path) -> list[int]:
    """Returns the sorted ids of a shared vocabulary, without pieces that only source.spm has.

    In training, targets had no other pieces than those of target.spm.
    """
    of_source, of_target = (
        set(each.pieces([*range(each.vocab_size)])) for each in map(Tokenizer, (source, target))
    )
    excluded = of_source - of_target - {EOS}
    ids = read_vocabulary(vocabulary)
    return sorted(number for piece, number in ids.items() if piece not in excluded)


def read_tokenizer(
    pieces: Path, vocabulary: Path, hidden: re.Pattern[str] | None = None
) -> MappedTokenizer:
    """Reads a tokenizer; `hidden` matches tokens that stand for no text, as `>>fra<<` does."""
    ids = read_vocabulary(vocabulary)
    silent = {*SILENT, *target_languages(ids).values()}
    special = {ids[each] for each in ids if each in silent or (hidden and hidden.fullmatch(each))}
    return MappedTokenizer(pieces, ids, special, ids[EOS], ids[UNK])


def is_multilingual_folder(folder: Path) -> bool:
    kind = read_model_options(folder).get("model_type")
    return (folder / PIECES).is_file() or kind in MULTILINGUAL_TYPES


def is_t5_folder(folder: Path) -> bool:
    return read_model_options(folder).get("model_type") in T5_TYPES


def pieces_of(folder: Path) -> Path:
    """Returns the file of SentencePiece, or else `tokenizer.json`; it need not exist."""
    both = folder / (T5_PIECES if is_t5_folder(folder) else PIECES), folder / TOKENIZER
    return next((path for path in both if path.is_file()), both[0])


def find_multilingual_parts(folder: Path) -> list[Path]:
    """Returns the files of weights, source pieces, target pieces and ids.

    Some models have no file of ids.
    """
    pieces = pieces_of(folder)
    return [find_weights(folder, [pieces.name]), pieces, pieces, folder / VOCAB]


def translates_many(folder: Path) -> Translates:
    if is_t5_folder(folder):
        return _translates_t5(folder)
    return between(folder, language_tokens(folder), not is_small_100(folder))


def _translates_t5(folder: Path) -> Translates:
    """Returns the pair in the folder's name, if there is one, and the prefixes of the targets.

    In MADLAD-400, a prefix is a token such as `<2pt>`. In T5, it is a text: "translate English to
    German: ", which the config gives for some pairs. A fine-tuned model may have neither.
    """
    pair = pair_in(folder.name)
    found = filter(None, map(TAG.fullmatch, read_ids(folder)))
    codes = {each[1]: each[0] for each in found if is_code(each[1])}
    targets = {tag: codes[code] for code, tag in distinct_tags(codes).items()}
    prompts = _prompts(read_model_options(folder).get("task_specific_params"))
    if pair is not None:
        chosen = choose_target(pair[1], targets) or prompts.get(pair)
        if chosen or not targets:  # madlad400-7b-mt-bt is no pair
            return pair, LanguageTokens({pair[0]: ""}, {pair[1]: chosen}) if chosen else None
    sources = [*targets] or [*dict.fromkeys(source for source, _ in prompts)]
    if not targets and len(sources) == 1:
        targets = {target: prompt for (_, target), prompt in prompts.items()}
    if targets:
        return None, LanguageTokens(dict.fromkeys(sources, ""), targets)
    reason = (
        f"it has no tokens such as <2pt>, and task_specific_params of {CONFIG} do not name one "
        "source language; name the folder after the pair of languages: en-de"
    )
    raise UnsupportedModelError(str(folder), [reason])


def _prompts(tasks: object) -> dict[tuple[str, str], str]:
    named = tasks.items() if isinstance(tasks, dict) else ()
    found = [(TASK.fullmatch(name), task) for name, task in named if isinstance(task, dict)]
    prompts = {pair_of(*pair.groups()): task.get("prefix") for pair, task in found if pair}
    return {pair: prompt for pair, prompt in prompts.items() if pair and isinstance(prompt, str)}


def between(folder: Path, tokens: Iterable[str], begins_target: bool) -> Translates:
    """Returns the pair in the folder's name, if there is one, and the tokens of its languages.

    Without a pair, the model translates between all its languages: `en` has the token `__en__`.
    Some models of mBART-50 translate only from English, or only to English.
    """
    codes = {REGION.sub("", token.strip("_")): token for token in tokens}
    tags = distinct_tags(code for code in codes if is_code(code))
    named = {tag: codes[code] for code, tag in tags.items()}
    found = LanguageTokens(named, named, begins_target)
    english = {tag: token for tag, token in named.items() if tag == "en"}
    if any("one-to-many" in name for name in _titles(folder)):
        return None, replace(found, sources=english)
    if any("many-to-one" in name for name in _titles(folder)):
        return None, replace(found, targets=english)
    pair = pair_in(folder.name)
    return pair, found if pair is None else _only(found, pair, folder)


def _titles(folder: Path) -> tuple[str, str]:
    return title_of(folder), str(read_options_if_there(folder / CONFIG).get("_name_or_path"))


def is_small_100(folder: Path) -> bool:
    kind = read_options_if_there(folder / TOKENIZER_CONFIG).get("tokenizer_class")
    names = str(kind), *_titles(folder)
    return (folder / SMALL_100_CODE).is_file() or any(map(SMALL_100.search, names))


def _only(tokens: LanguageTokens, pair: tuple[str, str], folder: Path) -> LanguageTokens:
    """Returns the tokens of a pair under its own tags: `zh` may replace the model's `zh-Hans`."""
    source, target = (choose_target(tag, tokens.targets) for tag in pair)
    if source is None or target is None:
        known = ", ".join(sorted(tokens.targets))
        raise UnsupportedModelError(str(folder), [f"{pair[0]} or {pair[1]} is not one of {known}"])
    return LanguageTokens({pair[0]: source}, {pair[1]: target}, tokens.begins_target)


def language_tokens(folder: Path) -> list[str]:
    if is_t5_folder(folder):
        return []
    for name in (SPECIAL_TOKENS, TOKENIZER_CONFIG):
        content = read_options_if_there(folder / name)
        for key in LANGUAGE_LISTS:
            tokens = content.get(key)
            if isinstance(tokens, list) and tokens and all(isinstance(t, str) for t in tokens):
                return tokens
    named = read_options_if_there(folder / TOKENIZER_CONFIG).get("language_codes")
    if isinstance(named, str) and named in LANGUAGE_CODES:
        return [f"__{code}__" for code in LANGUAGE_CODES[named]]
    raise CheckpointFormatError(
        f"neither {folder / SPECIAL_TOKENS} nor {TOKENIZER_CONFIG} has a list of the tokens of "
        f"languages, such as {LANGUAGE_LISTS[0]}"
    )


def read_ids(folder: Path) -> dict[str, int]:
    """Maps each piece and each language token to its id; unused ids get names of their own.

    M2M100 numbers its pieces in `vocab.json`. NLLB-200 adds 1 to the ids of the SentencePiece file.
    The ids of the language tokens follow, unless the folder lists other ids. In a fine-tuned
    NLLB-200, for example, an added language comes after `<mask>`. A `tokenizer.json` has all ids,
    and so has T5's SentencePiece file.
    """
    path, vocabulary = pieces_of(folder), folder / VOCAB
    most = MAX_UNUSED_T5 if is_t5_folder(folder) else MAX_UNUSED
    if path.name in (TOKENIZER, T5_PIECES):
        pieces = Tokenizer(path)
        ids = {name: i for i, name in enumerate(pieces.pieces([*range(pieces.vocab_size)]))}
    elif vocabulary.is_file():
        ids = read_vocabulary(vocabulary)
    else:
        pieces = Tokenizer(path)
        names = pieces.pieces(list(range(len(SIGNS) - 1, pieces.vocab_size)))
        ids = {name: number for number, name in enumerate([*SIGNS, *names])}
    listed = added_ids(folder)
    for token in language_tokens(folder):
        ids.setdefault(token, listed.get(token, len(ids)))
    used = set(ids.values())
    end, size = max(used) + 1, read_model_options(folder).get("vocab_size")
    if len(used) < len(ids) or end > len(ids) + most:
        raise CheckpointFormatError(
            f"{folder} gives two tokens the same id, or has more than {most} unused ids; "
            f"check the added tokens in {TOKENIZER_CONFIG} and {ADDED_TOKENS}"
        )
    if type(size) is int and size <= len(ids) + most:
        end = max(end, size)
    unused = [number for number in range(end) if number not in used]
    return {**ids, **{f"<unused {number}>": number for number in unused}}


def added_ids(folder: Path) -> dict[str, int]:
    decoder = read_options_if_there(folder / TOKENIZER_CONFIG).get("added_tokens_decoder", {})
    try:
        ids = {str(token["content"]): int(number) for number, token in decoder.items()}
        older = read_options_if_there(folder / ADDED_TOKENS)
        return ids | {token: int(number) for token, number in older.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointFormatError(
            f"{folder}: the ids of added tokens cannot be read: {error!r}"
        ) from error


def read_multilingual_tokenizer(folder: Path) -> MappedTokenizer:
    ids = read_ids(folder)
    languages = language_tokens(folder)
    special = {i for name, i in ids.items() if name in languages or SPECIAL.fullmatch(name)}
    return MappedTokenizer(pieces_of(folder), ids, special, ids[EOS], ids[UNK])
