"""Checkpoints with random damage: each loads, or is refused with a CheckpointError.

The environment variable FUZZ_SECONDS sets the time for each kind of checkpoint, such as 60.
"""

import random
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import CheckpointError
from tests.ctranslate2_folders import write_opennmt
from tests.fuzzing import fuzzed, seeds
from tests.unit.test_damaged_checkpoints import KINDS, Kind, start, text_encoder

pytestmark = fuzzed

MAX_GROWTH_BYTES = 2**30
NUMBERS = (b"0", b"-1", b"4294967295", b"1e999", b"NaN", b"null", b'"x"', b"[]", b"{}", b"true")
"""Values that replace a number in a text file."""

CONVERTED = Kind(write_opennmt, "model.bin", "", "shared_vocabulary.json", Path.touch, ({}, ""))
ENCODERS = {name: text_encoder(name) for name in ("roberta", "mpnet", "modernbert")}
FUZZED = {**KINDS, **ENCODERS, "ctranslate2": CONVERTED}

Damage = Callable[[bytes, random.Random], bytes]


def cut(content: bytes, generator: random.Random) -> bytes:
    return content[: generator.randrange(len(content) + 1)]


def flip(content: bytes, generator: random.Random) -> bytes:
    """Changes a few bytes, often among the first ones, which are counts and offsets."""
    changed = bytearray(content)
    for _ in range(generator.randint(1, 8)):
        end = len(changed) if generator.random() < 0.5 else min(len(changed), 256)
        changed[generator.randrange(end)] = generator.choice((0, 1, 127, 128, 255))
    return bytes(changed)


def repeat(content: bytes, generator: random.Random) -> bytes:
    begin = generator.randrange(len(content))
    part = content[begin : begin + generator.randint(1, 4096)]
    return content[:begin] + part * generator.randint(2, 5) + content[begin:]


def renumber(content: bytes, generator: random.Random) -> bytes:
    """Replaces one number of a text file."""
    places = [index for index, byte in enumerate(content) if chr(byte).isdigit()]
    if not places:
        return flip(content, generator)
    begin = end = generator.choice(places)
    while end < len(content) and chr(content[end]).isdigit():
        end += 1
    return content[:begin] + generator.choice(NUMBERS) + content[end:]


DAMAGES: tuple[Damage, ...] = (cut, flip, repeat, renumber)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("name", FUZZED)
def test_random_damage_ends_in_a_checkpoint_error(name: str, tmp_path: Path) -> None:
    kind = FUZZED[name]
    folder = tmp_path / "en-de"
    folder.mkdir()
    kind.write(folder)
    start(kind, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    before = peak_bytes()
    for seed in seeds():
        generator = random.Random(f"{name} {seed}")
        path = generator.choice(files)
        damage = generator.choice(DAMAGES)
        content = path.read_bytes()
        path.write_bytes(damage(content, generator))
        try:
            start(kind, folder)
        except CheckpointError:
            pass
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {damage.__name__} of {path.name}") from error
        finally:
            path.write_bytes(content)
    assert peak_bytes() - before < MAX_GROWTH_BYTES
