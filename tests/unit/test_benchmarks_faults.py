"""The files of benchmarks.faults: documents that the server reads, and bombs that open."""

import bz2
import io
import json
from zipfile import ZIP_BZIP2, ZIP_LZMA, BadZipFile, ZipFile

import pytest

from benchmarks.faults import files, texts
from service.documents.formats import read_document


@pytest.mark.parametrize("kind", files.FORMATS)
def test_valid_document_has_texts(kind: str) -> None:
    document = read_document(f"a.{kind}", files.valid(kind))
    assert files.SENTENCE in document.texts()


@pytest.mark.parametrize("kind", files.FORMATS)
def test_mutations_differ_and_are_the_same_in_every_run(kind: str) -> None:
    first, second = ([*files.mutations(kind, 20)] for _ in range(2))
    assert first == second
    assert len({content for _, content in first} - {files.valid(kind)}) > 10


def test_bzip2_stream_of_equal_blocks_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ZEROS", 1000)
    assert bz2.decompress(files.bzip2_zeros(7)) == bytes(7000)


@pytest.mark.parametrize("method", [ZIP_BZIP2, ZIP_LZMA])
def test_directory_of_a_bomb_hides_its_size(method: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ZEROS", 1_000_000)
    packed = files.bzip2_zeros(1) if method == ZIP_BZIP2 else files.lzma_zeros(10_000_000)
    with ZipFile(io.BytesIO(files.false_size(method, packed))) as archive:
        (info,) = archive.infolist()
        assert (info.compress_type, info.file_size) == (method, 1000)
        with pytest.raises(BadZipFile, match="CRC"), archive.open(info) as member:
            assert member.read(1000)


@pytest.mark.parametrize("kind", files.PARTS_OF)
def test_bomb_is_read_as_a_document_of_its_format(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PART_BYTES", 1500)
    bombs = [*files.bombs(kind)]
    assert len(bombs) == len(files.BODIES) + 3
    for name, content in bombs:
        if name.startswith("depth."):  # too deep for the parser
            continue
        document = read_document(f"a.{kind}", content)
        assert files.SENTENCE in " ".join(document.texts()), name


@pytest.mark.parametrize("kind", ["md", "po", "json", "xliff", "csv"])
def test_document_of_one_mark_is_as_large_as_said(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MARK_BYTES", 4000)
    found = [*files.marks(kind)]
    assert len(found) == len(files.MARKS)
    assert all(3500 <= len(content) <= 4500 for _, content in found)


def test_text_of_the_xml_request_is_escaped() -> None:
    request = texts.request_of(8000, "xml", "<%", 1000)
    head, _, body = request.partition(b"\r\n\r\n")
    assert b"X-Request-Timeout-Ms: 1000" in head
    assert json.loads(body)["text"] == ["&lt;%"]
