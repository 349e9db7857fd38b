"""One file, from a server that fails in every way it can, and the requests of the client."""

import errno
import gzip
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.models.registry import download as module
from service.models.registry.download import HttpClient, download, open_client, require_space, shown
from service.models.registry.errors import RegistryError
from service.models.registry.files import ModelFile
from service.models.registry.hub import _is_private
from tests.registry import FakeRegistry, Fault, sha256

CONTENT = bytes(range(256)) * 4096  # 1 MiB: several blocks
PATH = "/weights.bin"
NAME = "weights.bin"


class Run:
    """Downloads one file, and notes the pauses and the sizes of the received blocks."""

    def __init__(self, registry: FakeRegistry, folder: Path) -> None:
        self.registry, self.folder = registry, folder
        self.pauses: list[float] = []
        self.blocks: list[int] = []
        self.total: int | None = None
        self.target = folder / NAME

    def __call__(self, path: str = PATH, **changes: Any) -> ModelFile:
        base_url = changes.pop("base_url", self.registry.url)
        known: dict[str, Any] = {"size": len(CONTENT), "sha256": sha256(CONTENT), **changes}
        file = ModelFile(NAME, url=base_url + path, **known)
        http = HttpClient(sleep=self.pauses.append, timeout_seconds=10)
        return download(file, self.folder, http)

    @contextmanager
    def bar(self, total: int | None, **_: Any) -> Iterator["Run"]:
        """The bar of the progress."""
        self.total = total
        yield self

    def update(self, num_bytes: int) -> None:
        self.blocks.append(num_bytes)

    def fails(self, *words: str, **changes: Any) -> str:
        """It fails with one sentence that has these words, and leaves no file of that name.

        Returns the sentence.
        """
        with pytest.raises(RegistryError) as told:
            self(**changes)
        assert [word for word in words if word not in str(told.value)] == []
        assert not self.target.exists()
        return str(told.value)

    def left(self) -> list[str]:
        """Files in the folder."""
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with FakeRegistry() as registry:
        registry.files[PATH] = CONTENT
        run = Run(registry, tmp_path / "cache")
        monkeypatch.setattr(module, "tqdm", run.bar)
        yield run


def test_a_file_is_put_into_place_with_its_sum(run: Run) -> None:
    assert run() == ModelFile(NAME, len(CONTENT), sha256(CONTENT))
    assert run.target.read_bytes() == CONTENT
    assert run.left() == [NAME]
    assert (sum(run.blocks), run.total) == (len(CONTENT), len(CONTENT))


def test_broken_connection_is_tried_again(run: Run) -> None:
    run.registry.faults[PATH] = [Fault(cut=300_000), Fault(cut=200_000)]
    run()
    assert run.target.read_bytes() == CONTENT
    assert run.left() == [NAME]


def test_connection_that_always_breaks_is_given_up(run: Run) -> None:
    run.registry.faults[PATH] = [Fault(cut=50_000)] * 10
    run.fails("failed 5 times", "peer closed connection")
    assert len(run.registry.asked) == 5
    assert run.left() == []


def test_interrupted_download_leaves_nothing(run: Run) -> None:
    """Ctrl-C, after some blocks."""

    class Interrupted(list[int]):
        def append(self, num_bytes: int) -> None:
            super().append(num_bytes)
            if len(self) == 2:
                raise KeyboardInterrupt

    run.blocks = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert run.left() == []
    run.blocks = []
    run()
    assert run.target.read_bytes() == CONTENT


TRANSIENT = [([Fault(status=status)] * 3, [1, 2, 4]) for status in (408, 429, 500, 502, 503, 504)]


@pytest.mark.parametrize(
    ("faults", "pauses"), [*TRANSIENT, ([Fault(429, headers={"Retry-After": "7"})], [7])]
)
def test_transient_failure_is_tried_again(
    run: Run, faults: list[Fault], pauses: list[float]
) -> None:
    run.registry.faults[PATH] = [*faults]
    run()
    assert run.pauses == pauses


def test_server_that_is_not_there_is_told(run: Run) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        run.fails(url + PATH, "failed 5 times", "refused", base_url=url)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "does not exist (404)"),
        (401, "is refused (401)"),
        (403, "is refused (403)"),
        (400, "answers 400"),
    ],
)
def test_failure_that_does_not_pass_is_told_at_once(run: Run, status: int, words: str) -> None:
    run.registry.faults[PATH] = [Fault(status=status)]
    message = run.fails(run.registry.url + PATH, words)
    assert run.pauses == []
    assert "HF_TOKEN" not in message, "only Hugging Face's registry reads this token"


FLIPPED = CONTENT[:77] + b"!" + CONTENT[78:]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (FLIPPED, (sha256(FLIPPED), f"not {sha256(CONTENT)}")),
        (CONTENT[:-1], (f"has {len(CONTENT) - 1} bytes, not 1048576",)),
        (CONTENT * 4, ("has more than 1048576 bytes",)),
    ],
    ids=["flipped byte", "cut short", "longer"],
)
def test_content_that_was_not_published_is_told_and_not_kept(
    run: Run, content: bytes, words: tuple[str, ...]
) -> None:
    run.registry.files[PATH] = content
    run.fails(str(run.target), *words)
    assert run.left() == []
    assert sum(run.blocks) < 2 * len(CONTENT)  # a longer file is not fetched to its end


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_told(run: Run, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(code, "it is full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        run.fails(str(run.target), "the disk is full", "are kept")
    assert run.left() == []
    run()
    assert run.target.read_bytes() == CONTENT


def test_download_that_cannot_fit_is_not_begun(tmp_path: Path) -> None:
    require_space(tmp_path / "not" / "there", 1)
    with pytest.raises(RegistryError, match=r"1152921504606846976 bytes are needed in .*/not"):
        require_space(tmp_path / "not" / "there", 1 << 60)


def test_folder_that_cannot_be_written_is_told(run: Run) -> None:
    run.folder.write_text("a file")
    with pytest.raises(RegistryError, match="cannot be written: .*REGARD_MODEL_CACHE"):
        run()


def test_two_processes_may_fetch_the_same_file(run: Run) -> None:
    """The second one begins and ends while the first one writes."""
    other = Run(run.registry, run.folder)

    class Blocks(list[int]):
        def append(self, num_bytes: int) -> None:
            super().append(num_bytes)
            if len(self) == 2:
                other()

    run.blocks = Blocks()
    assert run() == ModelFile(NAME, len(CONTENT), sha256(CONTENT))
    assert run.target.read_bytes() == CONTENT
    assert run.left() == [NAME]


class TestPacked:
    """Files of Mozilla's registry."""

    @pytest.fixture(autouse=True)
    def _packed(self, run: Run) -> None:
        run.registry.files[PATH] = gzip.compress(CONTENT, mtime=0)

    def test_is_unpacked_and_checked(self, run: Run) -> None:
        assert run(is_packed=True) == ModelFile(NAME, len(CONTENT), sha256(CONTENT))
        assert run.registry.asked[0].headers["Accept-Encoding"] == "gzip"
        assert run.target.read_bytes() == CONTENT
        assert run.left() == [NAME]

    def test_is_taken_as_it_comes_when_the_server_has_unpacked_it(self, run: Run) -> None:
        run.registry.files[PATH] = CONTENT
        run(is_packed=True)
        assert run.target.read_bytes() == CONTENT

    @pytest.mark.parametrize("damage", [-6, 3000, None], ids=["sum", "content", "cut short"])
    def test_damage_is_told_where_no_sum_is_published(self, run: Run, damage: int | None) -> None:
        """Vocabularies have none: gzip's own sum is there."""
        packed = bytearray(run.registry.files[PATH])
        if damage is None:
            del packed[-20:]
        else:
            packed[damage] ^= 1
        run.registry.files[PATH] = bytes(packed)
        words = str(run.target), "cannot be unpacked"
        run.fails(*words, is_packed=True, size=None, sha256=None)
        assert run.left() == []

    @pytest.mark.parametrize(
        ("known", "words"),
        [({"sha256": "0" * 64}, "not 0000"), ({"size": 1000}, "more than 1000 bytes")],
    )
    def test_wrong_content_is_told(self, run: Run, known: dict[str, Any], words: str) -> None:
        run.fails(words, is_packed=True, **known)
        assert run.left() == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/x", True),
        ("http://127.0.0.1:80/x", True),
        ("http://localhost/x", True),
        ("http://example.org/x", False),
        ("http://127.0.0.1.example.org/x", False),
    ],
)
def test_token_is_sent_only_over_https_or_to_this_machine(url: str, expected: bool) -> None:
    assert _is_private(url) is expected


@pytest.mark.parametrize("location", ["http://example.org/y", "HTTP://other.org/y"])
def test_redirect_from_https_to_http_is_refused(location: str) -> None:
    client = open_client()
    redirect = httpx2.Response(302, headers={"Location": location})
    client._transport = httpx2.MockTransport(lambda request: redirect)
    with pytest.raises(RegistryError, match=r"https://example\.org/x redirects away from https"):
        client.get("https://example.org/x?signature=secret")


def test_message_has_neither_password_nor_query() -> None:
    assert shown("https://me:secret@example.org:1/a?signature=secret") == "https://example.org:1/a"


def test_address_of_a_local_file_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"file:///etc/hostname cannot be fetched: .*protocol"):
        HttpClient(sleep=lambda seconds: None).read_json("file:///etc/hostname")


def test_answer_that_breaks_off_is_requested_again() -> None:
    with FakeRegistry() as registry:
        registry.files["/x"] = b'{"a": [1, 2]}'
        registry.faults["/x"] = [Fault(cut=5), Fault(status=500)]
        http = HttpClient(sleep=lambda seconds: None)
        assert http.read_json(f"{registry.url}/x") == {"a": [1, 2]}
        assert len(registry.asked) == 3


def test_redirects_in_a_circle_end() -> None:
    with FakeRegistry() as registry:
        registry.moved["/x"] = "/x"
        with pytest.raises(RegistryError, match="/x cannot be fetched: .*redirects"):
            HttpClient(sleep=lambda seconds: None).read_json(f"{registry.url}/x")
