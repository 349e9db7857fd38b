"""Reads the languages and vocabularies of CTranslate2 folders and Argos packages, without torch.

Source: OpenNMT/CTranslate2, src/models/sequence_to_sequence.cc (vocabularies and options);
argosopentech/argos-translate, argostranslate/package.py (packages). No code was copied.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.checkpoints.families import multilingual_folder, opus_folder
from model.checkpoints.families.hf_config import CONFIG, LAYER_NORM_EPS
from model.checkpoints.folders import title_of
from model.checkpoints.formats import files
from model.checkpoints.formats.ctranslate2 import CTranslate2File
from model.checkpoints.languages import LanguageTokens, pair_of
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.tokenization.tokenizer import MappedTokenizer

WEIGHTS = "model.bin"
METADATA = "metadata.json"
SPEC = "TransformerSpec"

VOCABULARY = "{}_vocabulary"
SUFFIXES = (".json", ".txt")

# Matches the tokens of languages of M2M100 and SMaLL-100, and of NLLB-200.
LANGUAGE = re.compile(r"__[a-z]{2,3}__|[a-z]{3}_[A-Z][a-z]{3}")
HIDDEN = re.compile(rf"{LANGUAGE.pattern}|madeupword\d+|<mask>")

ARGOS_CODES = {"zt": "zh_Hant", "pb": "pt_BR"}
"""Codes of Argos that are no language codes."""

# Options of `config.json`, with the defaults of files before version 6, whose flags have other
# names: `with_source_eos`.
START, END = "<s>", opus_folder.EOS
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "unk_token": (opus_folder.UNK,),
    "eos_token": (END,),
    "add_source_bos": (False,),
    "multi_query_attention": (False,),
    "quantization_type": (None,),
}


def is_converted(folder: Path) -> bool:
    return (folder / WEIGHTS).is_file() and any(
        path.suffix in SUFFIXES for path in folder.glob("*vocabulary.*")
    )


def is_package(folder: Path) -> bool:
    """Returns whether a folder of weights is `model/` of an Argos package."""
    return (folder.parent / METADATA).is_file()


def find_parts(folder: Path) -> list[Path]:
    """Returns weights, source pieces, target pieces, source vocabulary and target vocabulary."""
    vocabularies = [_vocabulary(folder, side) for side in ("source", "target")]
    places = (folder, folder.parent) if is_package(folder) else (folder,)
    found = [path for place in places for path in _pieces(place)]
    named = {path.name: path for path in found}
    ends = opus_folder.SOURCE_PIECES, opus_folder.TARGET_PIECES
    pieces = [named[end] for end in ends] if set(ends) <= named.keys() else found * 2
    if len(pieces) != 2:
        reason = f"it has {len(found)} SentencePiece files (*.spm or *.model), and not one, or two"
        if any((place / "bpe.model").is_file() for place in places):
            reason = (
                "its text is split by bpe.model, and only SentencePiece is supported; "
                "use a newer package of the pair, or its OPUS-MT model"
            )
        raise CheckpointFormatError(f"{folder} cannot be served: {reason}")
    return [folder / WEIGHTS, *pieces, *vocabularies]


def _pieces(folder: Path) -> list[Path]:
    found = sorted([*folder.glob("*.spm"), *folder.glob("*.model")])
    return [path for path in found if path.name != "bpe.model"]


def _vocabulary(folder: Path, side: str) -> Path:
    names = [VOCABULARY.format(each) + suffix for each in ("shared", side) for suffix in SUFFIXES]
    paths = [folder / name for name in names if (folder / name).is_file()]
    if not paths:
        raise CheckpointFormatError(f"{folder} is not a complete model: it has no {names[0]}")
    return paths[0]


def translates(folder: Path, ids: Path) -> tuple[tuple[str, str] | None, LanguageTokens | None]:
    """Returns the pair that a model translates, and its language tokens, as in `opus_folder`."""
    vocabulary = opus_folder.read_vocabulary(ids)
    if is_package(folder):
        return _package_pair(folder.parent / METADATA, vocabulary)
    tokens = [piece for piece in vocabulary if LANGUAGE.fullmatch(piece)]
    if tokens:
        is_small = multilingual_folder.SMALL_100.search(title_of(folder)) is not None
        return multilingual_folder.between(folder, tokens, begins_target=not is_small)
    return opus_folder.translates(folder, ids)


def _package_pair(
    path: Path, vocabulary: Mapping[str, int]
) -> tuple[tuple[str, str], LanguageTokens | None]:
    """Returns the pair of an Argos package, and the token that its targets begin with, if any."""
    options = files.read_options(path)
    codes = [str(options.get(f"{end}_code")) for end in ("from", "to")]
    pair = pair_of(*(ARGOS_CODES.get(code, code) for code in codes))
    token = options.get("target_prefix") or ""
    if pair is None or (token and token not in vocabulary):
        names = {name: options.get(name) for name in ("from_code", "to_code", "target_prefix")}
        raise UnsupportedModelError(str(path), [f"{names} are no languages of the model"])
    source, target = pair
    tokens = LanguageTokens({source: ""}, {target: token}, begins_target=True) if token else None
    return pair, tokens


def read_options(file: CTranslate2File) -> dict[str, Any]:
    """Returns the options of `config.json`; before binary version 6, those in the weights.

    Raises:
        UnsupportedModelError: The file is no encoder-decoder Transformer, or an option has a value
            that is not implemented.
    """
    path = file.path.parent / CONFIG
    if not file.spec.startswith(SPEC.removesuffix("Spec")) or "Decoder" in file.spec:
        reason = f"its specification is {file.spec!r}, supported: {SPEC!r}, a translation model"
        raise UnsupportedModelError(str(file.path), [reason])
    found: dict[str, Any] = {
        "add_source_eos": file.scalar("with_source_eos", 0) != 0,
        "add_source_bos": file.scalar("with_source_bos", 0) != 0,
        "decoder_start_token": START if file.scalar("with_target_bos", 1) else END,
        **files.read_options_if_there(path),
    }
    files.check_options(path, found, SUPPORTED)
    eps = found.get("layer_norm_epsilon") or LAYER_NORM_EPS
    if not isinstance(eps, float) or not 0 < eps < 1:
        raise UnsupportedModelError(str(path), [f"layer_norm_epsilon is {eps!r}"])
    return {**found, "layer_norm_epsilon": eps}


def read_tokenizers(folder: Path) -> tuple[MappedTokenizer, MappedTokenizer]:
    """Returns the tokenizers of source and target.

    OpenNMT-py, whose targets begin with `<s>`, trains without EOS at the end of a source.
    """
    weights, *parts = find_parts(folder)
    source, target = (
        opus_folder.read_tokenizer(pieces, ids, HIDDEN)
        for pieces, ids in zip(parts[:2], parts[2:], strict=True)
    )
    options = read_options(CTranslate2File(weights))
    if options["decoder_start_token"] == START and not options["add_source_eos"]:
        source.source_end = []
    return source, target
