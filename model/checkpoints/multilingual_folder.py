"""The files of an M2M100 or NLLB-200 model in a Hugging Face folder. Without torch.

Source: transformers, models/m2m_100 and models/nllb (tokenization), read as facts.
"""

from collections.abc import Iterable
from pathlib import Path

from model.checkpoints.hf_config import read_json, read_options
from model.checkpoints.languages import choose_target, is_code, to_tag
from model.checkpoints.opus_folder import (
    EOS,
    UNK,
    VOCAB,
    Parts,
    find_languages,
    find_weights,
    read_vocabulary,
)
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.mapped_tokenization import MappedTokenizer
from model.tokenization import Tokenizer

PIECES = "sentencepiece.bpe.model"
SPECIAL_TOKENS = "special_tokens_map.json"
SIGNS = ("<s>", "<pad>", EOS, UNK)
"""Ids 0 to 3; a SentencePiece file itself begins with three signs of its own."""


def read_multilingual(folder: Path) -> Parts:
    """The one model in a folder, for the pair of languages that it is named after.

    Raises:
        CheckpointFormatError: A part is not there or damaged.
        UnsupportedModelError: It is not said, or not one of its own, which languages are wanted.
    """
    weights = find_weights(folder, (PIECES, SPECIAL_TOKENS))
    tokens = {token: tag for token, tag in _tags(language_tokens(folder)) if tag}
    source, target = find_languages(folder, read_options(folder), tokens)
    chosen = [choose_target(tag, tokens) for tag in (source, target)]
    if None in chosen:
        known = ", ".join(sorted(tokens.values()))
        raise UnsupportedModelError(str(folder), [f"{source} or {target} is none of {known}"])
    pieces, ids = folder / PIECES, folder / SPECIAL_TOKENS
    source_token, target_token = (token or "" for token in chosen)
    return Parts(source, target, weights, pieces, pieces, ids, ids, target_token, source_token)


def language_tokens(folder: Path) -> list[str]:
    """The tokens that stand for languages, in the order of their ids.

    Raises:
        CheckpointFormatError: They are not there.
    """
    path = folder / SPECIAL_TOKENS
    tokens = read_json(path).get("additional_special_tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(t, str) for t in tokens):
        raise CheckpointFormatError(f"{path} lists no additional_special_tokens")
    return tokens


def _tags(tokens: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Each with its tag, as `__en__` with `en`, `eng_Latn` with `en-Latn`; or with an empty one."""
    for token in tokens:
        code = token.strip("_")
        yield token, to_tag(code) if is_code(code) else ""


def read_ids(folder: Path) -> dict[str, int]:
    """The id of each piece, of each language's token, and of what stands for nothing.

    M2M100 numbers its pieces in `vocab.json`; NLLB-200 takes the numbers of the SentencePiece
    file, one higher for the sign that this does not have. Languages follow, and then as many more
    as the config says that there are weights for.

    Raises:
        CheckpointFormatError: A file is damaged.
    """
    vocabulary = folder / VOCAB
    if vocabulary.is_file():
        ids = read_vocabulary(vocabulary)
    else:
        pieces = Tokenizer(folder / PIECES)
        names = pieces.pieces(list(range(len(SIGNS) - 1, pieces.vocab_size)))
        ids = {name: number for number, name in enumerate([*SIGNS, *names])}
    for token in language_tokens(folder):
        ids.setdefault(token, len(ids))
    size = read_options(folder).get("vocab_size")
    unused = range(len(ids), size) if type(size) is int and size < 2 * len(ids) else ()
    return {**ids, **{f"<unused {number}>": number for number in unused}}


def read_tokenizer(folder: Path, token: str) -> MappedTokenizer:
    """The tokenizer of one side, which puts the token of its language before every text.

    Raises:
        CheckpointFormatError: A file is damaged.
    """
    ids = read_ids(folder)
    signs = {ids[sign] for sign in SIGNS if sign in ids and sign != UNK}
    unused = {number for name, number in ids.items() if name.startswith("<unused ")}
    special = signs | unused | {ids[each] for each in language_tokens(folder)}
    return MappedTokenizer(folder / PIECES, ids, special, ids[EOS], ids[UNK], [ids[token]])
