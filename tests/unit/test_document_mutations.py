"""Damaged documents are read or refused; no other error occurs."""

from contextlib import suppress
from random import Random

import pytest

from service.documents.base import DocumentError
from service.documents.formats import FORMATS, read_document
from service.documents.reader import DAMAGED, DONE, TOO_LARGE, answer
from tests.archives import archive, members, pdf
from tests.unit.test_documents_archives import FILES
from tests.unit.test_documents_text import TEXTS

DOCUMENTS: dict[str, bytes] = {
    **{suffix: text.encode() for suffix, text in TEXTS.items()},
    ".htm": TEXTS[".html"].encode(),
    ".ssa": TEXTS[".ass"].encode(),
    ".yaml": TEXTS[".yml"].encode(),
    ".pdf": pdf("The cat sat on the mat. It is an old", "cat.", "", "Title"),
    **{name[1:]: data for name, (data, _) in FILES.items()},
}
"""Maps each extension to a document with most features of its format."""

_INSERTED = (b"<", b">", b"&", b'"', b"</", b"<!--", b"\0", b"\xff", b"9" * 5000)


def mutated(data: bytes, generator: Random) -> bytes:
    """Returns a document with random changes.

    Half of the changes to an archive are changes to one of its files.
    """
    if data.startswith(b"PK") and generator.random() < 0.5:
        files = members(data)
        name = generator.choice([*files])
        files[name] = _changed(files[name], generator)
        return archive(files)
    return _changed(data, generator)


def _changed(data: bytes, generator: Random) -> bytes:
    for _ in range(generator.choice((1, 1, 2, 8))):
        first, last = sorted(generator.randrange(len(data) + 1) for _ in range(2))
        last = min(last, first + 2 ** generator.randrange(10))
        part = data[first:last]
        changes = (
            b"",  # cut out
            part * generator.choice((2, 50)),
            bytes(byte ^ 1 << generator.randrange(8) for byte in part[:4]) + part[4:],
            generator.randbytes(generator.randrange(5)),
            generator.choice(_INSERTED),
            part[::-1],
        )
        end = generator.choice((last, last, last, len(data)))  # cut off
        data = data[:first] + generator.choice(changes) + data[end:]
    return data


SEEDS = 60


@pytest.mark.parametrize("suffix", FORMATS)
def test_damaged_document_is_read_or_refused(suffix: str) -> None:
    for seed in range(SEEDS):
        data = mutated(DOCUMENTS[suffix], Random(seed))
        kind, *parts = answer([f"a{suffix}".encode(), data])
        assert kind in (DONE, DAMAGED, TOO_LARGE), (seed, parts)
        with suppress(DocumentError):
            document = read_document(f"a{suffix}", data)
            texts = document.texts()
            document.write(texts, "pt")
            document = read_document(f"a{suffix}", data)
            document.write([text[:2] + "<b>" + text[2:] for text in texts], "pt")


def test_long_number_of_a_slide_is_no_fault() -> None:
    files = members(DOCUMENTS[".pptx"])
    slide = files.pop("ppt/slides/slide1.xml")
    data = archive({**files, f"ppt/slides/slide{'9' * 5000}.xml": slide})
    assert len(read_document("a.pptx", data).texts()) == 10
