"""From a folder or an installed package to the files of a model, and from those to the model."""

import hashlib
import math
import re
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

import yaml

from model.config import ModelConfig
from model.errors import CheckpointError, CheckpointFormatError, CheckpointNotFoundError
from model.tokenization import Tokenizer

PACKAGE = "package:"
# model.enpt.intgemm.alphas.bin: two languages of two letters, or of three
LANGUAGES = re.compile(r"^model\.([a-z]{2})([a-z]{2})\.|^model\.([a-z]{3})([a-z]{3})\.")
MARIAN_MAX_LENGTH_FACTOR = 3.0


@dataclass(frozen=True)
class ModelFiles:
    """Where the parts of one translation model lie.

    Attributes:
        source: Language code of what it reads.
        target: Language code of what it writes.
        weights: The `.bin` file.
        source_vocab: A `.spm` file.
        target_vocab: The same file where the vocabulary is shared.
        shortlist: The lexical shortlist, if there is one.
        max_length_factor: From the settings beside the weights.
    """

    source: str
    target: str
    weights: Path
    source_vocab: Path
    target_vocab: Path
    shortlist: Path | None
    max_length_factor: float

    @property
    def name(self) -> str:
        """What the model is called: `en-pt`."""
        return f"{self.source}-{self.target}"

    @property
    def has_shared_vocab(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source_vocab == self.target_vocab

    @cached_property
    def revision(self) -> str:
        """The first 12 digits of the sha256 sum of the weights."""
        return hashlib.sha256(self.weights.read_bytes()).hexdigest()[:12]


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
            f"{reference} holds no model: no file named model.*.bin was found in it"
        )
    return [read_folder(folder) for folder in folders]


def _package_folders(name: str) -> list[Path]:
    try:
        files = metadata.files(name) or []
    except (metadata.PackageNotFoundError, ValueError) as error:  # ValueError: no name at all
        raise CheckpointNotFoundError(
            f"the package {name} is not installed; install it, or name a folder"
        ) from error
    found = {Path(str(f.locate())).parent for f in files if f.match("model.*.bin")}
    return sorted(found)


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        raise CheckpointNotFoundError(f"{root} is not a folder")
    return sorted({path.parent for path in root.rglob("model.*.bin")})


def read_folder(folder: Path) -> ModelFiles:
    """The one model in a folder laid out as Firefox/Bergamot models are.

    Raises:
        CheckpointFormatError: With every part that is missing or there twice.
    """
    reasons = []

    def one(pattern: str, is_needed: bool = True) -> Path | None:
        found = sorted(folder.glob(pattern))
        if len(found) > 1 or (is_needed and not found):
            reasons.append(f"{len(found)} files {pattern}")
        return found[0] if found else None

    weights = one("model.*.bin")
    is_split = any(folder.glob("srcvocab.*.spm"))
    source_vocab = one("srcvocab.*.spm" if is_split else "vocab.*.spm")
    target_vocab = one("trgvocab.*.spm") if is_split else source_vocab
    shortlist = one("lex.*.bin", is_needed=False)
    languages = LANGUAGES.match(weights.name) if weights else None
    if weights and not languages:
        reasons.append(f"{weights.name} does not name its languages as model.XXYY.*.bin does")
    if reasons or not (weights and source_vocab and target_vocab and languages):
        raise CheckpointFormatError(f"{folder} is not one model: " + "; ".join(reasons))
    source, target = (code for code in languages.groups() if code)
    return ModelFiles(
        source, target, weights, source_vocab, target_vocab, shortlist, _length_factor(folder)
    )


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


def load_vocabularies(files: ModelFiles) -> Vocabularies:
    """Both tokenizers.

    Raises:
        CheckpointFormatError: A file is damaged.
    """
    source = Tokenizer(files.source_vocab)
    target = source if files.has_shared_vocab else Tokenizer(files.target_vocab)
    return Vocabularies(source, target)


def check_vocabularies(config: ModelConfig, vocabularies: Vocabularies, name: str) -> None:
    """Compares the sizes in the weights with those of the tokenizers.

    Raises:
        CheckpointError: They differ.
    """
    sizes = vocabularies.source.vocab_size, vocabularies.target.vocab_size
    if sizes != (config.source_vocab_size, config.target_vocab_size):
        raise CheckpointError(
            f"{name}: the vocabularies have {sizes[0]} and {sizes[1]} ids; the weights are for "
            f"{config.source_vocab_size} and {config.target_vocab_size}"
        )
