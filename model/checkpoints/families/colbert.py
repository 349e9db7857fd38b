"""Reads how ColBERT models read queries and documents. Does not import torch.

The files are those of PyLate, of sentence-transformers since version 6, or of Stanford's ColBERT.

Source: Khattab and Zaharia 2020, "ColBERT", section 3.2; sentence-transformers,
multi_vector_encoder/model.py; stanford-futuredata/ColBERT, colbert/infra/config/settings.py.
"""

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from model.checkpoints.families.encoder_family import Options
from model.checkpoints.formats.files import read_options, read_options_if_there
from model.config import MultiVectorConfig
from model.regular_files import check_file

Modules = tuple[tuple[str, Path], ...]  # the class or the kind of each module, and its folder
Values = Mapping[str, Any]

PROMPTS = "config_sentence_transformers.json"
METADATA = "artifact.metadata"
KINDS = ("ColBERT", "MultiVectorEncoder")
"""Values of `model_type` in the file of PyLate, and in that of sentence-transformers."""

MODULE = "MultiVectorMask"
MASKS = ("[MASK]", "<mask>")
STRATEGY = "the strategy of query_expansion"
PUNCTUATION = list(string.punctuation)


def is_multi_vector(folder: Path) -> bool:
    """Returns whether a model has a vector for each token."""
    kind = read_options_if_there(folder / PROMPTS).get("model_type")
    return kind in KINDS or (folder / METADATA).is_file()


def read_multi_vector(
    folder: Path, transformer: Values, modules: Modules, vocabulary: Path, limit: int
) -> MultiVectorConfig:
    """Returns how a model reads queries and documents; no text has more than `limit` tokens."""
    path = folder / METADATA
    is_stanford = path.is_file()
    given = read_options(path if is_stanford else folder / PROMPTS)
    if is_stanford:
        known = _of_stanford(given)
    elif given.get("model_type") == KINDS[0]:
        known = _of_pylate(given)
    else:
        known = _of_transformer(given, transformer)
        for kind, place in modules:
            if kind == MODULE:
                known["skipped"] = read_options(place / "config.json").get("skiplist_words") or ()
    options = Options(known, str(path if is_stanford else folder))
    query, document = (
        min(options.integer(name, limit), limit) for name in ("query_length", "document_length")
    )
    options.check({STRATEGY: ("fixed",)})
    check_file(vocabulary)
    tokenizer = Tokenizer.from_file(str(vocabulary))

    def find(*texts: str) -> int | None:
        found = [tokenizer.token_to_id(str(text)) for text in texts]
        return next((each for each in found if each is not None), None)

    prefixes = known["query_prefix"], known["document_prefix"]
    markers = [find(text, str(text).strip()) for text in prefixes if text]
    filler = find(*MASKS) if known["expands"] else None
    if None in markers or len(markers) not in (0, 2):
        named = " and ".join(map(repr, prefixes))
        options.reasons.append(
            f"its prefixes are {named}, needed: two tokens of {vocabulary.name}, or none"
        )
    if known["expands"] and filler is None:
        masks = ", ".join(MASKS)
        options.reasons.append(f"{vocabulary.name} has no token that fills queries: {masks}")
    options.refuse()
    skipped = (find(word) for word in known["skipped"])
    return MultiVectorConfig(
        tuple(each for each in markers if each is not None),
        (query, document),
        filler,
        bool(known["attends"]),
        frozenset(each for each in skipped if each is not None),
    )


def _of_stanford(options: Values) -> dict[str, Any]:
    return {
        "query_prefix": options.get("query_token_id") or "[unused0]",
        "document_prefix": options.get("doc_token_id") or "[unused1]",
        "query_length": options.get("query_maxlen") or 32,
        "document_length": options.get("doc_maxlen") or 180,
        "expands": True,
        "attends": options.get("attend_to_mask_tokens"),
        "skipped": PUNCTUATION if options.get("mask_punctuation", True) else [],
    }


def _of_pylate(options: Values) -> dict[str, Any]:
    return {
        "query_prefix": options.get("query_prefix") or "[Q] ",
        "document_prefix": options.get("document_prefix") or "[D] ",
        "query_length": options.get("query_length") or 32,
        "document_length": options.get("document_length") or 180,
        "expands": options.get("do_query_expansion", True),
        "attends": options.get("attend_to_expansion_tokens"),
        "skipped": options.get("skiplist_words", PUNCTUATION),
    }


def _of_transformer(own: Values, options: Values) -> dict[str, Any]:
    prompts, expansion = own.get("prompts") or {}, options.get("query_expansion") or {}
    lengths = {
        "query_length": expansion.get("length") or options.get("query_length"),
        "document_length": options.get("document_length"),
    }
    return {
        "query_prefix": prompts.get("query") or "",
        "document_prefix": prompts.get("document") or "",
        **{name: length for name, length in lengths.items() if length is not None},
        "expands": expansion,
        "attends": expansion.get("attend"),
        STRATEGY: expansion.get("strategy", "fixed"),
        "skipped": (),
    }
