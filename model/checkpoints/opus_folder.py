"""The files of an OPUS-MT model, in Hugging Face's layout or its own. Without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from model.checkpoints.hf_config import CONFIG, FAMILIES, read_json, read_options
from model.checkpoints.languages import choose_target, pair_in, pair_of, target_languages
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.mapped_tokenization import MappedTokenizer

TOKENIZER_CONFIG = "tokenizer_config.json"
VOCAB = "vocab.json"
TARGET_VOCAB = "target_vocab.json"
SOURCE_PIECES = "source.spm"
TARGET_PIECES = "target.spm"

WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""The first of these that is there holds the weights."""

EOS, PAD, UNK = "</s>", "<pad>", "<unk>"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a folder holds of one model.

    Attributes:
        source: BCP 47 tag of what it reads.
        target: BCP 47 tag of what it writes.
        weights: A file of tensors, or the index of shards.
        source_pieces: The `.spm` file of the source.
        target_pieces: That of the target.
        source_ids: The vocabulary that numbers the source's pieces.
        target_ids: The same file where the vocabulary is shared.
        target_token: What names the target to the model; empty where nothing does.
        source_token: What names the source to it.
    """

    source: str
    target: str
    weights: Path
    source_pieces: Path
    target_pieces: Path
    source_ids: Path
    target_ids: Path
    target_token: str
    source_token: str = ""


def is_translation_model(folder: Path) -> bool:
    """Whether a folder's config is of a family that is served; false where it cannot tell."""
    try:
        return str(read_options(folder).get("model_type")) in FAMILIES
    except CheckpointFormatError:
        return (folder / SOURCE_PIECES).is_file()


def read_parts(folder: Path) -> Parts:
    """The one model in a folder.

    Raises:
        CheckpointFormatError: A part is not there or damaged.
        UnsupportedModelError: It is not said, or not one, which languages it translates.
    """
    options = read_options(folder)
    weights = find_weights(folder, (SOURCE_PIECES, TARGET_PIECES, VOCAB))
    ids = folder / VOCAB
    own_ids = folder / TARGET_VOCAB
    source, target, token = _translates(folder, options, ids)
    return Parts(
        source,
        target,
        weights,
        folder / SOURCE_PIECES,
        folder / TARGET_PIECES,
        ids,
        own_ids if own_ids.is_file() else ids,
        token,
    )


def find_weights(folder: Path, others: Sequence[str]) -> Path:
    """The file of tensors, or the index of its shards, where the other files are there too.

    Raises:
        CheckpointFormatError: With every file that is not there.
    """
    weights = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    missing = [name for name in others if not (folder / name).is_file()]
    if weights is None:
        missing.append(" or ".join(WEIGHTS))
    if missing or weights is None:
        raise CheckpointFormatError(f"{folder} is not one model, without {', '.join(missing)}")
    return weights


def read_opus(folder: Path) -> Parts:
    """The one model in a folder as OPUS-MT publishes what Marian trained.

    That is an `.npz` file, `source.spm`, `target.spm`, and a `.vocab.yml` that numbers pieces.

    Raises:
        CheckpointFormatError: A part is not there, there twice or damaged.
        UnsupportedModelError: It is not said, or not one, which languages it translates.
    """
    needed = ("*.npz", SOURCE_PIECES, TARGET_PIECES, "*vocab.yml")
    found = {pattern: sorted(folder.glob(pattern)) for pattern in needed}
    reasons = [f"{len(found[name])} files {name}" for name in needed if len(found[name]) != 1]
    if reasons:
        raise CheckpointFormatError(f"{folder} is not one model: {', '.join(reasons)}")
    weights, source_pieces, target_pieces, ids = (found[name][0] for name in needed)
    source, target, token = _translates(folder, {}, ids)
    return Parts(source, target, weights, source_pieces, target_pieces, ids, ids, token)


def _translates(folder: Path, options: Mapping[str, object], ids: Path) -> tuple[str, str, str]:
    """Source, target, and the token that names it to the model, if there is one."""
    tokens = target_languages(read_vocabulary(ids))
    source, target = find_languages(folder, options, tokens)
    token = choose_target(target, tokens)
    if tokens and token is None:
        raise UnsupportedModelError(str(folder), [f"{target} is none of {_listed(tokens)}"])
    return source, target, token or ""


def find_languages(
    folder: Path, options: Mapping[str, object], tokens: Mapping[str, str]
) -> tuple[str, str]:
    """The tags of source and target: what a person can change, the folder's name, goes first.

    Args:
        folder: Where the model lies.
        options: Of its config.
        tokens: Its targets by the tokens that name them, for the message.

    Raises:
        UnsupportedModelError: Nothing names one pair.
    """
    path = folder / TOKENIZER_CONFIG
    own = read_json(path) if path.is_file() else {}
    found = (
        pair_in(folder.resolve().name if folder.name in ("", "..") else folder.name)
        or pair_of(own.get("source_lang"), own.get("target_lang"))
        or pair_in(options.get("_name_or_path"))
        or pair_in(folder.absolute().parent.parent.name)  # models--OWNER--NAME/snapshots/REVISION
    )
    if found is None:
        reason = (
            f"neither the folder's name nor {TOKENIZER_CONFIG} nor {CONFIG} names one pair of "
            "languages; name the folder after it, as en-de"
        )
        named = f"; its targets are {_listed(tokens)}" if tokens else ""
        raise UnsupportedModelError(str(folder), [reason + named])
    return found


def _listed(tokens: Mapping[str, str]) -> str:
    return ", ".join(sorted(tokens.values()))


def read_vocabulary(path: Path) -> dict[str, int]:
    """The id of each piece.

    Raises:
        CheckpointFormatError: It is damaged: ids are not 0, 1, 2 ..., or a sign is not there.
    """
    ids = read_json(path) if path.suffix == ".json" else _read_yaml(path)
    numbers = [number for number in ids.values() if type(number) is int]
    if sorted(numbers) != list(range(len(ids))):
        raise CheckpointFormatError(f"{path} does not number its {len(ids)} pieces from 0 on")
    missing = [sign for sign in (EOS, UNK) if sign not in ids]
    if missing:
        raise CheckpointFormatError(f"{path} has no {', '.join(missing)}")
    return ids


def _read_yaml(path: Path) -> dict[str, int]:
    """A mapping whose keys are text, whatever they look like (`no`, `1`): Marian's vocabularies."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the one in C is 10 times as fast
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), loader)
        return {str(piece): int(number) for piece, number in content.items()}
    except (OSError, yaml.YAMLError, ValueError, AttributeError, TypeError) as error:
        raise CheckpointFormatError(f"{path} is not a vocabulary: {error}") from error


def read_tokenizer(pieces: Path, vocabulary: Path, target_token: str = "") -> MappedTokenizer:
    """The tokenizer of one side.

    Args:
        pieces: A `.spm` file.
        vocabulary: The `vocab.json` that numbers its pieces.
        target_token: Put before every text; empty for none.

    Raises:
        CheckpointFormatError: One of them is damaged.
    """
    ids = read_vocabulary(vocabulary)
    special = {ids[sign] for sign in (EOS, PAD, *target_languages(ids)) if sign in ids}
    prefix = [ids[target_token]] if target_token else []
    return MappedTokenizer(pieces, ids, special, ids[EOS], ids[UNK], prefix)
