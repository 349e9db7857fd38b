"""A server with the routes of Hugging Face's and Mozilla's registries; tests choose its faults."""

import gzip
import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE_BYTES = 2000
"""Files of this size and more have a sha256 sum at Hugging Face, smaller ones git's blob id."""
HEAD = "HEAD "
"""Prefix of the path of a HEAD request, in faults and in the list of requests."""


@dataclass(frozen=True)
class Fault:
    """A fault that one request meets.

    Attributes:
        status: Status of the error; 0 for the normal answer.
        cut: Bytes of the body after which the connection ends; None for the whole body.
        headers: Additional headers.
    """

    status: int = 0
    cut: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A request that the server received."""

    path: str
    host: str
    headers: Mapping[str, str]


class FakeRegistry:
    """Files below an address; `files` and `faults` may be changed at any time.

    Attributes:
        files: Content by path.
        headers: Additional headers by path.
        moved: Redirects by path.
        faults: Faults of the next requests of a path, in order.
        asked: All requests so far.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.moved: dict[str, str] = {}
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.asked: list[Asked] = []
        self.server = Server(self)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def other_url(self) -> str:
        return f"http://localhost:{self.server.server_address[1]}"

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def publish_repository(
        self, name: str, files: Mapping[str, bytes], revision: str = "main", commit: str = COMMIT
    ) -> None:
        siblings = [_sibling(path, content) for path, content in files.items()]
        answer = {"id": name, "sha": commit, "private": False, "siblings": siblings}
        for each in (revision, commit):
            self.files[f"/api/models/{name}/revision/{each}"] = json.dumps(answer).encode()
        for path, each in product(files, (revision, commit)):
            place, content = f"/{name}/resolve/{each}/{path}", files[path]
            self.files[place] = content
            self.headers[place] = {"X-Repo-Commit": commit, **_linked(content)}

    def publish_pair(
        self, pair: str, files: Mapping[str, bytes], status: str | None = "Release", **more: Any
    ) -> dict[str, Any]:
        """Adds a language pair to Mozilla's registry, and returns its entry for changes."""
        architecture = more.get("architecture", "tiny")
        entry: dict[str, Any] = {
            "architecture": architecture,
            "releaseStatus": status,
            "sourceLanguage": pair.partition("-")[0],
            "targetLanguage": pair.partition("-")[2],
            "files": {},
            "modelStatistics": {"parameters": 1, "encoderParameters": 1, "decoderParameters": 0},
        } | more
        for name, content in files.items():
            path = f"models/{pair}/{architecture}/exported/{name}.gz"
            self.files[f"/{path}"] = gzip.compress(content, 1, mtime=0)
            described: dict[str, Any] = {"path": path}
            if name.startswith("model."):
                described |= {"uncompressedSize": len(content), "uncompressedHash": sha256(content)}
            entry["files"][_role(name)] = described
        index = json.loads(self.files.get("/db/models.json", b"{}"))
        models = index.get("models", {})
        models.setdefault(pair, []).append(entry)
        self.write_index(models)
        return entry

    def write_index(self, models: Mapping[str, Any]) -> None:
        index = {
            "generated": "2026-11-09T00:45:24Z",
            "baseUrl": "http://nowhere.invalid",
            "models": models,
        }
        self.files["/db/models.json"] = json.dumps(index).encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def read_folder(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _role(name: str) -> str:
    kind = name.partition(".")[0]
    roles = {"lex": "lexicalShortlist", "srcvocab": "srcVocab", "trgvocab": "trgVocab"}
    return roles.get(kind, kind)


def _sibling(path: str, content: bytes) -> dict[str, Any]:
    described: dict[str, Any] = {"rfilename": path, "size": len(content)}
    if len(content) < LARGE_BYTES:
        return described | {"blobId": git_id(content)}
    pointer = b"version https://git-lfs.github.com/spec/v1\n"
    large = {"sha256": sha256(content), "size": len(content), "pointerSize": 134}
    return described | {"blobId": git_id(pointer), "lfs": large}


def _linked(content: bytes) -> dict[str, str]:
    """Returns the headers with which Hugging Face identifies the content of a file."""
    if len(content) < LARGE_BYTES:
        return {"ETag": f'"{git_id(content)}"'}
    return {"X-Linked-Etag": f'"{sha256(content)}"', "X-Linked-Size": str(len(content))}


def use_hub_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Makes huggingface_hub use a folder, no token of this machine, and no pauses.

    It reads HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE once, when it is imported.
    """
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", f"{folder}-no-token")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)


class Server(ThreadingHTTPServer):
    """HTTP server with one thread a request."""

    def __init__(self, registry: FakeRegistry) -> None:
        self.registry = registry
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    """Answers for the registry that its server belongs to."""

    server: "Server"

    def do_HEAD(self) -> None:
        self.do_GET(HEAD)

    def do_GET(self, method: str = "") -> None:
        registry = self.server.registry
        path = unquote(urlsplit(self.path).path)
        headers = {name.title(): value for name, value in self.headers.items()}
        registry.asked.append(Asked(method + path, self.headers["Host"], headers))
        waiting = registry.faults[method + path]
        fault = waiting.pop(0) if waiting else Fault()
        if fault.status:
            self._answer(fault.status, b"", fault.headers, None)
        elif path in registry.moved:
            named = registry.headers.get(path, {})
            self._answer(302, b"", {"Location": registry.moved[path], **named}, None)
        elif path not in registry.files:
            self._answer(404, b"", {}, None)
        else:
            self._give(registry.files[path], fault, registry.headers.get(path, {}))

    def _give(self, content: bytes, fault: Fault, named: Mapping[str, str]) -> None:
        headers = {"ETag": f'"{sha256(content)[:16]}"', **named, **fault.headers}
        self._answer(200, content, headers, fault.cut)

    def _answer(
        self, status: int, body: bytes, headers: Mapping[str, str], cut: int | None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""
