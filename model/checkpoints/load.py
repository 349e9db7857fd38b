"""From a folder or an installed package to the files of a model, and from those to the model."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path

import yaml

from model.checkpoints.families import multilingual_folder
from model.checkpoints.families.hf_config import (
    CONFIG,
    FAMILIES,
    MAX_LENGTH_FACTOR,
    read_model_options,
)
from model.checkpoints.families.multilingual_folder import is_multilingual_folder, read_multilingual
from model.checkpoints.families.opus_folder import (
    SOURCE_PIECES,
    is_translation_model,
    read_opus,
    read_parts,
    read_tokenizer,
)
from model.checkpoints.formats.weight_files import revision_of, weight_files
from model.checkpoints.languages import LanguageTokens, pair_in
from model.config import ModelConfig
from model.errors import CheckpointError, CheckpointFormatError, CheckpointNotFoundError
from model.tokenization.tokenizer import Tokenizer

PACKAGE = "package:"
# model.enpt.intgemm.alphas.bin: two languages of two letters, or of three
LANGUAGES = re.compile(r"^model\.([a-z]{2})([a-z]{2})\.|^model\.([a-z]{3})([a-z]{3})\.")
MARIAN_MAX_LENGTH_FACTOR = 3.0
MARIAN_WEIGHTS = "model.*.bin"
NPZ = ".npz"
PATTERNS = (MARIAN_WEIGHTS, f"*{NPZ}", CONFIG)
"""Files that tell where models lie."""


@dataclass(frozen=True)
class ModelFiles:
    """Where the parts of one translation model lie.

    Attributes:
        source: Language code of what it reads; empty where that is not one pair.
        target: Language code of what it writes; likewise.
        weights: The file of tensors, or the index of its shards.
        source_vocab: A `.spm` file.
        target_vocab: The same file where the vocabulary is shared.
        shortlist: The lexical shortlist, if there is one.
        max_length_factor: From the settings beside the weights.
        source_ids: The file that numbers the pieces of the source; None where the `.spm` file does
            that too.
        target_ids: The same for the target.
        tokens: What tells a model of several languages which are wanted; None where nothing does.
        title: What a model of more than one pair is called.
        is_marian: Whether tensors have Marian's names, and not Hugging Face's.
        is_multilingual: Whether there is one vocabulary, with a token for each language.
    """

    source: str
    target: str
    weights: Path
    source_vocab: Path
    target_vocab: Path
    shortlist: Path | None
    max_length_factor: float
    source_ids: Path | None = None
    target_ids: Path | None = None
    tokens: LanguageTokens | None = field(default=None, hash=False)
    title: str = ""
    is_marian: bool = True
    is_multilingual: bool = False

    @property
    def name(self) -> str:
        """What the model is called: `en-pt`, or `m2m100_418M`."""
        return f"{self.source}-{self.target}" if self.source else self.title

    @property
    def folder(self) -> Path:
        """Folder of the weights."""
        return self.weights.parent

    @property
    def sources(self) -> list[str]:
        """The languages that it reads."""
        return [self.source] if self.source or self.tokens is None else [*self.tokens.sources]

    @property
    def targets(self) -> list[str]:
        """The languages that it writes."""
        return [self.target] if self.target or self.tokens is None else [*self.tokens.targets]

    @property
    def has_shared_vocab(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source_vocab == self.target_vocab

    @cached_property
    def revision(self) -> str:
        """Which version of the weights."""
        return revision_of(self.weights)

    @property
    def num_bytes(self) -> int:
        """Of the weights."""
        return sum(path.stat().st_size for path in weight_files(self.weights))


def find_models(reference: str) -> list[ModelFiles]:
    """The models behind a reference.

    Args:
        reference: A folder, or `package:NAME` for an installed package that carries models
            (it is not imported). Either may hold several.

    Raises:
        CheckpointNotFoundError: There is no such folder or package, or no model in it.
        CheckpointFormatError: A model lacks a part.
    """
    folders = (
        _package_folders(reference.removeprefix(PACKAGE))
        if reference.startswith(PACKAGE)
        else _folders(Path(reference))
    )
    if not folders:
        raise CheckpointNotFoundError(
            f"{reference} holds no model: no file named {MARIAN_WEIGHTS} was found in it, no "
            f"*{NPZ} beside *.spm, and no {CONFIG} of a model of type {', '.join(FAMILIES)}"
            f"{_other_type(Path(reference) / CONFIG)}"
        )
    return [read_folder(folder) for folder in folders]


def _other_type(config: Path) -> str:
    """What a config is of in place of a model that is served."""
    if not config.is_file():
        return ""
    try:
        kind = read_model_options(config.parent).get("model_type")
    except CheckpointFormatError as error:
        return f"; {error}"
    return f"; {CONFIG} is of a {str(kind)!r} model"


def _package_folders(name: str) -> list[Path]:
    return _model_folders(path for path in installed_files(name) if any(map(path.match, PATTERNS)))


def installed_files(name: str) -> list[Path]:
    """The files of an installed package, which is not imported.

    Raises:
        CheckpointNotFoundError: There is no such package.
    """
    try:
        return [Path(str(file.locate())) for file in metadata.files(name) or []]
    except (metadata.PackageNotFoundError, ValueError) as error:  # ValueError: no name at all
        raise CheckpointNotFoundError(
            f"the package {name} is not installed; install it, or name a folder"
        ) from error


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        raise CheckpointNotFoundError(f"{root} is not a folder")
    return _model_folders(path for pattern in PATTERNS for path in root.rglob(pattern))


def _model_folders(paths: Iterable[Path]) -> list[Path]:
    return sorted({path.parent for path in paths if _tells_of_a_model(path)})


def _tells_of_a_model(path: Path) -> bool:
    """Whether a file of these patterns, which others use too, is of a model that is served."""
    if path.name == CONFIG:
        return is_translation_model(path.parent)
    return path.suffix != NPZ or any(path.parent.glob("*.spm"))


def read_folder(folder: Path) -> ModelFiles:
    """The one model in a folder as Firefox/Bergamot, OPUS-MT or Hugging Face lay them out.

    Raises:
        CheckpointFormatError: With every part that is missing or there twice.
        UnsupportedModelError: Its languages are not said.
    """
    is_npz = any(folder.glob(f"*{NPZ}"))
    is_opus = is_npz and (folder / SOURCE_PIECES).is_file()
    is_hugging_face = not is_npz and (folder / CONFIG).is_file()
    if any(folder.glob(MARIAN_WEIGHTS)) or not (is_opus or is_hugging_face):
        return _read_bergamot(folder)
    is_multilingual = is_hugging_face and is_multilingual_folder(folder)
    read = read_opus if is_opus else read_multilingual if is_multilingual else read_parts
    parts = read(folder)
    source, target = parts.pair or ("", "")
    return ModelFiles(
        source=source,
        target=target,
        weights=parts.weights,
        source_vocab=parts.source_pieces,
        target_vocab=parts.target_pieces,
        shortlist=None,
        max_length_factor=MAX_LENGTH_FACTOR,
        source_ids=parts.source_ids,
        target_ids=parts.target_ids,
        tokens=parts.tokens,
        title=parts.title,
        is_marian=is_opus,
        is_multilingual=is_multilingual,
    )


def _read_bergamot(folder: Path) -> ModelFiles:
    reasons = []
    is_npz = any(folder.glob(f"*{NPZ}")) and not any(folder.glob(MARIAN_WEIGHTS))
    pattern = f"*{NPZ}" if is_npz else MARIAN_WEIGHTS

    def one(pattern: str, is_needed: bool = True) -> Path | None:
        found = sorted(folder.glob(pattern))
        if len(found) > 1 or (is_needed and not found):
            reasons.append(f"{len(found)} files {pattern}")
        return found[0] if found else None

    weights = one(pattern)
    is_split = any(folder.glob("srcvocab.*.spm"))
    source_vocab = one("srcvocab.*.spm" if is_split else "vocab.*.spm")
    target_vocab = one("trgvocab.*.spm") if is_split else source_vocab
    shortlist = one("lex.*.bin", is_needed=False)
    languages = _languages(weights) if weights else None
    if weights and not languages:
        reasons.append(
            f"{weights.name} does not name its languages as model.XXYY.*.bin does, nor does its "
            "folder as en-de"
        )
    if reasons or not (weights and source_vocab and target_vocab and languages):
        raise CheckpointFormatError(f"{folder} is not one model: " + "; ".join(reasons))
    return ModelFiles(
        *languages, weights, source_vocab, target_vocab, shortlist, _length_factor(folder)
    )


def _languages(weights: Path) -> tuple[str, str] | None:
    """Of the file's name; where that has none (`model.npz`, `model.enzh_hant.bin`) the folder's."""
    found = LANGUAGES.match(weights.name)
    if found:
        source, target = (code for code in found.groups() if code)
        return source, target
    return pair_in(weights.parent.name)


def _length_factor(folder: Path) -> float:
    for path in sorted(folder.glob("config*.yml")):
        try:
            options = yaml.safe_load(path.read_text(encoding="utf-8"))
            factor = float(options.get("max-length-factor", MARIAN_MAX_LENGTH_FACTOR))
        except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointFormatError(f"{path.name} is not a settings file: {error}") from error
        if not 0 < factor < math.inf:
            raise CheckpointFormatError(f"{path.name}: max-length-factor {factor} is no length")
        return factor
    return MARIAN_MAX_LENGTH_FACTOR


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """The two tokenizers of a model; one object where the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    def between(self, tokens: LanguageTokens, source: str, target: str) -> "Vocabularies":
        """The same for one pair of a model's languages, whose tokens they put before texts."""
        return Vocabularies(
            self.source.before(tokens.before_source(source, target)),
            self.target.before(tokens.before_target(target)),
        )

    @property
    def first_id(self) -> int | None:
        """What every target begins with; None where that is free."""
        return self.target.prefix[0] if self.target.prefix else None


def load_vocabularies(files: ModelFiles) -> Vocabularies:
    """Both tokenizers; of a model of more than one pair, those of no pair yet.

    Raises:
        CheckpointFormatError: A file is damaged.
    """
    found = _read_vocabularies(files)
    if files.tokens is None or not files.source:
        return found
    return found.between(files.tokens, files.source, files.target)


def _read_vocabularies(files: ModelFiles) -> Vocabularies:
    if files.is_multilingual:
        tokenizer = multilingual_folder.read_tokenizer(files.weights.parent)
        return Vocabularies(tokenizer, tokenizer)
    if files.source_ids is not None and files.target_ids is not None:
        return Vocabularies(
            read_tokenizer(files.source_vocab, files.source_ids),
            read_tokenizer(files.target_vocab, files.target_ids),
        )
    source = Tokenizer(files.source_vocab)
    target = source if files.has_shared_vocab else Tokenizer(files.target_vocab)
    return Vocabularies(source, target)


def check_vocabularies(config: ModelConfig, vocabularies: Vocabularies, files: ModelFiles) -> None:
    """Compares the sizes in the weights, and the end of a text, with those of the tokenizers.

    Raises:
        CheckpointError: They differ.
    """
    sizes = vocabularies.source.vocab_size, vocabularies.target.vocab_size
    if sizes != (config.source_vocab_size, config.target_vocab_size):
        raise CheckpointError(
            f"{files.name}: the vocabularies have {sizes[0]} and {sizes[1]} ids; "
            f"the weights are for {config.source_vocab_size} and {config.target_vocab_size} "
            f"({', '.join([*_vocabulary_names(files), files.weights.name])})"
        )
    ends = vocabularies.source.eos_id, vocabularies.target.eos_id
    if set(ends) != {config.eos_id}:
        raise CheckpointError(
            f"{files.name}: texts end in {ends[0]} and {ends[1]} by the vocabularies; "
            f"in {config.eos_id} by the config ({', '.join(_vocabulary_names(files))})"
        )


def _vocabulary_names(files: ModelFiles) -> list[str]:
    """The files that say how many ids there are."""
    sides = (files.source_ids, files.source_vocab), (files.target_ids, files.target_vocab)
    paths = (ids if ids and ids.is_file() else vocab for ids, vocab in sides)
    return list(dict.fromkeys(path.name for path in paths))
