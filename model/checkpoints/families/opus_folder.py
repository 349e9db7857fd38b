"""Reads the languages and vocabularies of OPUS-MT (Hugging Face or Marian), without torch."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from model.checkpoints.families.hf_config import CONFIG, MODEL_TYPES, read_model_options
from model.checkpoints.folders import name_of
from model.checkpoints.formats.files import (
    YAML_ERRORS,
    find_weights,
    read_json,
    read_options_if_there,
)
from model.checkpoints.languages import (
    LanguageTokens,
    Sides,
    choose_target,
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

EOS, PAD, UNK = "</s>", "<pad>", "<unk>"
SPECIAL = (EOS, PAD, "<s>", "<blank>")


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


def translates(folder: Path, ids: Path) -> tuple[tuple[str, str] | None, LanguageTokens | None]:
    """Returns the pair that a model translates, and the model's language tokens.

    The pair is None if the model has several pairs. The tokens are None if the model has one pair
    and no language tokens. `ids` is the vocabulary.
    """
    tokens = target_languages(read_vocabulary(ids))
    for sources, target in _names(folder):
        if not (sources and (tokens or target)):
            continue
        targets = {tag: token for token, tag in tokens.items()}
        if target:
            targets = {target: _token_of(folder, target, tokens)}
        named = LanguageTokens(dict.fromkeys(sources, ""), targets)
        if target and len(sources) == 1:
            return (sources[0], target), named if targets[target] else None
        return None, named
    reason = (
        f"neither the folder's name nor {TOKENIZER_CONFIG} nor {CONFIG} names the "
        "languages; name the folder after them: en-de, or en-mul for all target languages"
    )
    known = f"; its target languages are {_listed(tokens)}" if tokens else ""
    raise UnsupportedModelError(str(folder), [reason + known])


def _token_of(folder: Path, target: str, tokens: Mapping[str, str]) -> str:
    token = choose_target(target, tokens)
    if tokens and token is None:
        raise UnsupportedModelError(str(folder), [f"{target} is not one of {_listed(tokens)}"])
    return token or ""


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


def _listed(tokens: Mapping[str, str]) -> str:
    return ", ".join(sorted(tokens.values()))


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
    more = [piece for piece in ids if hidden.fullmatch(piece)] if hidden else []
    special = {ids[each] for each in (*SPECIAL, *target_languages(ids), *more) if each in ids}
    return MappedTokenizer(pieces, ids, special, ids[EOS], ids[UNK])
