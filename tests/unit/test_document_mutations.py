"""Damaged documents are read or refused; no other error occurs."""

from contextlib import suppress
from random import Random

import pytest

from service.documents.base import DocumentError
from service.documents.formats import FORMATS, read_document
from service.documents.reader import Answer, answer
from tests.archives import archive, members
from tests.document_mutations import DOCUMENTS, mutated

SEEDS = 60


@pytest.mark.parametrize("suffix", FORMATS)
def test_damaged_document_is_read_or_refused(suffix: str) -> None:
    for seed in range(SEEDS):
        data = mutated(DOCUMENTS[suffix], Random(seed))
        kind, *parts = answer([f"a{suffix}".encode(), data])
        assert kind in (Answer.DONE, Answer.DAMAGED, Answer.TOO_LARGE), (seed, parts)
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
    assert len(read_document("a.pptx", data).texts()) == 9
