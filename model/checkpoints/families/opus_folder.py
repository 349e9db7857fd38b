"""Reads the folder of an OPUS-MT model, in the layout of Hugging Face or of Marian.

Does not import torch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from model.checkpoints.families.hf_config import CONFIG, FAMILIES, read_model_options
from model.checkpoints.folder_names import name_of, title_of
from model.checkpoints.formats.json_files import read_options, read_options_if_there
from model.checkpoints.formats.weight_files import find_weights
from model.checkpoints.formats.yaml_text import YAML_ERRORS
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
from model.tokenization.mapped import MappedTokenizer

TOKENIZER_CONFIG = "tokenizer_config.json"
VOCAB = "vocab.json"
TARGET_VOCAB = "target_vocab.json"
PIECES = "sentencepiece.bpe.model"
SOURCE_PIECES = "source.spm"
TARGET_PIECES = "target.spm"

EOS, PAD, UNK = "</s>", "<pad>", "<unk>"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one model in a folder.

    Attributes:
        pair: BCP 47 tags of source and target; None for a model of more than one pair.
        weights: A file of tensors, or the index of shards.
        source_pieces: The `.spm` file of the source.
        target_pieces: The `.spm` file of the target.
        source_ids: The vocabulary that numbers the source's pieces.
        target_ids: The vocabulary that numbers the target's pieces. It is the same file as
            `source_ids` if the vocabulary is shared.
        tokens: Tokens that name languages to the model; None for a model of one pair without such
            tokens.
        title: Name of the model, which is used if the model has more than one pair.
    """

    pair: tuple[str, str] | None
    weights: Path
    source_pieces: Path
    target_pieces: Path
    source_ids: Path
    target_ids: Path
    tokens: LanguageTokens | None
    title: str


def is_translation_model(folder: Path) -> bool:
    """Returns whether a folder holds a model of a served family.

    If the config cannot be read, the names of the SentencePiece files decide.
    """
    try:
        return str(read_model_options(folder).get("model_type")) in FAMILIES
    except CheckpointError:
        return any((folder / name).is_file() for name in (SOURCE_PIECES, PIECES))


def read_parts(folder: Path) -> Parts:
    """Returns the parts of the one model in a Hugging Face folder.

    Raises:
        CheckpointFormatError: A part is missing or damaged.
        UnsupportedModelError: Neither the folder's name nor a config file names the languages of
            the model, or the vocabulary has no token for the named target language.
    """
    options = read_model_options(folder)
    weights = find_weights(folder, (SOURCE_PIECES, TARGET_PIECES, VOCAB))
    ids = folder / VOCAB
    own_ids = folder / TARGET_VOCAB
    pair, tokens = _translates(folder, options, ids)
    return Parts(
        pair,
        weights,
        folder / SOURCE_PIECES,
        folder / TARGET_PIECES,
        ids,
        own_ids if own_ids.is_file() else ids,
        tokens,
        title_of(folder),
    )


def read_opus(folder: Path) -> Parts:
    """Returns the parts of the one model in a folder that is an unpacked archive of OPUS-MT.

    The parts are an `.npz` file with the weights, `source.spm`, `target.spm`, and a `.vocab.yml`
    with the id of each piece.

    Raises:
        CheckpointFormatError: A part is missing, occurs twice or is damaged.
        UnsupportedModelError: Neither the folder's name nor a config file names the languages of
            the model, or the vocabulary has no token for the named target language.
    """
    needed = ("*.npz", SOURCE_PIECES, TARGET_PIECES, "*vocab.yml")
    found = {pattern: sorted(folder.glob(pattern)) for pattern in needed}
    found["*.npz"] = trained_npz(folder)
    reasons = [f"{len(found[name])} files {name}" for name in needed if len(found[name]) != 1]
    if reasons:
        raise CheckpointFormatError(f"{folder} is not one model: {', '.join(reasons)}")
    weights, source_pieces, target_pieces, ids = (found[name][0] for name in needed)
    pair, tokens = _translates(folder, {}, ids)
    title = title_of(folder)
    return Parts(pair, weights, source_pieces, target_pieces, ids, ids, tokens, title)


def trained_npz(folder: Path) -> list[Path]:
    """Returns the `.npz` files of a folder that hold a model, in the order of their names."""
    return [path for path in sorted(folder.glob("*.npz")) if is_trained_npz(path)]


def is_trained_npz(path: Path) -> bool:
    """Returns whether an `.npz` file may hold a model.

    The result is False for a file of optimizer state, which Marian writes beside a model.

    Source: marian-dev, src/training/training.h; the file is called `model.npz.optimizer.npz`.
    """
    return not path.name.endswith(".optimizer.npz")


def _translates(
    folder: Path, options: Mapping[str, object], ids: Path
) -> tuple[tuple[str, str] | None, LanguageTokens | None]:
    """Returns the pair that a model translates, and the model's language tokens.

    The pair is None if the model has several pairs. The tokens are None if the model has one pair
    and no language tokens.
    """
    tokens = target_languages(read_vocabulary(ids))
    for pair, sides in _names(folder, options):
        if sides is not None and (tokens or sides.target):
            targets = {tag: token for token, tag in tokens.items()}
            if sides.target:
                targets = {sides.target: _token_of(folder, sides.target, tokens)}
            return None, LanguageTokens(dict.fromkeys(sides.sources, ""), targets)
        if pair is not None and sides is None:
            source, target = pair
            token = _token_of(folder, target, tokens)
            return pair, LanguageTokens({source: ""}, {target: token}) if token else None
    reason = (
        f"neither the folder's name nor {TOKENIZER_CONFIG} nor {CONFIG} names the "
        "languages; name the folder after them: en-de, or en-mul for all target languages"
    )
    named = f"; its target languages are {_listed(tokens)}" if tokens else ""
    raise UnsupportedModelError(str(folder), [reason + named])


def _token_of(folder: Path, target: str, tokens: Mapping[str, str]) -> str:
    """Returns the token of a target language; empty if the model has no language tokens."""
    token = choose_target(target, tokens)
    if tokens and token is None:
        raise UnsupportedModelError(str(folder), [f"{target} is not one of {_listed(tokens)}"])
    return token or ""


def _names(
    folder: Path, options: Mapping[str, object]
) -> Iterator[tuple[tuple[str, str] | None, Sides | None]]:
    """Yields the languages that config files and names give.

    Each result has two parts: a pair (one source and one target), and `Sides` (the languages of a
    model of several pairs). One part or both may be None. The caller takes the first usable result.
    The results come in this order:

    1. The pair in the tokenizer's config. This pair comes first, because the end of a folder's name
       can mislead: `opus-mt-en-pt-hf` is a model of `en-pt`, not of `pt-hf`. This pair is skipped
       if the folder's name has the same two languages, because the name may also give the script.
       For example, the name may have `zh_hant` where the config has `zho`.
    2. The languages in the folder's name. A user can rename a folder to choose the languages.
    3. The languages in the tokenizer's config, which may list several source languages, or name a
       family of target languages.
    4. The languages in `_name_or_path` of the config.
    5. The languages in the name `models--OWNER--NAME` two folders above, in the cache of the
       Hugging Face hub.
    """
    own = read_options_if_there(folder / TOKENIZER_CONFIG)
    source, target = own.get("source_lang"), own.get("target_lang")
    pair, named = pair_of(source, target), pair_in(name_of(folder))
    if pair is not None and (named is None or _languages(named) != _languages(pair)):
        yield pair, None
    yield named, sides_in(name_of(folder))
    yield pair, sides_of(source, target)
    for name in (options.get("_name_or_path"), folder.absolute().parent.parent.name):
        yield pair_in(name), sides_in(name)


def _languages(pair: tuple[str, str]) -> list[str]:
    return [tag.partition("-")[0] for tag in pair]


def _listed(tokens: Mapping[str, str]) -> str:
    return ", ".join(sorted(tokens.values()))


def read_vocabulary(path: Path) -> dict[str, int]:
    """Returns the id of each piece.

    Raises:
        CheckpointNotFoundError: There is no such `.json` file.
        CheckpointFormatError: The file is damaged, EOS or UNK is missing, or the ids are not 0, 1,
            2 and so on.
    """
    ids = read_options(path) if path.suffix == ".json" else _read_yaml(path)
    numbers = [number for number in ids.values() if type(number) is int]
    if sorted(numbers) != list(range(len(ids))):
        raise CheckpointFormatError(f"{path} does not number its {len(ids)} pieces from 0 on")
    missing = [sign for sign in (EOS, UNK) if sign not in ids]
    if missing:
        raise CheckpointFormatError(f"{path} has no {', '.join(missing)}")
    return ids


def _read_yaml(path: Path) -> dict[str, int]:
    """Returns the ids of a Marian vocabulary. Keys such as `no` and `1` are read as text."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # in C, 10 times as fast as BaseLoader
    try:
        check_file(path)
        content = yaml.load(path.read_text(encoding="utf-8"), loader)
        return {str(piece): int(number) for piece, number in content.items()}
    except (OSError, TypeError, *YAML_ERRORS) as error:
        raise CheckpointFormatError(f"{path} is not a vocabulary: {error}") from error


def read_tokenizer(pieces: Path, vocabulary: Path) -> MappedTokenizer:
    """Returns the tokenizer of the source or of the target.

    The tokenizer adds no language token; `Tokenizer.before` returns a copy that adds one.

    Args:
        pieces: A `.spm` file.
        vocabulary: The `vocab.json` or `.vocab.yml` with the id of each piece.

    Raises:
        CheckpointFormatError: One of the files is damaged.
    """
    ids = read_vocabulary(vocabulary)
    special = {ids[sign] for sign in (EOS, PAD, *target_languages(ids)) if sign in ids}
    return MappedTokenizer(pieces, ids, special, ids[EOS], ids[UNK])
