"""A document of each format, and damaged ones that are made from it."""

from random import Random

from tests.archives import archive, members
from tests.unit.test_documents_archives import FILES
from tests.unit.test_documents_text import TEXTS

DOCUMENTS: dict[str, bytes] = {
    **{suffix: text.encode() for suffix, text in TEXTS.items()},
    ".htm": TEXTS[".html"].encode(),
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
