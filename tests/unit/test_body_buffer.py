"""The memory of bodies that arrive in parts."""

import random
from pathlib import Path

import pytest

from service.api.request.body import BodyBuffer
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
