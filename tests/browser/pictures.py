"""Pictures of README and docs/; animated ones are APNG, which browsers show as they show PNG."""

import base64
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from playwright.sync_api import Page

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER, DATA, END = b"IHDR", b"IDAT", b"IEND"


def chunks(image: bytes) -> Iterator[tuple[bytes, bytes]]:
    assert image.startswith(SIGNATURE)
    at = len(SIGNATURE)
    while at < len(image):
        (size,) = struct.unpack_from(">I", image, at)
        yield image[at + 4 : at + 8], image[at + 8 : at + 8 + size]
        at += size + 12


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@dataclass(frozen=True)
class Frame:
    """A PNG picture of an animation, which covers the whole animation or a part of it.

    Attributes:
        image: The picture.
        milliseconds: Time for which it is shown.
        place: Left and top edge of the picture in the animation.
    """

    image: bytes
    milliseconds: int
    place: tuple[int, int] = (0, 0)


def animated(frames: Sequence[Frame]) -> bytes:
    headers = [dict(chunks(frame.image))[HEADER] for frame in frames]
    header = headers[0]
    assert all(each[8:] == header[8:] for each in headers)  # the same format of pixels
    written = [SIGNATURE, chunk(HEADER, header), chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    number = 0
    for index, frame in enumerate(frames):
        width, height = struct.unpack_from(">II", headers[index])
        place = struct.pack(">IIIII", number, width, height, *frame.place)
        written.append(chunk(b"fcTL", place + struct.pack(">HHBB", frame.milliseconds, 1000, 0, 0)))
        number += 1
        data = b"".join(data for kind, data in chunks(frame.image) if kind == DATA)
        if index == 0:
            written.append(chunk(DATA, data))
        else:
            written.append(chunk(b"fdAT", struct.pack(">I", number) + data))
            number += 1
    return b"".join([*written, chunk(END, b"")])


PIXELS = """async (png) => {
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    return [...context.getImageData(0, 0, image.width, image.height).data];
}"""
STEP = 51
"""Distance between two values of a colour in a picture of few colours."""


def with_few_colours(image: bytes, page: Page) -> bytes:
    """Returns a picture with a palette, which takes a third of the bytes."""
    width, height = struct.unpack_from(">II", dict(chunks(image))[HEADER])
    values = page.evaluate(PIXELS, base64.b64encode(image).decode())
    pixels = np.array(values, np.uint8).reshape(-1, 4)[:, :3]
    nearest = (pixels.astype(int) + STEP // 2) // STEP * STEP
    found, places = np.unique(nearest.astype(np.uint8), axis=0, return_inverse=True)
    rows = places.reshape(height, width).astype(np.uint8)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows), 9)
    parts = [(HEADER, header), (b"PLTE", found.tobytes()), (DATA, data), (END, b"")]
    return SIGNATURE + b"".join(chunk(*part) for part in parts)


def keep(name: str, image: bytes, few_colours: Page | None = None) -> None:
    """Keeps a picture only where it is asked for: fonts differ between machines.

    A page that is given reduces the colours of the picture.
    """
    if os.environ.get("REGARD_WRITE_IMAGES"):
        if few_colours is not None:
            image = with_few_colours(image, few_colours)
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / name).write_bytes(image)
