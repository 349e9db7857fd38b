"""Finds translation models in folders and packages, and loads their vocabularies."""

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from pathlib import Path

from model.checkpoints.families import ctranslate2_folder
from model.checkpoints.families.hf_config import CONFIG, MODEL_TYPES, read_model_options
from model.checkpoints.families.translation_folder import (
    SOURCE_PIECES,
    find_multilingual_parts,
    find_parts,
    is_multilingual_folder,
    is_trained_npz,
    is_translation_model,
    read_multilingual_tokenizer,
    read_tokenizer,
    trained_npz,
    translates,
    translates_many,
)
from model.checkpoints.folders import PACKAGE, files_of, package_titles, title_of
from model.checkpoints.formats.files import (
    WEIGHTS,
    YAML_ERRORS,
    check_pointers,
    load_yaml,
    read_options,
    revision_of,
    weight_files,
)
from model.checkpoints.languages import LanguageTokens, pair_in
from model.config import MAX_LENGTH_FACTOR, ModelConfig
from model.errors import CheckpointError, CheckpointFormatError, CheckpointNotFoundError
from model.regular_files import check_file
from model.tokenization.tokenizer import Tokenizer

# Matches file names with two codes of two letters each, or of three letters each. An example is
# model.enpt.intgemm.alphas.bin.
LANGUAGES = re.compile(r"^model\.([a-z]{2})([a-z]{2})\.|^model\.([a-z]{3})([a-z]{3})\.")

LARGEST_LENGTH_FACTOR = 100.0
"""A larger one would need position tables of several gigabytes."""

MARIAN_WEIGHTS = "model.*.bin"
NPZ = ".npz"

TRANSLATORS = ("bart", "mbart", "umt5", "fsmt", "pegasus", "blenderbot")
"""Values of `model_type` of translation models that are not served."""


class Format(Enum):
    BERGAMOT = auto()  # Firefox's and other models of Marian, with vocabularies of SentencePiece
    OPUS = auto()  # OPUS-MT as Marian trained it, with a vocabulary in YAML
    MARIAN_MT = auto()  # OPUS-MT in the format of Hugging Face, as the next
    MULTILINGUAL = auto()  # M2M100, NLLB-200, T5 and others: one vocabulary serves all languages
    CTRANSLATE2 = auto()


@dataclass(frozen=True)
class ModelFiles:
    """The files of one translation model."""

    source: str  # language code; empty for a model of more than one pair, as `target`
    target: str
    weights: Path  # the tensors, or the index if they are in shards
    source_vocab: Path  # a SentencePiece file; it may also be `target_vocab`
    target_vocab: Path
    shortlist: Path | None = None
    max_length_factor: float = MAX_LENGTH_FACTOR  # maximum ratio of target to source tokens
    # The file with the ids of the source's pieces; None if `source_vocab` has them. The file of a
    # multilingual model may be missing.
    source_ids: Path | None = None
    target_ids: Path | None = None
    tokens: LanguageTokens | None = field(default=None, hash=False)
    title: str = ""  # used if the model has more than one pair
    format: Format = Format.BERGAMOT

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}" if self.source else self.title

    @property
    def folder(self) -> Path:
        return self.weights.parent

    @property
    def sources(self) -> list[str]:
        return [self.source] if self.source or self.tokens is None else [*self.tokens.sources]

    @property
    def targets(self) -> list[str]:
        return [self.target] if self.target or self.tokens is None else [*self.tokens.targets]

    @property
    def has_shared_vocab(self) -> bool:
        return self.source_vocab == self.target_vocab

    @cached_property
    def revision(self) -> str:
        return revision_of(self.weights)

    @property
    def num_bytes(self) -> int:
        return sum(path.stat().st_size for path in weight_files(self.weights))


def find_models(reference: str) -> list[ModelFiles]:
    """Returns the translation models in a folder, or in a package (`package:NAME`)."""
    folders = sorted(filter(format_of, {path.parent for path in files_of(reference)}))
    if not folders:
        reason = (
            f"{reference} holds no model: it has no file {MARIAN_WEIGHTS}, no *{NPZ} in a folder "
            f"with *.spm, no {CONFIG} with the model_type {' or '.join(MODEL_TYPES)}, and no "
            f"{ctranslate2_folder.WEIGHTS} with *vocabulary.json"
            f"{_other_type(Path(reference) / CONFIG)}"
        )
        raise CheckpointNotFoundError(reason + _advice(Path(reference)))
    found = [read_folder(folder) for folder in folders]
    if not reference.startswith(PACKAGE):
        return found
    titles = package_titles(reference, folders)
    return [replace(files, title=title) for files, title in zip(found, titles, strict=True)]


def format_of(folder: Path) -> Format | None:
    """Returns the format of the translation model in a folder, or None if there is no model."""
    if ctranslate2_folder.is_converted(folder):
        return Format.CTRANSLATE2
    if any(folder.glob(MARIAN_WEIGHTS)):
        return Format.BERGAMOT
    is_hugging_face = (folder / CONFIG).is_file() and is_translation_model(folder)
    # Other software also writes *.npz. Such a file may lie beside a complete model.
    is_complete = is_hugging_face and any((folder / name).is_file() for name in WEIGHTS)
    if not is_complete and trained_npz(folder) and any(folder.glob("*.spm")):
        return Format.OPUS if (folder / SOURCE_PIECES).is_file() else Format.BERGAMOT
    if not is_hugging_face:
        return None
    return Format.MULTILINGUAL if is_multilingual_folder(folder) else Format.MARIAN_MT


def _other_type(config: Path) -> str:
    if not config.is_file():
        return ""
    try:
        kind = read_model_options(config.parent).get("model_type")
    except CheckpointFormatError as error:
        return f"; {error}"
    return f"; its {CONFIG} has the model_type {str(kind)!r}"


def _advice(folder: Path) -> str:
    compressed = sorted(path.name for path in folder.glob("*.gz"))
    if compressed:
        return f". {', '.join(compressed)} must be unpacked: `gunzip {folder}/*.gz`"
    with suppress(CheckpointError):
        if read_options(folder / CONFIG).get("model_type") in TRANSLATORS:
            return (
                ". The served translation models are Marian's (Firefox, OPUS-MT), M2M100, "
                "NLLB-200, SMaLL-100, T5, mT5 and MADLAD-400. Take for example "
                "Helsinki-NLP/opus-mt-en-de or facebook/nllb-200-distilled-600M"
            )
    return ""


def read_folder(folder: Path) -> ModelFiles:
    """Returns the one model in a folder of Firefox/Bergamot, OPUS-MT, Hugging Face, CTranslate2."""
    kind = format_of(folder)
    if kind is None or kind is Format.BERGAMOT:
        return _read_bergamot(folder)
    if kind is Format.CTRANSLATE2:
        parts = ctranslate2_folder.find_parts(folder)
        pair, tokens = ctranslate2_folder.translates(folder, parts[3])
    elif kind is Format.MULTILINGUAL:
        parts = find_multilingual_parts(folder)
        pair, tokens = translates_many(folder)
    else:
        parts = find_parts(folder, kind is Format.OPUS)
        pair, tokens = translates(folder, parts[3])
    check_pointers(parts)
    return ModelFiles(
        *(pair or ("", "")),
        *(parts[0], parts[1], parts[2]),
        source_ids=parts[3],
        target_ids=parts[-1],
        tokens=tokens,
        title=title_of(folder),
        format=kind,
    )


def _read_bergamot(folder: Path) -> ModelFiles:
    reasons = []
    is_npz = bool(trained_npz(folder)) and not any(folder.glob(MARIAN_WEIGHTS))

    def one(pattern: str, is_needed: bool = True) -> Path | None:
        found = [path for path in sorted(folder.glob(pattern)) if is_trained_npz(path)]
        if len(found) > 1 or (is_needed and not found):
            reasons.append(f"{len(found)} files {pattern}")
        return found[0] if found else None

    weights = one(f"*{NPZ}" if is_npz else MARIAN_WEIGHTS)
    is_split = any(folder.glob("srcvocab.*.spm"))
    source_vocab = one("srcvocab.*.spm" if is_split else "vocab*.spm")
    target_vocab = one("trgvocab.*.spm") if is_split else source_vocab
    shortlist = one("lex.*.bin", is_needed=False)
    languages = _languages(weights) if weights else None
    if weights and not languages:
        reasons.append(
            f"neither the file name {weights.name} nor the name of its folder gives the languages, "
            "as model.XXYY.*.bin or en-de does"
        )
    if reasons or not (weights and source_vocab and target_vocab and languages):
        reason = f"{folder} is not one model: " + "; ".join(reasons)
        raise CheckpointFormatError(reason + _advice(folder))
    check_pointers([weights, source_vocab, target_vocab, *([shortlist] if shortlist else [])])
    return ModelFiles(
        *languages, weights, source_vocab, target_vocab, shortlist, _length_factor(folder)
    )


def _languages(weights: Path) -> tuple[str, str] | None:
    found = LANGUAGES.match(weights.name)
    if found:
        source, target = (code for code in found.groups() if code)
        return source, target
    return pair_in(weights.parent.name)


def _length_factor(folder: Path) -> float:
    for path in sorted(folder.glob("config*.yml")):
        try:
            check_file(path)
            options = load_yaml(path.read_text(encoding="utf-8"))
            factor = float(options.get("max-length-factor", MAX_LENGTH_FACTOR))
        except (OSError, OverflowError, TypeError, *YAML_ERRORS) as error:
            raise CheckpointFormatError(f"{path.name} is not a settings file: {error}") from error
        if not 0 < factor <= LARGEST_LENGTH_FACTOR:
            raise CheckpointFormatError(
                f"{path.name}: max-length-factor {factor} is not above 0 and at most "
                f"{LARGEST_LENGTH_FACTOR:g}"
            )
        return factor
    return MAX_LENGTH_FACTOR


@dataclass(frozen=True, slots=True)
class Vocabularies:
    source: Tokenizer
    target: Tokenizer

    def between(self, tokens: LanguageTokens, source: str, target: str) -> "Vocabularies":
        """Returns the tokenizers of a pair; they put the pair's language tokens before texts."""
        return Vocabularies(
            self.source.before(tokens.before_source(source, target)),
            self.target.before(tokens.before_target(target)),
        )

    @property
    def first_id(self) -> int | None:
        return self.target.prefix[0] if self.target.prefix else None


def load_vocabularies(files: ModelFiles) -> Vocabularies:
    # For a model of several pairs, `between` of the result gives the tokenizers of one pair.
    source: Tokenizer
    target: Tokenizer
    if files.format is Format.MULTILINGUAL:
        source = target = read_multilingual_tokenizer(files.folder)
    elif files.source_ids is None or files.target_ids is None:
        source = Tokenizer(files.source_vocab)
        target = source if files.has_shared_vocab else Tokenizer(files.target_vocab)
    else:
        is_converted = files.format is Format.CTRANSLATE2
        hidden = ctranslate2_folder.HIDDEN if is_converted else None
        source = read_tokenizer(files.source_vocab, files.source_ids, hidden)
        target = read_tokenizer(files.target_vocab, files.target_ids, hidden)
        if is_converted and not ctranslate2_folder.ends_sources(files.weights):
            source.source_end = []
    found = Vocabularies(source, target)
    if files.tokens is None or not files.source:
        return found
    return found.between(files.tokens, files.source, files.target)


def check_vocabularies(config: ModelConfig, vocabularies: Vocabularies, files: ModelFiles) -> None:
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
            f"{files.name}: the EOS ids are {ends[0]} and {ends[1]} in the vocabularies, "
            f"and {config.eos_id} in the config ({', '.join(_vocabulary_names(files))})"
        )


def _vocabulary_names(files: ModelFiles) -> list[str]:
    sides = (files.source_ids, files.source_vocab), (files.target_ids, files.target_vocab)
    paths = (ids if ids and ids.is_file() else vocab for ids, vocab in sides)
    return list(dict.fromkeys(path.name for path in paths))
