"""LibreTranslate's /translate_file and /download_file: formats, limits, errors, and deletion."""

import asyncio
import errno
import gc
import os
import re
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import httpx
import pytest
from starlette.datastructures import UploadFile
from starlette.types import Message, Scope

import service.server
from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.formats import FORMATS
from service.documents.reader import DocumentReader, ReadDocument
from service.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidKeyError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    RequestTooLargeError,
    ServiceError,
    UnavailableError,
    UnsupportedLanguageError,
)
from service.state.documents import Content, DocumentState, DocumentStore, TemporaryFolder
from service.tasks import documents as translator
from tests.api.conftest import Serve, ServeAny
from tests.api.servers import AnyServer, Server, assert_error, without_collections
from tests.archives import A, archive, bytes_of, content_of, docx, run
from tests.workers import LIMIT_SECONDS, Script, until

SLOW = "<p>a <b>b</b>" * 150_000
"""A page that is read for some seconds."""

SRT = "1\n00:00:01,000 --> 00:00:02,500\n{}\n\n2\n00:00:03,000 --> 00:00:04,000\n{}\n"


def send(server: AnyServer, name: str, data: bytes | str, **fields: Any) -> httpx.Response:
    form = {"source": "en", "target": "pt", **fields}
    sent = {key: value for key, value in form.items() if value is not None}
    return server.post("/translate_file", files={"file": (name, data)}, data=sent)


def fetch(server: AnyServer, sent: httpx.Response) -> httpx.Response:
    assert sent.status_code == 200, sent.text
    url: str = sent.json()["translatedFileUrl"]
    return server.get(re.sub("^https?://[^/]+", "", url))


def test_subtitles_come_back_with_their_timings(serve_any: ServeAny) -> None:
    """Any HTTP process answers for a document that another one has translated."""
    server = serve_any(files=True)
    sent = send(server, "film ü.srt", SRT.format("Hello there.", "Good day."))
    for _ in range(6):
        response = fetch(server, sent)
        assert response.text == SRT.format("Hello there.", "Good day.")
    assert response.headers["content-type"] == FORMATS[".srt"].media_type
    assert response.headers["content-disposition"].endswith("filename*=UTF-8''film%20%C3%BC.pt.srt")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert re.search(r"/download_file/[0-9a-f]{32}\.film", sent.json()["translatedFileUrl"])


def test_equal_texts_are_translated_once(files: Server, script: Script) -> None:
    text = "Hello there.\n\nGood day.\n\nHello there.\n"
    assert fetch(files, send(files, "a.txt", text)).text == text
    assert len(script.admitted) == 2
    assert files.sample("regard_requests_total", task="document", model="en-pt", outcome="ok") == 1


def test_texts_wait_in_the_bulk_lane(serve: Serve, script: Script) -> None:
    server = serve(files=True, bulk_sentences=1000)
    script.may_finish.clear()
    text = "".join(f"Line {number}.\n\n" for number in range(100))
    sent = server.begin("POST", "/translate_file", **form("a.txt", text))
    lane = {"task": "translate", "model": "en-pt", "lane": "bulk"}
    until(lambda: server.sample("regard_queue_depth", **lane) > 0)
    script.may_finish.set()
    assert fetch(server, sent.result(LIMIT_SECONDS)).text == text


@pytest.mark.parametrize(
    ("owner", "name"),
    [(UploadFile, "write"), (DocumentReader, "write"), (DocumentStore, "save")],
)
def test_full_disk_is_told(
    files: Server, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(owner, name, fail)
    assert_error(send(files, "a.txt", "Hello there."), UnavailableError, "no space left", "TMPDIR")
    monkeypatch.undo()
    assert fetch(files, send(files, "a.txt", "Hello there.")).text == "Hello there."


def test_language_is_detected_once_for_the_document(files: Server) -> None:
    text = "O tempo hoje está muito bonito, meus amigos.\n\nOi.\n"
    sent = send(files, "a.txt", text, source="auto", target="en")
    assert fetch(files, sent).text == text
    assert files.num_requests("ok", task="document", model="pt-en") == 1


@pytest.mark.parametrize(
    ("name", "data", "fields", "kind", "words"),
    [
        ("program.exe", b"MZ", {}, InvalidRequestError, "file format not supported; the extension"),
        ("noextension", b"a", {}, InvalidRequestError, "file format not supported"),
        ("a.txt", b"", {}, InvalidRequestError, "Invalid request: empty file"),
        ("a.txt", b"Hi", {"source": None}, InvalidRequestError, "missing source parameter"),
        ("a.txt", b"Hi", {"target": None}, InvalidRequestError, "missing target parameter"),
        ("a.txt", b"Hi", {"source": "zz"}, UnsupportedLanguageError, "zz is not supported"),
        ("a.txt", b"Hi", {"target": "zz"}, UnsupportedLanguageError, "zz is not supported"),
        ("a.txt", bytes(range(1, 256)), {}, InvalidRequestError, "save it with the encoding UTF-8"),
        ("a.docx", b"PK\3\4 no", {}, InvalidRequestError, "the archive is damaged"),
        ("a.docx", archive({"a": "b"}), {}, InvalidRequestError, "no main part in word/"),
        ("a.srt", b"words", {}, InvalidRequestError, "no timings"),
        ("a.json", b"{", {}, InvalidRequestError, "not JSON"),
    ],
)
def test_wrong_document_gets_a_clear_error(
    files: Server, name: str, data: bytes, fields: dict[str, Any], kind: Any, words: str
) -> None:
    assert_error(send(files, name, data, **fields), kind, words)


def until_reading(server: Server) -> int:
    def children() -> list[str]:
        process = server.documents.reader.process
        pid = process.child.pid if process else 0
        files = Path(f"/proc/{pid}/task/{pid}/children")
        return files.read_text().split() if process and files.exists() else []

    until(lambda: bool(children()))
    return int(children()[0])


def test_document_that_needs_too_much_memory_is_refused_alone(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(files=True, max_files=1)
    monkeypatch.setattr(server.documents.reader, "max_bytes", 2**25)
    large = server.post("/translate_file", **form("a.html", SLOW))
    assert_error(large, RequestTooLargeError, "bytes of memory", "REGARD_MAX_FILE_BYTES")
    assert fetch(server, send(server, "a.txt", "Hi.")).text == "Hi."
    assert (server.documents.num_open, server.documents.open_bytes) == (0, 0)


def test_reading_ends_with_the_time_of_the_request(serve: Serve) -> None:
    server = serve(files=True)
    limit = {"X-Request-Timeout-Ms": "1000"}
    late = server.post("/translate_file", headers=limit, **form("a.html", SLOW))
    assert_error(late, DeadlineExceededError, "not translated in 1 s", "raise X-Request-Timeout-Ms")
    reader = server.documents.reader.process
    assert reader is not None
    assert reader.child.returncode is not None
    assert fetch(server, send(server, "a.txt", "Hi.")).text == "Hi."


@pytest.mark.parametrize("path", ["/translate_file", "/v2/document"])
def test_reading_ends_when_the_client_has_gone(serve: Serve, path: str) -> None:
    server = serve(files=True)
    fields = {"source": "en", "target": "pt", "source_lang": "EN", "target_lang": "PT"}
    chosen = {key: fields[key] for key in fields if ("lang" in key) == (path == "/v2/document")}
    sent = server.begin("POST", path, files={"file": ("a.html", SLOW)}, data=chosen)
    child = until_reading(server)
    sent.cancel()
    until(lambda: not Path(f"/proc/{child}").exists())
    until(lambda: server.documents.num_open == 0)


def test_document_stays_open_while_a_thread_copies_it(
    files: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread copied what another request had opened meanwhile, with the same descriptor."""
    copying, may_copy = threading.Event(), threading.Event()
    copied: list[bytes | None] = []

    def finish(_store: DocumentStore, _state: DocumentState, content: Content) -> None:
        copying.set()
        may_copy.wait(LIMIT_SECONDS)
        copied.append(bytes_of(content))

    monkeypatch.setattr(DocumentStore, "finish", finish)
    sent = files.begin("POST", "/translate_file", **form("a.txt", "Hi."))
    assert copying.wait(LIMIT_SECONDS)
    sent.cancel()
    until(lambda: files.documents.num_open == 0)
    gc.collect()
    may_copy.set()
    until(lambda: copied)
    assert copied == [b"Hi."]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (DocumentTooLargeError("too much memory"), RequestTooLargeError),
        (DocumentError("cannot be written"), InvalidRequestError),
        (OSError(errno.EIO, "Input/output error"), InternalError),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), UnavailableError),
    ],
)
def test_document_that_cannot_be_written_frees_its_place(
    files: Server, monkeypatch: pytest.MonkeyPatch, fault: Exception, kind: type[ServiceError]
) -> None:
    def fail(*_arguments: object) -> None:
        raise fault

    async def write(*_arguments: object) -> bytes:
        raise fault

    with monkeypatch.context() as patch:
        if isinstance(fault, DocumentError):
            patch.setattr(files.documents.reader, "write", write)
        else:
            patch.setattr(DocumentStore, "finish", fail)
        assert_error(send(files, "a.txt", "Hi."), kind)
    assert files.documents.num_open == 0


def test_large_documents_are_not_translated_together(serve: Serve, script: Script) -> None:
    server = serve(files=True, max_file_bytes=1000)
    script.may_finish.clear()
    texts = "".join(f"Line {number}.\n\n" for number in range(35))
    first = server.begin("POST", "/translate_file", **form("a.txt", texts))
    server.until_admitted(1)
    words = ("more than 8000 bytes", "try again later", "REGARD_MAX_FILE_BYTES")
    assert_error(send(server, "b.txt", texts), OverloadedError, *words)
    script.may_finish.set()
    assert first.result(LIMIT_SECONDS).status_code == 200
    assert send(server, "b.txt", texts).status_code == 200


FORM = (
    *(f'--X\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
      for name, value in (("source", "en"), ("target", "pt"))),
    '--X\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nHi.\n\n',
)  # fmt: skip


def test_only_the_reader_holds_a_whole_document(files: Server) -> None:
    """Copying 27 MB stopped all requests for 15 to 100 ms."""
    send(files, "a.txt", "Hi.")  # the first document also loads modules
    part, number = b"1234567890 " * 12_000, 64
    pieces: list[int] = []

    async def body() -> AsyncIterator[bytes]:
        yield "".join(FORM).encode()
        for _ in range(number):
            yield part
        yield b"\r\n--X--\r\n"

    async def receive() -> Message:
        await asyncio.Event().wait()  # the client does not hang up
        return {}

    async def keep_size(message: Message) -> None:
        pieces.append(len(message.get("body", b"")))

    async def download(scope: Scope) -> None:
        await files.app(scope, receive, keep_size)

    headers = {"Content-Type": "multipart/form-data; boundary=X"}
    tracemalloc.start()
    try:
        sent = files.post("/translate_file", content=body(), headers=headers)
        assert sent.status_code == 200, sent.text
        path = httpx.URL(sent.json()["translatedFileUrl"]).path
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
        files.run(download(scope))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(pieces) == number * len(part) + len("Hi.\n\n")
    assert peak < sum(pieces) / 2


def test_large_document_is_refused(serve: Serve) -> None:
    server = serve(files=True, max_file_bytes=1000)
    words = ("limit of 1000 bytes", "REGARD_MAX_FILE_BYTES")
    assert_error(send(server, "a.txt", b"a" * 100_000), RequestTooLargeError, *words)


@pytest.mark.parametrize("request_", [{"json": {"source": "en"}}, {"data": {"target": "pt"}}, {}])
def test_request_without_a_file_is_refused(files: Server, request_: dict[str, Any]) -> None:
    response = files.post("/translate_file", **request_)
    assert_error(response, InvalidRequestError, "Invalid request: missing file parameter")


def test_two_files_are_refused(files: Server) -> None:
    twice = [("file", ("a.txt", b"a")), ("file", ("b.txt", b"b"))]
    response = files.post("/translate_file", files=twice)
    assert_error(response, InvalidRequestError, "send each file in a request of its own")


def test_key_is_needed_for_the_translation_alone(serve: Serve) -> None:
    server = serve(files=True, api_keys="secret")
    assert_error(send(server, "a.txt", "Hi.", api_key="wrong"), InvalidKeyError)
    assert fetch(server, send(server, "a.txt", "Hi.", api_key="secret")).text == "Hi."


def test_settings_of_the_form_name_the_formats(files: Server) -> None:
    settings = files.get("/frontend/settings").json()
    assert settings["filesTranslation"] is True
    assert settings["supportedFilesFormat"] == [*FORMATS]
    assert ".txt" in settings["supportedFilesFormat"]


@pytest.mark.parametrize("is_on", [True, False])
def test_unknown_download_is_refused(serve: Serve, is_on: bool) -> None:
    server = serve(files=is_on)
    kind = NotFoundError if is_on else InvalidRequestError
    for name in ("x", ".json", "0" * 32, "0" * 32 + ".a.txt"):
        assert_error(server.get(f"/download_file/{name}"), kind)


def test_document_is_deleted_when_its_time_is_over(serve: Serve) -> None:
    server = serve(files=True, file_retention_seconds=0.3)
    documents = server.documents
    sent = send(server, "a.txt", "Hi.")
    assert [*documents.store.folder.iterdir()]
    until(lambda: not [*documents.store.folder.iterdir()])
    assert_error(fetch(server, sent), NotFoundError, "translate the document again")


def test_process_removes_documents_of_one_that_has_ended(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithDocument(TemporaryFolder):
        def __init__(self) -> None:
            super().__init__()
            state = DocumentState("a.txt", 1, time.time() + 0.3)
            DocumentStore(self.name).finish(state, content_of(b"A"))

    monkeypatch.setattr(service.server, "TemporaryFolder", WithDocument)
    documents = serve(files=True).documents
    until(lambda: not [*documents.store.folder.iterdir()])


def test_folder_and_process_of_the_documents_end_with_the_server(serve: Serve) -> None:
    server = serve(files=True)
    folder = server.documents.store.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    send(server, "a.txt", "Hi.")
    reader = server.documents.reader.process
    assert reader is not None
    server.run(server.opened.aclose())
    assert reader.child.returncode is not None
    assert not folder.exists()


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, ("not translated in 2 s", "REGARD_FILE_TIMEOUT_SECONDS")),
        ({"X-Request-Timeout-Ms": "1000"}, ("not translated in 1 s", "raise X-Request-Timeout-Ms")),
    ],
)
def test_late_document_gets_504_and_leaves_no_work(
    serve: Serve, script: Script, headers: dict[str, str], words: tuple[str, ...]
) -> None:
    server = serve(files=True, file_timeout_seconds=2)
    script.may_finish.clear()
    late = server.post("/translate_file", headers=headers, **form("a.txt", "Hi.\n\nYou."))
    assert_error(late, DeadlineExceededError, *words)
    script.may_finish.set()
    server.until_released()
    assert server.translate("Hi.").json()["translatedText"] == "Hi."


def test_document_may_take_longer_than_a_request(serve: Serve, script: Script) -> None:
    server = serve(files=True, request_timeout_seconds=0.2)
    script.may_finish.clear()
    sent = server.begin("POST", "/translate_file", **form("a.txt", "Hi."))
    server.until_admitted(1)
    server.run(asyncio.sleep(0.5))
    script.may_finish.set()
    assert sent.result(LIMIT_SECONDS).status_code == 200


def test_documents_over_the_limit_wait_for_another_time(serve: Serve, script: Script) -> None:
    server = serve(files=True, max_files=1)
    script.may_finish.clear()
    first = server.begin("POST", "/translate_file", **form("a.txt", "Hi."))
    server.until_admitted(1)
    assert_error(send(server, "b.txt", "Hi."), OverloadedError, "REGARD_MAX_FILES")
    script.may_finish.set()
    assert first.result(LIMIT_SECONDS).status_code == 200
    assert send(server, "b.txt", "Hi.").status_code == 200


def test_busy_queue_delays_a_document(serve: Serve, script: Script) -> None:
    server = serve(files=True, max_pending_requests=1)
    script.may_finish.clear()
    other = server.begin_translate("Hello.")
    server.until_admitted(1)
    sent = server.begin("POST", "/translate_file", **form("a.txt", "Hi."))
    server.run(asyncio.sleep(0.3))
    assert not sent.done()
    script.may_finish.set()
    assert other.result(LIMIT_SECONDS).status_code == 200
    assert sent.result(LIMIT_SECONDS).status_code == 200


def form(name: str, data: str) -> dict[str, Any]:
    return {"files": {"file": (name, data)}, "data": {"source": "en", "target": "pt"}}


def test_texts_of_a_failed_document_are_freed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traceback of a task group refers to itself, so its objects wait for the collector.

    Collecting the whole heap stopped all requests for 300 ms.
    """

    class Text(str):
        """A text to which weak references may refer."""

    server = serve(files=True, max_pending_tokens=64)
    read = server.documents.reader.read
    texts: WeakSet[Text] = WeakSet()

    async def read_texts(name: str, content: Content) -> ReadDocument:
        document = await read(name, content)
        found = [*map(Text, document.texts)]
        texts.update(found)
        return replace(document, texts=[*found])

    monkeypatch.setattr(server.documents.reader, "read", read_texts)
    with without_collections():
        others = "".join(f"{'word ' * 500}{number}.\n\n" for number in range(99))
        assert_error(send(server, "a.txt", others), RequestTooLargeError)
        assert len(texts) <= translator.BATCHES_AT_ONCE  # of 99


def test_many_texts_come_back_in_order(serve: Serve) -> None:
    server = serve(files=True, max_pending_tokens=4096)
    text = "".join(f"Sentence {number} of a text.\n\n" for number in range(3000))
    assert fetch(server, send(server, "a.txt", text)).text == text


def test_no_text_of_a_document_is_logged(
    files: Server, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    send(files, "secretname.txt", "Secretword.")
    send(files, "secretname.exe", "Secretword.")
    assert "ecret" not in caplog.text


def test_images_and_equations_are_counted(files: Server) -> None:
    page = b"<p>One</p><img src=x><p>Two</p><math><mi>x</mi></math><svg></svg>"
    assert send(files, "a.html", page).json()["skipped"] == {"images": 2, "equations": 1}
    assert send(files, "a.txt", b"One").json()["skipped"] == {}
    text = b"One\n\n![Two](x.png)\n\n$x$\n"
    assert send(files, "a.md", text).json()["skipped"] == {"images": 1, "equations": 1}
    content = f"<w:p>{run('One')}<w:r><w:drawing><a:blip {A}/></w:drawing></w:r></w:p>"
    assert send(files, "a.docx", docx(content)).json()["skipped"] == {"images": 1}


def test_error_names_the_texts_at_fault(serve: Serve) -> None:
    server = serve(files=True, max_pending_tokens=512)
    sent = send(server, "a.txt", b"One.\nTwo.\n" + b"word " * 800)
    assert_error(sent, RequestTooLargeError, "texts 3 to 3 of 3 of the document")
