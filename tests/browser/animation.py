"""Animated pictures in the format APNG, which browsers show as they show PNG."""

import struct
import zlib
from collections.abc import Iterator, Sequence

SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER, DATA, END = b"IHDR", b"IDAT", b"IEND"


def chunks(image: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG: their types and their data."""
    assert image.startswith(SIGNATURE)
    at = len(SIGNATURE)
    while at < len(image):
        (size,) = struct.unpack_from(">I", image, at)
        yield image[at + 4 : at + 8], image[at + 8 : at + 8 + size]
        at += size + 12


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def animated(frames: Sequence[tuple[bytes, int]]) -> bytes:
    """An endless animation of PNG pictures of one size and format.

    Args:
        frames: Each picture, and the milliseconds for which it is shown.
    """
    parts = [dict(chunks(image)) for image, _ in frames]
    header = parts[0][HEADER]
    assert all(part[HEADER] == header for part in parts)
    width, height = struct.unpack_from(">II", header)
    written = [SIGNATURE, chunk(HEADER, header), chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    number = 0
    for index, (image, milliseconds) in enumerate(frames):
        place = struct.pack(">IIIII", number, width, height, 0, 0)
        written.append(chunk(b"fcTL", place + struct.pack(">HHBB", milliseconds, 1000, 0, 0)))
        number += 1
        data = b"".join(data for kind, data in chunks(image) if kind == DATA)
        if index == 0:
            written.append(chunk(DATA, data))
        else:
            written.append(chunk(b"fdAT", struct.pack(">I", number) + data))
            number += 1
    return b"".join([*written, chunk(END, b"")])
