"""One file, from a server that fails in every way it can."""

import errno
import fcntl
import gzip
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.models.registry.errors import (
    AccessRefusedError,
    CacheError,
    DamagedFileError,
    DiskFullError,
    DownloadError,
    NotPublishedError,
    RegistryError,
)
from service.models.registry.files import PARTIAL, PublishedFile, StoredFile
from service.models.registry.sources import download as download_module
from service.models.registry.sources.download import ETAG, download, require_space
from service.models.registry.sources.http_client import PAUSES_SECONDS, HttpClient
from tests.registry import FakeRegistry, Fault, git_id, sha256

CONTENT = bytes(range(256)) * 4096  # 1 MiB: several blocks
PATH = "/weights.bin"
NAME = "weights.bin"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        registry.files[PATH] = CONTENT
        yield registry


class Run:
    """Downloads one file, and notes what is waited for and reported."""

    def __init__(self, registry: FakeRegistry, folder: Path) -> None:
        self.registry, self.folder = registry, folder
        self.pauses: list[float] = []
        self.reports: list[tuple[int, int | None]] = []
        self.target = folder / NAME
        self.part = folder / (NAME + PARTIAL)

    def __call__(self, path: str = PATH, **changes: Any) -> StoredFile:
        base_url = changes.pop("base_url", self.registry.url)
        known: dict[str, Any] = {"size": len(CONTENT), "sha256": sha256(CONTENT), **changes}
        file = PublishedFile(NAME, base_url + path, **known)
        http = HttpClient(sleep=self.pauses.append, timeout_seconds=10)
        return download(file, self.folder, http, lambda *report: self.reports.append(report))

    def fails(self, error: type[RegistryError], *words: str, **changes: Any) -> str:
        """It fails with one sentence that has these words, and leaves no file of that name.

        Returns the sentence.
        """
        with pytest.raises(error) as told:
            self(**changes)
        assert [word for word in words if word not in str(told.value)] == []
        assert not self.target.exists()
        return str(told.value)

    def left(self) -> list[str]:
        """Files in the folder."""
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def run(registry: FakeRegistry, tmp_path: Path) -> Run:
    return Run(registry, tmp_path / "cache")


def test_a_file_is_put_into_place_with_its_sum(run: Run) -> None:
    assert run() == StoredFile(NAME, len(CONTENT), sha256(CONTENT))
    assert run.target.read_bytes() == CONTENT
    assert run.left() == [NAME]
    assert run.reports[0] == (0, len(CONTENT))
    assert run.reports[-1] == (len(CONTENT), len(CONTENT))


def test_broken_connection_is_resumed_where_it_broke(run: Run, registry: FakeRegistry) -> None:
    registry.faults[PATH] = [Fault(cut=300_000), Fault(cut=200_000)]
    run()
    assert run.target.read_bytes() == CONTENT
    assert registry.ranges(PATH) == [None, "bytes=300000-", "bytes=500000-"]


def test_tries_are_counted_from_the_last_that_brought_something(
    run: Run, registry: FakeRegistry
) -> None:
    """Ten broken connections in a row are fine while each of them brings some of the file."""
    registry.faults[PATH] = [Fault(cut=50_000)] * 10
    run()
    assert run.pauses == [PAUSES_SECONDS[0]] * 10


def test_server_that_begins_anew_and_never_gets_further_is_given_up(
    run: Run, registry: FakeRegistry
) -> None:
    registry.has_ranges = False
    registry.faults[PATH] = [Fault(cut=50_000)] * 10
    run.fails(DownloadError, "failed 5 times", "the connection broke after 50000")
    assert len(registry.asked) == 5


def test_interrupted_download_goes_on_at_the_next_call(
    run: Run, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C, after some blocks: they are kept under another name."""
    write: Callable[..., None] = download_module._write_all
    blocks: list[bytes] = []

    def interrupted(output: Any, block: bytes, *rest: Any) -> None:
        write(output, block, *rest)
        blocks.append(block)
        if len(blocks) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download_module, "_write_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run()
    have = sum(map(len, blocks))
    assert not run.target.exists()
    assert run.part.read_bytes() == CONTENT[:have]
    run()
    assert registry.ranges(PATH)[1:] == [f"bytes={have}-"]
    assert run.target.read_bytes() == CONTENT


def test_file_that_has_changed_meanwhile_is_fetched_from_its_beginning(
    run: Run, registry: FakeRegistry
) -> None:
    registry.faults[PATH] = [Fault(cut=1000), *[Fault(status=500)] * 5]
    run.fails(DownloadError)
    other = CONTENT[::-1]
    registry.files[PATH] = other
    assert run(sha256=sha256(other)).sha256 == sha256(other)


def test_part_of_which_nothing_is_known_is_not_continued(run: Run, registry: FakeRegistry) -> None:
    run.folder.mkdir()
    run.part.write_bytes(b"something else")
    run()
    assert registry.ranges(PATH) == [None]


def test_server_without_ranges_gives_the_whole_again(run: Run, registry: FakeRegistry) -> None:
    registry.has_ranges = False
    registry.faults[PATH] = [Fault(cut=1000)]
    run()
    assert run.target.read_bytes() == CONTENT


def test_part_that_is_whole_already_is_only_checked(run: Run, registry: FakeRegistry) -> None:
    """The machine stopped between the last byte and the new name."""
    run.folder.mkdir()
    run.part.write_bytes(CONTENT)
    (run.folder / (NAME + PARTIAL + ETAG)).write_text(f'"{sha256(CONTENT)[:16]}"')
    run()
    assert registry.ranges(PATH) == [f"bytes={len(CONTENT)}-"]
    assert run.left() == [NAME]


def test_part_that_is_too_long_is_thrown_away(run: Run) -> None:
    run.folder.mkdir()
    run.part.write_bytes(CONTENT + b"more")
    (run.folder / (NAME + PARTIAL + ETAG)).write_text(f'"{sha256(CONTENT)[:16]}"')
    run()
    assert run.target.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_transient_failure_is_tried_again(run: Run, registry: FakeRegistry, status: int) -> None:
    registry.faults[PATH] = [Fault(status=status)] * 3
    run()
    assert run.pauses == [1, 2, 4]


def test_pause_that_the_server_asks_for_is_made(run: Run, registry: FakeRegistry) -> None:
    registry.faults[PATH] = [Fault(429, headers={"Retry-After": "7"})]
    run()
    assert run.pauses == [7]


def test_failure_that_lasts_is_told(run: Run, registry: FakeRegistry) -> None:
    registry.faults[PATH] = [Fault(status=500)] * 5
    run.fails(DownloadError, registry.url + PATH, "failed 5 times", "answers 500")
    assert run.pauses == list(PAUSES_SECONDS)


def test_server_that_is_not_there_is_told(run: Run) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        run.fails(DownloadError, url + PATH, "failed 5 times", "refused", base_url=url)


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, NotPublishedError, "does not exist (404)"),
        (401, AccessRefusedError, "is refused (401)"),
        (403, AccessRefusedError, "is refused (403)"),
        (400, DownloadError, "answers 400"),
    ],
)
def test_failure_that_does_not_pass_is_told_at_once(
    run: Run, registry: FakeRegistry, status: int, error: type[RegistryError], words: str
) -> None:
    registry.faults[PATH] = [Fault(status=status)]
    message = run.fails(error, registry.url + PATH, words)
    assert run.pauses == []
    assert "HF_TOKEN" not in message, "only Hugging Face's registry reads this token"


def test_wrong_sum_is_told_and_nothing_of_it_is_left(run: Run, registry: FakeRegistry) -> None:
    flipped = bytearray(CONTENT)
    flipped[77] ^= 1
    registry.files[PATH] = bytes(flipped)
    run.fails(DamagedFileError, str(run.target), sha256(bytes(flipped)), f"not {sha256(CONTENT)}")
    assert run.left() == []


def test_file_that_is_cut_short_at_its_source_is_told(run: Run, registry: FakeRegistry) -> None:
    registry.files[PATH] = CONTENT[:-1]
    run.fails(DamagedFileError, str(run.target), f"has {len(CONTENT) - 1} bytes, not 1048576")
    assert run.left() == []


def test_small_file_is_compared_with_its_id_in_git(run: Run) -> None:
    run(sha256=None, git_sha1=git_id(CONTENT))
    run.target.unlink()
    run.fails(DamagedFileError, "git blob id", "not 12", sha256=None, git_sha1="12")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_keeps_what_is_there_and_says_what_is_needed(
    run: Run, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real = Path.open

    class FullDisk:
        """A file on a disk that has room for 400,000 bytes."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> "FullDisk":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, block: bytes) -> int:
            room = 400_000 - self.file.tell()
            if room <= 0:
                raise OSError(code, "it is full")
            written: int = self.file.write(block[:room])
            return written

    def opened(path: Path, mode: str = "r", *args: Any, **more: Any) -> Any:
        file = real(path, mode, *args, **more)
        return FullDisk(file) if mode == "ab" else file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        run.fails(DiskFullError, str(run.target), "648576 more bytes are needed", "are kept")
    assert run.part.read_bytes() == CONTENT[:400_000]
    run()
    assert registry.ranges(PATH)[1:] == ["bytes=400000-"]
    assert run.target.read_bytes() == CONTENT


def test_download_that_cannot_fit_is_not_begun(tmp_path: Path) -> None:
    require_space(tmp_path / "not" / "there", 1)
    with pytest.raises(DiskFullError, match=r"1152921504606846976 bytes are needed in .*/not"):
        require_space(tmp_path / "not" / "there", 1 << 60)


def test_folder_that_cannot_be_written_is_told(run: Run) -> None:
    run.folder.write_text("a file")
    with pytest.raises(CacheError, match="cannot be written: .*REGARD_MODEL_CACHE"):
        run()


def test_file_that_another_process_fetches_is_left_alone(run: Run) -> None:
    run.folder.mkdir()
    with (
        download_module._locked(run.part),
        pytest.raises(CacheError, match="another `regard`"),
    ):
        run()


def test_file_that_another_process_has_just_finished_is_not_overwritten(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was put into place between being opened here and being locked."""
    run.folder.mkdir()
    run.part.write_bytes(CONTENT)
    lock = fcntl.flock

    def late(output: Any, operation: int) -> None:
        run.part.rename(run.target)
        lock(output, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(CacheError, match="was finished by another `regard`"):
        run()
    assert run.target.read_bytes() == CONTENT


def test_file_longer_than_was_published_is_not_fetched_to_its_end(
    run: Run, registry: FakeRegistry
) -> None:
    registry.files[PATH] = CONTENT * 4
    run.fails(DamagedFileError, str(run.target), "has more than 1048576 bytes")
    assert run.reports[-1][0] < 2 * len(CONTENT)
    assert run.left() == []


class TestPacked:
    """Files of Mozilla's registry."""

    @pytest.fixture(autouse=True)
    def _packed(self, registry: FakeRegistry) -> None:
        registry.files[PATH] = gzip.compress(CONTENT, mtime=0)

    def test_is_unpacked_and_checked(self, run: Run) -> None:
        assert run(is_packed=True) == StoredFile(NAME, len(CONTENT), sha256(CONTENT))
        assert run.target.read_bytes() == CONTENT
        assert run.left() == [NAME]

    def test_is_asked_for_as_it_is_stored(self, run: Run, registry: FakeRegistry) -> None:
        run(is_packed=True)
        assert registry.asked[0].headers["Accept-Encoding"] == "gzip"

    def test_is_taken_as_it_comes_when_the_server_has_unpacked_it(
        self, run: Run, registry: FakeRegistry
    ) -> None:
        registry.files[PATH] = CONTENT
        run(is_packed=True)
        assert run.target.read_bytes() == CONTENT

    def test_is_resumed(self, run: Run, registry: FakeRegistry) -> None:
        registry.faults[PATH] = [Fault(cut=1000)]
        run(is_packed=True)
        assert registry.ranges(PATH) == [None, "bytes=1000-"]
        assert run.target.read_bytes() == CONTENT

    @pytest.mark.parametrize("at", [-6, 3000])
    def test_flipped_bit_is_told_where_no_sum_is_published(
        self, run: Run, registry: FakeRegistry, at: int
    ) -> None:
        """Vocabularies have none: gzip's own sum is there."""
        packed = bytearray(registry.files[PATH])
        packed[at] ^= 1
        registry.files[PATH] = bytes(packed)
        run.fails(
            DamagedFileError,
            str(run.target),
            "cannot be unpacked",
            is_packed=True,
            size=None,
            sha256=None,
        )
        assert run.left() == []

    def test_file_cut_short_is_told(self, run: Run, registry: FakeRegistry) -> None:
        registry.files[PATH] = registry.files[PATH][:-20]
        run.fails(DamagedFileError, "cannot be unpacked", is_packed=True, size=None, sha256=None)

    def test_wrong_sum_of_what_is_in_it_is_told(self, run: Run) -> None:
        run.fails(DamagedFileError, "not 0000", is_packed=True, sha256="0" * 64)
        assert run.left() == []

    def test_more_than_was_published_is_not_unpacked(self, run: Run) -> None:
        run.fails(DamagedFileError, "more than 1000 bytes", is_packed=True, size=1000)
        assert run.left() == []
