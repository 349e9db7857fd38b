"""DeepL's /v2/document: upload, status, one download, and errors in DeepL's shape."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.documents.xml_files import FREE_BYTES
from service.errors import QuotaExceededError
from tests.api.conftest import Serve, ServeAny
from tests.api.servers import AnyServer, Server, assert_error
from tests.archives import archive, content_of
from tests.workers import Script, until

BOMB = archive({"word/document.xml": bytes(2 * FREE_BYTES)})
TEXT = "Hello there.\n\nGood day.\n"
PORTUGUESE = "O tempo hoje está muito bonito, meus amigos."
UNREADABLE = "Invalid request: the file cannot be read"


def upload(server: AnyServer, name: str, data: bytes | str, **fields: Any) -> httpx.Response:
    form = {"source_lang": "EN", "target_lang": "PT-BR", **fields}
    sent = {key: value for key, value in form.items() if value is not None}
    return server.post("/v2/document", files={"file": (name, data)}, data=sent)


class Handle:
    """An uploaded document."""

    def __init__(self, server: AnyServer, name: str, data: bytes | str, **fields: Any) -> None:
        response = upload(server, name, data, **fields)
        assert response.status_code == 200, response.text
        assert response.json().keys() == {"document_id", "document_key"}
        self.server = server
        assert re.fullmatch("[0-9A-F]{32}", response.json()["document_id"])
        assert re.fullmatch("[0-9A-F]{64}", response.json()["document_key"])
        self.path = f"/v2/document/{response.json()['document_id']}"
        self.key = {"document_key": response.json()["document_key"]}

    def status(self) -> dict[str, Any]:
        response = self.server.post(self.path, json=self.key)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        assert body.pop("document_id") == self.path.rpartition("/")[2]
        return body

    def until_over(self) -> dict[str, Any]:
        until(lambda: self.status()["status"] in ("done", "error"))
        return self.status()

    def result(self) -> httpx.Response:
        return self.server.post(f"{self.path}/result", data=self.key)


def assert_refused(response: httpx.Response, status: int, message: str, *words: str) -> None:
    assert response.status_code == status
    assert response.json()["message"] == message
    for word in words:
        assert word in response.json()["detail"]


def test_document_is_translated_and_downloaded_once(serve_any: ServeAny) -> None:
    server = serve_any(files=True)
    handle = Handle(server, "a.txt", TEXT)
    assert handle.until_over() == {"status": "done", "billed_characters": 21}
    response = handle.result()
    assert response.text == TEXT
    assert response.headers["content-disposition"].endswith("''a.pt.txt")
    assert_refused(handle.result(), 404, "Document not found", "after its download")
    assert_refused(server.post(handle.path, json=handle.key), 404, "Document not found")
    until(lambda: server.get("/v2/usage").json()["character_count"] == 21)


def test_progress_is_reported_and_the_result_is_not_ready(files: Server, script: Script) -> None:
    script.may_finish.clear()
    handle = Handle(files, "a.txt", TEXT)
    files.until_admitted(1)
    assert handle.status() == {"status": "translating"}
    early = handle.result()
    assert_refused(early, 503, "The document is being translated; ask again")
    assert int(early.headers["retry-after"]) >= 1
    assert files.sample("regard_inflight_requests", task="document") == 1
    script.may_finish.set()
    assert handle.until_over()["status"] == "done"
    until(lambda: not files.sample("regard_inflight_requests", task="document"))
    assert files.num_requests("ok", task="document") == 1


def test_progress_of_a_long_document_grows(serve: Serve, script: Script) -> None:
    """Batches of 64 characters have four of these lines. The last of three batches waits."""
    server = serve(files=True, max_pending_tokens=64)
    script.stuck.add(server.token("Stuck"))
    lines = [f"This is line {number}." for number in range(10, 21)] + ["Stuck here."]
    handle = Handle(server, "a.txt", "\n\n".join(lines))
    until(lambda: handle.status().get("progress") == 0.667)
    status = handle.status()
    assert status["status"] == "translating"
    assert status["seconds_remaining"] >= 1
    assert_refused(handle.result(), 503, "The document is being translated; ask again")
    script.stuck.clear()
    assert handle.until_over()["status"] == "done"
    assert handle.result().text == "\n\n".join(lines)


def test_late_document_ends_with_an_error(serve: Serve, script: Script) -> None:
    server = serve(files=True, file_timeout_seconds=2)
    script.may_finish.clear()
    # The start of the process that reads documents takes some of the two seconds.
    server.run(server.documents.reader.read("a.txt", content_of(b"Hi.")))
    handle = Handle(server, "a.txt", TEXT)
    status = handle.until_over()
    assert status["status"] == "error"
    assert "was not translated in 2 s" in status["message"]
    assert status["message"] == status["error_message"]
    assert_refused(handle.result(), 400, "The document was not translated.", "2 s")


def test_name_and_format_may_be_given_and_the_language_is_detected(files: Server) -> None:
    fields = {"source_lang": None, "target_lang": "EN-US", "output_format": "txt"}
    handle = Handle(files, "upload", PORTUGUESE, filename="b.txt", **fields)
    assert handle.until_over()["status"] == "done"
    assert handle.result().headers["content-disposition"].endswith("''b.en.txt")


@pytest.mark.parametrize(
    ("text", "source", "status"),
    [(PORTUGUESE, None, "error"), (PORTUGUESE, "PT", "error"), ("12 + 3", None, "done")],
)
def test_document_in_the_target_language_is_an_error(
    files: Server, text: str, source: str | None, status: str
) -> None:
    found = Handle(files, "a.txt", text, source_lang=source).until_over()
    assert found["status"] == status
    if status == "error":
        assert found["message"].startswith("Source and target language are equal.")


@pytest.mark.parametrize(
    ("name", "data", "fields", "status", "message"),
    [
        ("a.exe", b"a", {"output_format": "out"}, 400, "Invalid file"),
        ("a.txt", b"", {}, 400, "Value for 'file' not supported."),
        ("a.docx", b"a", {}, 400, UNREADABLE),
        ("a.docx", BOMB, {}, 413, UNREADABLE),
        ("a.txt", b"a", {"target_lang": None}, 400, "Parameter 'target_lang' not specified"),
        ("a.txt", b"a", {"target_lang": "zz"}, 400, "Value for 'target_lang' not supported."),
        ("a.txt", b"a", {"source_lang": "zz"}, 400, "Value for 'source_lang' not supported."),
        ("a.txt", b"a", {"output_format": "pdf"}, 400, "Value for 'output_format' not supported."),
        ("a.txt", b"a", {"glossary_id": "x"}, 404, "Glossary not found"),
        ("a.txt", b"a", {"glossary_id": "x", "source_lang": None}, 404, "Glossary not found"),
        ("a.txt", b"a", {"glossary_ids": "a,b,c,d,e,f"}, 400, "Too many glossaries"),
        ("a.txt", b"a", {"style_id": "x"}, 400, "'style_id' is not available on this server."),
    ],
)
def test_wrong_upload_is_refused(
    files: Server, name: str, data: bytes, fields: dict[str, Any], status: int, message: str
) -> None:
    assert_refused(upload(files, name, data, **fields), status, message)


def test_upload_without_a_file_is_refused(files: Server) -> None:
    response = files.post("/v2/document", data={"target_lang": "PT"})
    assert_refused(response, 400, "Parameter 'file' not specified")


def test_id_or_key_of_another_document_is_refused(files: Server) -> None:
    handle, other = Handle(files, "a.txt", TEXT), Handle(files, "b.txt", TEXT)
    for path, key in ((handle.path, other.key), ("/v2/document/x", handle.key)):
        for suffix in ("", "/result"):
            assert_refused(files.post(path + suffix, json=key), 404, "Document not found")
    assert_refused(files.post(handle.path), 400, "Parameter 'document_key' not specified")


def test_documents_are_refused_while_they_are_off(server: Server) -> None:
    for path in ("", "/x", "/x/result"):
        response = server.post(f"/v2/document{path}", json={"document_key": "x"})
        words = "Files translation are disabled on this server."
        assert_refused(response, 403, words, "REGARD_FILES")


def test_terms_of_a_glossary_are_used(serve: Serve, tmp_path: Path) -> None:
    server = serve(files=True, state=str(tmp_path))
    glossary = {"name": "a", "source_lang": "en", "target_lang": "pt", "entries": "cat\tfelino"}
    made = server.post("/v2/glossaries", json={**glossary, "entries_format": "tsv"}).json()
    ids = made["glossary_id"]
    for fields in (
        {"glossary_id": ids},
        {"glossary_ids": ids},
        {"glossary_id": ids, "source_lang": None},
    ):
        handle = Handle(server, "a.txt", "The cat.", **fields)
        assert handle.until_over()["status"] == "done"
        assert handle.result().text == "The felino."


def test_documents_spend_the_quota_and_failed_ones_do_not(
    serve: Serve, script: Script, tmp_path: Path
) -> None:
    server = serve(files=True, max_files=1, monthly_characters=20, state=str(tmp_path))
    script.poison.add(server.token("Bad"))
    assert Handle(server, "a.txt", "Bad day, all day.").until_over()["status"] == "error"
    until(lambda: server.get("/v2/usage").json()["character_count"] == 0)
    assert Handle(server, "a.txt", "Hello there.").until_over()["status"] == "done"
    until(lambda: server.documents.num_open == 0)
    for _ in range(2):  # a refused document frees its place
        assert_refused(upload(server, "a.txt", TEXT), 456, "Quota exceeded", "12 of 20")
    form = {"source": "en", "target": "pt"}
    late = {"file": ("a.txt", "Good day!")}
    response = server.post("/translate_file", files=late, data=form)
    assert_error(response, QuotaExceededError, "12 of 20")
    response = server.post("/translate_file", files={"file": ("a.txt", "Hi you.")}, data=form)
    assert response.status_code == 200
    assert server.get("/v2/usage").json()["character_count"] == 19
