"""The memory of bodies that arrive in parts, and the parts in which forms are parsed."""

import asyncio
import random
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartParser

from service.api.request.body import CHUNK_BYTES, BodyBuffer, Pieces, parse_multipart
from service.http_server.byte_budget import SMALL_BYTES

MIB = 2**20
PART = bytes(range(256)) * 256


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("reserved", [0, 100, SMALL_BYTES, 1_000_000])
@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES, SMALL_BYTES + 1, 1_000_000])
def test_body_is_whole_however_it_is_divided(size: int, reserved: int) -> None:
    generator = random.Random(size)
    body = generator.randbytes(size)
    buffer = BodyBuffer()
    buffer.reserve(reserved)
    end = 0
    while end < size:
        part = body[end : end + generator.randrange(70_000)]
        buffer.add(part)
        end += len(part)
        assert buffer.size == end
    assert buffer.take() == body
    assert not buffer.size


def test_slow_bodies_take_no_more_memory_than_their_bytes() -> None:
    buffers = [BodyBuffer() for _ in range(64)]
    before = resident_bytes()
    for each in buffers:
        each.reserve(2 * MIB)
    assert resident_bytes() - before < 4 * MIB  # nothing has arrived yet
    between = []
    for _ in range(16):
        for each in buffers:
            each.add(PART)
            between.append(b" " * 1000)
    grown = resident_bytes() - before
    assert 64 * MIB <= grown < 72 * MIB
    for each in buffers:
        assert each.take() == 16 * PART
    assert resident_bytes() - before < 16 * MIB


def test_form_is_parsed_in_chunks_between_which_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of 256 KiB that was full of beginnings of boundaries held the loop for 45 ms."""
    on_part_data = MultiPartParser.on_part_data
    begun: list[tuple[int, int]] = []
    turns = 0

    def count(parser: MultiPartParser, data: bytes, start: int, end: int) -> None:
        begun.append((len(data), turns))
        on_part_data(parser, data, start, end)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def pieces() -> Pieces:
        yield b'--X\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + PART * 16
        yield b"\r\n--X--\r\n"

    async def main() -> list[tuple[str, str]]:
        running = asyncio.create_task(other())
        headers = Headers({"Content-Type": "multipart/form-data; boundary=X"})
        found = await parse_multipart(headers, pieces(), 2 * MIB)
        running.cancel()
        return found

    monkeypatch.setattr(MultiPartParser, "on_part_data", count)
    ((name, value),) = asyncio.run(main())
    assert (name, len(value)) == ("a", len((PART * 16).decode(errors="replace")))
    assert max(size for size, _ in begun) <= CHUNK_BYTES <= 64 * 1024
    assert len({turn for _, turn in begun}) >= MIB // CHUNK_BYTES
