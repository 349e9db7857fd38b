"""Hugging Face's registry: the files of a repository that make up a model.

huggingface_hub downloads the files into Hugging Face's cache, which other programs share. Regard's
cache of models (`cache.py`) then gets a link to each file that the model needs.
"""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import huggingface_hub as hf
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, XetDownloadError
from huggingface_hub.hf_api import ModelInfo, RepoSibling

from model.checkpoints.families.ctranslate2_folder import WEIGHTS as CONVERTED
from model.checkpoints.formats.files import WEIGHTS
from service.models.registry.cache import Record
from service.models.registry.download import (
    HttpClient,
    causes,
    damaged_download,
    disk_errors,
    fetching_forbidden,
    open_client,
    request_error,
    require_space,
    shown,
    status_error,
)
from service.models.registry.errors import RegistryError, TransientError
from service.models.registry.files import (
    ModelFile,
    choose_files,
    difference,
    is_sha256,
    measure,
    published_sum,
)
from service.models.registry.references import COMMIT, ModelEntry, parse_reference

T = TypeVar("T")

DEFAULT_REVISION = "main"
CACHE_SETTING = "HF_HOME or HF_HUB_CACHE"
TOKEN_ADVICE = (
    ": it does not exist, or it needs a token with read access; set HF_TOKEN to such a token"
)


class Hub:
    """The registry of Hugging Face, or a mirror of it.

    The token comes from HF_TOKEN or `hf auth login`. It is sent only over https or to this machine.
    HF_HUB_OFFLINE forbids requests too, so that all files come from Hugging Face's cache.
    """

    def __init__(self, endpoint: str, http: HttpClient, is_offline: bool = False) -> None:
        self.endpoint, self.http = endpoint, http
        self.is_offline = is_offline or constants.is_offline_mode()
        self._token = None if _is_private(endpoint) else False
        hf.set_client_factory(open_client)
        # Warnings about retries contain signed addresses, which must stay secret.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)

    def find(self, entry: ModelEntry) -> Record:
        if self.is_offline:
            return self._find_cached(entry)
        revision = entry.revision or DEFAULT_REVISION
        name, address = quote(entry.name), quote(revision, safe="")
        url = f"{self.endpoint}/api/models/{name}/revision/{address}"
        info = self._call(url, lambda: self._read_info(entry.name, revision, url))
        siblings = {str(PurePosixPath(each.rfilename)): each for each in info.siblings or ()}
        base = f"{self.endpoint}/{name}/resolve/{info.sha}"
        files = [_to_file(siblings[path], base) for path in choose_files(siblings)]
        return _to_model(entry, str(info.sha), files)

    def _find_cached(self, entry: ModelEntry) -> Record:
        revision = entry.revision or DEFAULT_REVISION
        try:
            found = hf.snapshot_download(
                entry.name, revision=revision, local_files_only=True, allow_patterns=[]
            )
        except (LocalEntryNotFoundError, ValueError) as error:
            raise fetching_forbidden(entry, "REGARD_OFFLINE or HF_HUB_OFFLINE") from error
        root = Path(found)
        paths = (path for path in root.rglob("*") if path.is_file())
        names = choose_files(path.relative_to(root).as_posix() for path in paths)
        return _to_model(entry, root.name, [_to_cached_file(name, root) for name in names])

    def require_space(self, files: Iterable[ModelFile], model: Record, folder: Path) -> None:
        missing = [file for file in files if _cached_path(file, model) is None]
        needed = sum(file.size or 0 for file in missing)
        require_space(Path(constants.HF_HUB_CACHE), needed, CACHE_SETTING)

    def fetch(self, file: ModelFile, model: Record, folder: Path) -> ModelFile:
        cached = _cached_path(file, model)
        if cached and difference(measure(file.name, cached), file, cached):
            _delete(cached)
        with disk_errors(Path(constants.HF_HUB_CACHE, file.name), CACHE_SETTING):
            path = Path(self._call(file.url, lambda: self._download(file, model)))
        target = folder / file.name
        stored = measure(file.name, path)
        if reason := difference(stored, file, path):
            _delete(path)
            raise damaged_download(file, target, reason)
        with disk_errors(target):
            _link(path, target)
        return stored

    def _read_info(self, name: str, revision: str, url: str) -> ModelInfo:
        """Asks for the commit and the files of a repository.

        Source: https://huggingface.co/docs/hub/api.
        """
        api = hf.HfApi(self.endpoint, token=self._token, library_name="regard")
        try:
            info = api.model_info(name, revision=revision, files_metadata=True)
        except HfHubHTTPError:  # some are also ValueErrors, which the next clause catches
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RegistryError(f"{shown(url)} does not describe a model: {error!r}") from error
        if not isinstance(info.sha, str) or not COMMIT.fullmatch(info.sha):
            raise RegistryError(f"{shown(url)} names {info.sha!r}, which is not a commit")
        return info

    def _download(self, file: ModelFile, model: Record) -> str:
        return hf.hf_hub_download(
            parse_reference(model.reference).name,
            file.name,
            revision=model.revision,
            endpoint=self.endpoint,
            token=self._token,
            library_name="regard",
            local_files_only=self.is_offline,
        )

    def _call(self, url: str, action: Callable[[], T]) -> T:
        """Calls huggingface_hub, and replaces its errors by errors of this package.

        huggingface_hub retries broken downloads and requests for a file's metadata itself.
        """

        def attempt() -> T:
            try:
                return action()
            except (HfHubHTTPError, LocalEntryNotFoundError, httpx2.RequestError) as error:
                raise _translated(url, error) from error
            except (XetDownloadError, RuntimeError, ValueError) as error:  # some are from hf_xet
                raise RegistryError(f"{shown(url)} cannot be fetched: {error}") from error
            except OSError as error:
                if error.errno is None:  # huggingface_hub found a wrong file length
                    raise RegistryError(f"{shown(url)} is damaged: {error}") from error
                raise

        return self.http.retry(url, attempt)


def _to_model(entry: ModelEntry, commit: str, files: list[ModelFile]) -> Record:
    if not files:
        raise RegistryError(
            f"{entry} has no supported weights; it needs one of " + ", ".join((*WEIGHTS, CONVERTED))
        )
    owner, _, name = entry.name.rpartition("/")
    folder = str(PurePosixPath("hf", owner or "_", commit, name))
    return Record(str(entry), folder, commit, tuple(files))


def _to_file(sibling: RepoSibling, base: str) -> ModelFile:
    name, large = sibling.rfilename, sibling.lfs
    size = sibling.size if large is None else large.size
    return ModelFile(
        name,
        size if isinstance(size, int) else None,
        None if large is None else published_sum(name, large.sha256),
        f"{base}/{quote(name)}",
        sibling.blob_id if large is None else None,
    )


def _to_cached_file(name: str, root: Path) -> ModelFile:
    """Describes a file of Hugging Face's cache: a link to a file named after its checksum."""
    path = root / name
    digest = path.resolve().name
    return ModelFile(
        name,
        sha256=digest if is_sha256(digest) else None,
        url=path.as_uri(),
        git_sha1=digest if COMMIT.fullmatch(digest) else None,
    )


def _cached_path(file: ModelFile, model: Record) -> Path | None:
    name = parse_reference(model.reference).name
    path = hf.try_to_load_from_cache(name, file.name, revision=model.revision)
    return Path(path) if isinstance(path, str) else None


def _translated(url: str, error: Exception) -> Exception:
    found: Exception = RegistryError(f"{shown(url)} cannot be fetched: {error}")
    for each in causes(error):
        if isinstance(each, HfHubHTTPError):
            found = status_error(each.response)
            if each.response.status_code in (401, 403):
                found = RegistryError(f"{found}{TOKEN_ADVICE}")
        elif isinstance(each, httpx2.RequestError):
            found = request_error(url, each)
    if isinstance(error, LocalEntryNotFoundError) and isinstance(found, TransientError):
        return RegistryError(f"{shown(url)} failed several times: {found}; try again later")
    return found


def _delete(path: Path) -> None:
    """Deletes a damaged file from Hugging Face's cache: the content, and the link to the content.

    Source: https://huggingface.co/docs/huggingface_hub/guides/manage-cache ("blobs", "snapshots").
    """
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _link(path: Path, target: Path) -> None:
    """Makes `target` a hard link, or else a symbolic link, to a file of Hugging Face's cache."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(path.resolve(), target)
    except OSError:
        target.symlink_to(path.resolve())


def _is_private(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1")
