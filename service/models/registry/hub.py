"""Hugging Face's registry: which files of a repository are a model's, and what they should be.

Source: https://huggingface.co/docs/hub/api (`/api/models/{id}/revision/{revision}?blobs=true`
lists files with sizes, sha256 sums of large ones and git's ids of small ones) and
`/{id}/resolve/{commit}/{file}`.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from service.models.registry.errors import DownloadError, NotPublishedError
from service.models.registry.http_client import HttpClient, shown
from service.models.registry.references import COMMIT, Reference
from service.models.registry.remote import RemoteFile, RemoteModel

DEFAULT_REVISION = "main"

WEIGHTS = (
    ("model.safetensors",),
    ("model.safetensors.index.json", re.compile(r"model-\d+-of-\d+\.safetensors")),
    ("pytorch_model.bin",),
    ("pytorch_model.bin.index.json", re.compile(r"pytorch_model-\d+-of-\d+\.bin")),
)
"""The first of these that a folder has is its weights: the file, or the index and its shards."""

PARTS = frozenset(
    (
        "config.json generation_config.json tokenizer.json tokenizer_config.json "
        "special_tokens_map.json added_tokens.json vocab.json target_vocab.json vocab.txt "
        "merges.txt source.spm target.spm sentencepiece.bpe.model spiece.model tokenizer.model "
        "modules.json sentence_bert_config.json sentence_roberta_config.json "
        "sentence_xlm-roberta_config.json config_sentence_transformers.json"
    ).split()
)
"""What else is read. Code, other frameworks' weights and the like are left where they are."""

MODULE_FOLDER = re.compile(r"\d+_[A-Za-z]+")
"""sentence-transformers keeps each module behind the encoder in one: `1_Pooling`."""


def find_model(
    reference: Reference, http: HttpClient, endpoint: str, token: str = ""
) -> RemoteModel:
    """The files of a repository that make up the model, at the commit that its revision means.

    Raises:
        RegistryError: It cannot be had, or has no weights that can be read.
    """
    revision = quote(reference.revision or DEFAULT_REVISION, safe="")
    url = f"{endpoint}/api/models/{quote(reference.name)}/revision/{revision}?blobs=true"
    answer = http.read_json(url, token)
    commit, entries = _read_answer(answer, url)
    chosen = [entries[name] for name in choose_files(entries)]
    if not chosen:
        raise NotPublishedError(
            f"{reference} has no weights that can be read: no "
            + ", ".join(str(weights[0]) for weights in WEIGHTS)
        )
    base = f"{endpoint}/{quote(reference.name)}/resolve/{commit}"
    owner, _, name = reference.name.rpartition("/")
    folder = PurePosixPath("hf", owner or "_", commit, name)
    files = tuple(_to_file(entry, base, shown(url)) for entry in chosen)
    return RemoteModel(folder, commit, files, token)


def _read_answer(answer: Any, url: str) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """The commit, and each file's entry by its path."""
    try:
        commit = answer["sha"]
        entries = {str(PurePosixPath(each["rfilename"])): each for each in answer["siblings"]}
    except (KeyError, TypeError) as error:
        raise DownloadError(f"{shown(url)} does not describe a model: {error!r}") from error
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise DownloadError(f"{shown(url)} names no commit, but {commit!r}")
    return commit, entries


def choose_files(names: Iterable[str]) -> list[str]:
    """Those of a repository's files that make up a model; none where there are no weights."""
    folders: dict[str, list[str]] = {}
    for path in map(PurePosixPath, names):
        folder = str(path.parent)
        if folder == "." or MODULE_FOLDER.fullmatch(folder):
            folders.setdefault(folder, []).append(path.name)
    if not _weights_of(folders.get(".", [])):
        return []
    return sorted(
        str(PurePosixPath(folder, name))
        for folder, files in folders.items()
        for name in [*_weights_of(files), *PARTS.intersection(files)]
    )


def _weights_of(names: list[str]) -> list[str]:
    for first, *shards in WEIGHTS:
        if first in names:
            return [str(first), *(n for n in names for s in shards if re.fullmatch(s, n))]
    return []


def _to_file(entry: Mapping[str, Any], base: str, registry: str) -> RemoteFile:
    name = str(entry["rfilename"])
    large = entry.get("lfs") or {}
    if not isinstance(large, dict):
        raise DownloadError(f"{registry} describes {name} by {large!r}")
    size = large.get("size", entry.get("size"))
    return RemoteFile(
        name,
        f"{base}/{quote(name)}",
        size if isinstance(size, int) else None,
        large.get("sha256"),
        None if large else entry.get("blobId"),
    )
