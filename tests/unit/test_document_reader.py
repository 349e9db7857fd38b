"""The process that reads documents, and the store of translated documents."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path, PurePath

import pytest

from service.documents import reader as reader_module
from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.formats import FORMATS, read_document, written_extension
from service.documents.reader import DocumentReader
from service.errors import UnavailableError
from service.state.documents import DocumentState, DocumentStore
from service.tasks.documents import translated_name
from tests.archives import bytes_of, content_of, docx, run, upper
from tests.unit.test_document_mutations import DOCUMENTS
from tests.workers import LIMIT_SECONDS

MAX_BYTES = 20 * 2**20
HTML = b"<p>a <b>b</b>" * 150_000
"""A page that is read for some seconds."""


@asynccontextmanager
async def opened(seconds: int) -> AsyncIterator[DocumentReader]:
    reader = DocumentReader(MAX_BYTES, seconds)
    try:
        yield reader
    finally:
        reader.close()
    assert reader.process is None or reader.process.child.returncode is not None


@pytest.fixture
def seconds() -> int:
    """Processor time of a document. A test may parametrize it."""
    return 60


@pytest.fixture
def reader(seconds: int) -> AbstractAsyncContextManager[DocumentReader]:
    return opened(seconds)


async def assert_reads(reader: DocumentReader) -> None:
    assert (await reader.read("a.txt", content_of(b"Hello."))).texts == ["Hello."]


async def child_of(reader: DocumentReader) -> int:
    """Returns the pid of the child that reads a document."""
    while True:
        if reader.process is not None:
            pid = reader.process.child.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if children:
                return int(children[0])
        await asyncio.sleep(0.01)


async def until_gone(pid: int) -> None:
    while Path(f"/proc/{pid}").exists():
        await asyncio.sleep(0.01)


async def test_process_gives_the_same_as_the_format(reader: DocumentReader) -> None:
    for suffix in FORMATS:
        name, data = f"a{suffix}", DOCUMENTS[suffix]
        content = content_of(data)
        document = read_document(name, data)
        texts = document.texts()
        translations = [*map(upper, texts)]
        found = await reader.read(name, content)
        assert (found.texts, found.is_html) == (texts, document.is_html), suffix
        assert found.num_chars >= len(found.sample.replace("\n", "")) > 0, suffix
        assert "<" not in found.sample, suffix
        await reader.write(name, content, translations, "pt")
        written = bytes_of(content)
        assert written
        name = f"a{written_extension(PurePath(name))}"
        expected = read_document(name, document.write(translations, "pt")).texts()
        assert read_document(name, written).texts() == expected, suffix


async def test_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "MEMORY_FACTOR", 1)
    monkeypatch.setattr(reader_module, "MIN_MEMORY", 0)
    async with opened(60) as reader:
        for name, data in (("a.html", HTML), ("a.docx", docx(f"<w:p>{run('a')}</w:p>" * 40_000))):
            with pytest.raises(DocumentTooLargeError, match=f"{MAX_BYTES} bytes of memory.*split"):
                await reader.read(name, content_of(data))
            await assert_reads(reader)
        with pytest.raises(DocumentTooLargeError, match="of memory"):
            await reader.write("a.txt", content_of(b"Hello."), ["a" * 2 * MAX_BYTES], "pt")


@pytest.mark.parametrize("seconds", [1])
async def test_too_much_time_is_refused(reader: DocumentReader) -> None:
    with pytest.raises(DocumentTooLargeError, match="1 s of processor time; split it"):
        await reader.read("a.html", content_of(HTML))
    await assert_reads(reader)


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (signal.SIGKILL, DocumentTooLargeError, "of memory"),  # as the kernel does without memory
        (signal.SIGSEGV, DocumentError, "ends the process that reads it"),
    ],
)
async def test_killed_child_costs_one_document(
    number: int, kind: type[DocumentError], words: str, reader: DocumentReader
) -> None:
    reading = asyncio.create_task(reader.read("a.html", content_of(HTML)))
    os.kill(await child_of(reader), number)
    with pytest.raises(kind, match=words):
        await reading
    await assert_reads(reader)


async def test_killed_process_is_replaced(reader: DocumentReader) -> None:
    reading = asyncio.create_task(reader.read("a.html", content_of(HTML)))
    child = await child_of(reader)
    assert reader.process is not None
    reader.process.child.kill()
    with pytest.raises(DocumentTooLargeError):
        await reading
    await until_gone(child)
    await assert_reads(reader)


def test_cancelled_reading_ends_at_once() -> None:
    async def main() -> None:
        async with opened(60) as reader:
            reading = asyncio.create_task(reader.read("a.html", content_of(HTML)))
            waiting = asyncio.create_task(reader.read("a.txt", content_of(b"Hello.")))
            child = await child_of(reader)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert (await waiting).texts == ["Hello."]
            await until_gone(child)

    before = threading.active_count()
    asyncio.run(main())
    assert threading.active_count() <= before


async def test_kernel_ends_the_process_before_the_server(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "NICENESS", 10)  # the tests of the API set it to 0
    reading = asyncio.create_task(reader.read("a.html", content_of(HTML)))
    child = await child_of(reader)
    while Path(f"/proc/{child}/oom_score_adj").read_text() != "1000\n":
        await asyncio.sleep(0.01)  # the child sets it after its start
    assert os.getpriority(os.PRIO_PROCESS, child) >= 10
    reading.cancel()


async def test_stop_of_the_server_leaves_no_process(reader: DocumentReader) -> None:
    """A reading whose thread has not begun is cancelled, and later ones start no process."""
    begun, end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        end.wait()

    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, wait)
    begun.wait()
    reading = asyncio.create_task(reader.read("a.txt", content_of(b"Hello.")))
    waiting = asyncio.create_task(reader.read("b.txt", content_of(b"Hello.")))
    while reader.process is None:
        await asyncio.sleep(0)
    process = reader.process
    reader.is_closed = True
    for _ in range(3):
        for task in asyncio.all_tasks() - {asyncio.current_task(), waiting}:
            task.cancel()
        await asyncio.sleep(0)
    assert process.child.returncode is not None
    with pytest.raises(UnavailableError):
        await waiting
    assert reading.cancelled()
    assert reader.process is process
    end.set()
    await busy


async def test_refused_document_is_freed_without_garbage_collection(reader: DocumentReader) -> None:
    class Name(str):
        """A name that is freed with its document, and to which weak references may refer."""

    gc.collect()
    gc.disable()
    try:
        name = Name("a.xlf")
        freed = weakref.ref(name)
        with pytest.raises(DocumentError):
            await reader.read(name, content_of(b"<a>"))
        del name
        async with asyncio.timeout(LIMIT_SECONDS):
            while freed() is not None:  # the thread lets its work go after it has given the result
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


async def test_fault_of_a_format_is_logged_without_the_text(
    caplog: pytest.LogCaptureFixture, reader: DocumentReader
) -> None:
    """Too few translations are a fault of the server."""
    with pytest.raises(DocumentError, match="the server's log says where"):
        await reader.write("a.xlf", content_of(DOCUMENTS[".xlf"]), ["secret"], "pt")
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


async def test_process_that_cannot_start_is_a_fault_of_the_server(
    monkeypatch: pytest.MonkeyPatch, reader: DocumentReader
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(reader_module, "module_command", lambda _: ["false"])
        with pytest.raises(RuntimeError, match="ended with status 1"):
            await reader.read("a.txt", content_of(b"Hello."))
    await assert_reads(reader)


ENDING = """
import asyncio, os, signal
from service.documents.reader import DocumentReader
from tests.archives import content_of

async def main():
    content = content_of(b"<p>a <b>b</b>" * 150_000)
    reader = DocumentReader(2**20 * 20)
    reading = asyncio.create_task(reader.read("a.html", content))
    children = ""
    while not children:
        await asyncio.sleep(0.01)
        pid = reader.process.child.pid if reader.process else os.getpid()
        children = open(f"/proc/{pid}/task/{pid}/children").read() if reader.process else ""
    print(children, pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_processes_end_with_the_server() -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    pids = [*map(int, done.stdout.split())]
    assert len(pids) == 2
    for pid in pids:
        await until_gone(pid)


MARKS = [*"-*>#|<[&\"\\ _=`~(!{.1a'/:é", "- ", "> ", "[x]", "a@a.", "\\a", "|-", "{\\", "1. "]
MARKED = {
    ".txt": "{}",
    ".md": "{}",
    ".html": "<p>{}</p>",
    ".srt": "1\n00:00:01,000 --> 00:00:02,000\n{}\n",
    ".po": 'msgid "a{}"\nmsgstr ""\n',
    ".json": '["a{}"]',
    ".xlf": '<xliff version="1.2"><trans-unit><source>{}</source></trans-unit></xliff>',
}


@pytest.mark.parametrize("suffix", MARKED)
@pytest.mark.parametrize("seconds", [20])
async def test_repeated_mark_needs_little_memory_and_time(
    suffix: str, reader: DocumentReader
) -> None:
    """A regular expression that repeats a group takes 115 bytes for each repetition.

    20 MB of one mark took 2.8 GB in Markdown.
    """
    num_chars, megabytes = (2**15, 32) if suffix in (".md", ".srt") else (2**16, 7)
    pages = [MARKED[suffix].replace("{}", mark * (num_chars // len(mark))) for mark in MARKS]
    reader.max_bytes = megabytes * 2**20
    refused = []
    for page in pages:
        try:
            await reader.read(f"a{suffix}", content_of(page.encode()))
        except DocumentError as error:
            refused.append(str(error))
    assert not [each for each in refused if "of memory" in each or "processor time" in each]


async def test_memory_of_markdown_is_bounded(reader: DocumentReader) -> None:
    """The blocks and the tokens of a page were kept together: 56 times its size."""
    line = "The **old** house stood on the [hill](https://a.b) and *nobody* knew `it`.\n"
    page = (line + line + "\n") * 7_000
    reader.max_bytes = 46 * len(page)
    found = await reader.read("a.md", content_of(page.encode()))
    assert len(found.texts) == 7_000


def test_one_of_two_callers_takes_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second caller comes after the first one has removed one of the two files."""
    store = DocumentStore(str(tmp_path))
    state = DocumentState("a.txt", 4, time.time() + 60)
    store.finish(state, content_of(b"text"))
    unlink = Path.unlink
    second: list[bytes | None] = []

    def interrupted(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        monkeypatch.setattr(Path, "unlink", unlink)
        second.append(bytes_of(store.take(state.id)))

    monkeypatch.setattr(Path, "unlink", interrupted)
    assert sorted([bytes_of(store.take(state.id)), *second], key=bool) == [None, b"text"]
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "sendfile", fail)
    state = DocumentState("a.txt", 4, time.time() + 60)
    with pytest.raises(OSError, match="No space"):
        DocumentStore(str(tmp_path)).finish(state, content_of(b"text"))
    assert list(tmp_path.iterdir()) == []


def test_expired_documents_are_found_without_reading_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All states were parsed at each upload: 47 ms on the event loop at 2,000 documents."""
    store, now = DocumentStore(str(tmp_path)), time.time()
    kept = [DocumentState("a.txt", 4, now + 60 + number) for number in range(20)]
    expired = [DocumentState("a.txt", 4, now - 1) for _ in range(20)]
    for state in (*kept, *expired):
        store.finish(state, content_of(b"text"))
    with monkeypatch.context() as patch:
        patch.setattr(json, "loads", None)
        patch.setattr(Path, "read_bytes", None)
        num_bytes, expires = store.remove_expired()
    assert expires == pytest.approx(kept[0].expires)
    assert store.remove_expired() == (20 * 4, expires)
    assert num_bytes >= 20 * 4
    assert all(store.load(state.id) == state for state in kept)
    assert len([*tmp_path.iterdir()]) == 40


def test_saved_state_expires_later(tmp_path: Path) -> None:
    store, state = DocumentStore(str(tmp_path)), DocumentState("a.txt", 4, time.time() - 1)
    store.save(state)
    state.expires += 60
    store.save(state)
    store.remove_expired()
    assert store.load(state.id) == state


def test_missing_folder_has_no_documents(tmp_path: Path) -> None:
    assert DocumentStore(str(tmp_path / "gone")).remove_expired() == (0, None)


@pytest.mark.parametrize("name", ["\u3000.docx", "\u200b.docx", "dir\\.docx", ".docx"])
def test_name_without_letters_gets_one(name: str) -> None:
    assert translated_name(name, "pt") == "document.pt.docx"
