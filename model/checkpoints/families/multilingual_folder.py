"""Reads the folders of models in which one vocabulary serves all languages, without torch.

These are M2M100, NLLB-200, SMaLL-100 and mBART-50. The vocabulary of T5 is also read here.

Source: transformers, models/m2m_100, models/nllb and models/mbart50 (tokenization), and SMaLL-100's
own tokenizer (Mohammadshahi et al. 2022). No code was copied.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from model.checkpoints.families.hf_config import CONFIG, T5_TYPES, read_model_options
from model.checkpoints.families.opus_folder import (
    EOS,
    PIECES,
    TOKENIZER_CONFIG,
    UNK,
    VOCAB,
    read_vocabulary,
)
from model.checkpoints.folders import title_of
from model.checkpoints.formats.files import find_weights, read_options_if_there
from model.checkpoints.languages import (
    LanguageTokens,
    choose_target,
    distinct_tags,
    is_code,
    pair_in,
    pair_of,
)
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.tokenization.tokenizer import MappedTokenizer, Tokenizer

SPECIAL_TOKENS = "special_tokens_map.json"
MODEL_TYPES = ("m2m_100", "mbart", *T5_TYPES)

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


def is_multilingual_folder(folder: Path) -> bool:
    kind = read_model_options(folder).get("model_type")
    return (folder / PIECES).is_file() or kind in MODEL_TYPES


def is_t5_folder(folder: Path) -> bool:
    return read_model_options(folder).get("model_type") in T5_TYPES


def pieces_of(folder: Path) -> Path:
    """Returns the file of SentencePiece, or else `tokenizer.json`; it need not exist."""
    both = folder / (T5_PIECES if is_t5_folder(folder) else PIECES), folder / TOKENIZER
    return next((path for path in both if path.is_file()), both[0])


def find_parts(folder: Path) -> list[Path]:
    """Returns weights, pieces of both sides, and the file of ids, which need not exist."""
    pieces = pieces_of(folder)
    return [find_weights(folder, [pieces.name]), pieces, pieces, folder / VOCAB]


def translates(folder: Path) -> tuple[tuple[str, str] | None, LanguageTokens | None]:
    if is_t5_folder(folder):
        return _translates_t5(folder)
    return between(folder, language_tokens(folder), not is_small_100(folder))


def _translates_t5(folder: Path) -> tuple[tuple[str, str] | None, LanguageTokens | None]:
    """Returns the pair in the folder's name, if there is one, and what names the target language.

    In MADLAD-400, it is a token such as `<2pt>`. In T5, it is a text such as "translate English to
    German: ", which the config gives for some pairs. A fine-tuned model may have neither.
    """
    pair = pair_in(folder.name)
    found = filter(None, map(TAG.fullmatch, read_ids(folder)))
    codes = {each[1]: each[0] for each in found if is_code(each[1])}
    targets = {tag: codes[code] for code, tag in distinct_tags(codes).items()}
    prompts = _prompts(read_model_options(folder).get("task_specific_params"))
    if pair is not None:
        token = choose_target(pair[1], {token: tag for tag, token in targets.items()})
        chosen = token or prompts.get(pair)
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


def between(
    folder: Path, tokens: Iterable[str], begins_target: bool
) -> tuple[tuple[str, str] | None, LanguageTokens]:
    """Returns the pair in the folder's name, if there is one, and the tokens of its languages.

    Without a pair, the model translates between all its languages: `en` has the token `__en__`.
    Some models of mBART-50 translate only from English, or only to English.
    """
    codes = {REGION.sub("", token.strip("_")): token for token in tokens}
    tags = distinct_tags(code for code in codes if is_code(code))
    named = {tag: codes[code] for code, tag in tags.items()}
    found = LanguageTokens(named, named, begins_target)
    english = {tag: token for tag, token in named.items() if tag == "en"}
    if any("one-to-many" in name for name in _names(folder)):
        return None, replace(found, sources=english)
    if any("many-to-one" in name for name in _names(folder)):
        return None, replace(found, targets=english)
    pair = pair_in(folder.name)
    return pair, found if pair is None else _only(found, pair, folder)


def _names(folder: Path) -> tuple[str, str]:
    return title_of(folder), str(read_options_if_there(folder / CONFIG).get("_name_or_path"))


def is_small_100(folder: Path) -> bool:
    kind = read_options_if_there(folder / TOKENIZER_CONFIG).get("tokenizer_class")
    names = str(kind), *_names(folder)
    return (folder / SMALL_100_CODE).is_file() or any(map(SMALL_100.search, names))


def _only(tokens: LanguageTokens, pair: tuple[str, str], folder: Path) -> LanguageTokens:
    """Returns the tokens of a pair under its own tags: `zh` may replace the model's `zh-Hans`."""
    tags = {token: tag for tag, token in tokens.targets.items()}
    chosen = [choose_target(tag, tags) for tag in pair]
    if None in chosen:
        known = ", ".join(sorted(tokens.targets))
        raise UnsupportedModelError(str(folder), [f"{pair[0]} or {pair[1]} is not one of {known}"])
    source, target = (str(token) for token in chosen)
    return LanguageTokens({pair[0]: source}, {pair[1]: target}, tokens.begins_target)


def language_tokens(folder: Path) -> list[str]:
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
    is_t5 = is_t5_folder(folder)
    most = MAX_UNUSED_T5 if is_t5 else MAX_UNUSED
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
    for token in [] if is_t5 else language_tokens(folder):
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


def read_tokenizer(folder: Path) -> MappedTokenizer:
    ids = read_ids(folder)
    languages = [] if is_t5_folder(folder) else language_tokens(folder)
    special = {i for name, i in ids.items() if name in languages or SPECIAL.fullmatch(name)}
    return MappedTokenizer(pieces_of(folder), ids, special, ids[EOS], ids[UNK])
