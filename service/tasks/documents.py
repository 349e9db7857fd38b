"""The document task: reads an uploaded file, translates its texts, writes it, keeps it.

A document is translated in batches of texts, several batches at a time. Each batch is admitted
separately. A long document therefore takes no more room in the queue than a few requests do.
"""

import asyncio
import logging
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

from model.sequence import DecodingOptions, batches
from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.formats import format_of, written_extension
from service.documents.reader import DocumentReader, ReadDocument
from service.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    OverloadedError,
    RequestTooLargeError,
    ServiceError,
    fault,
)
from service.settings import Settings
from service.state.documents import Content, DocumentState, DocumentStore
from service.state.quota import Quota
from service.tasks.context import RequestContext
from service.tasks.threads import SWITCH_SECONDS
from service.tasks.translation.neighbors import Neighbors
from service.tasks.translation.translator import TranslationRequest, Translator
from service.text.glossary import Terms

T = TypeVar("T")

logger = logging.getLogger("regard.documents")

# Largest length of the stem of a translation's file name. A longer stem is cut.
MAX_NAME_CHARS = 100

# Largest number of characters in a batch, unless the batch is one longer text.
BATCH_CHARS = 16_000

# Number of batches of one document that are translated at the same time.
BATCHES_AT_ONCE = 4

# Limits on the total size of the kept translations, and of the documents that are being translated,
# as multiples of REGARD_MAX_FILE_BYTES. Over the first limit, further documents are refused. A
# document over the second limit is refused while other documents are translated.
KEPT_DOCUMENTS = 16
OPEN_DOCUMENTS = 8

# Memory that a text and its translation take in addition to their characters.
BYTES_OF_A_TEXT = 200

RETRY_SECONDS = 5

GREEDY = DecodingOptions()


@dataclass(slots=True)
class DocumentJob:
    """A document that is being translated. The time limit begins at `context.started`."""

    name: str
    data: Content  # the document, and the translated document after it has been written
    document: ReadDocument
    size: int  # memory that the document and its texts take, in bytes
    source: str | None  # None if the server detects the language
    target: str
    context: RequestContext
    state: DocumentState  # that clients see
    terms: Terms | None = None  # None without a glossary or without a `source`
    languages_differ: bool = False  # True refuses a document in the target language
    num_done: int = 0  # number of translated texts, equal ones counted once
    neighbors: Neighbors | None = None  # if a model may read them


def translated_name(name: str, language: str) -> str:
    """Returns the file name of a translation: `book.pt.docx` for `book.docx`, and .md for .pdf.

    If no printable character stands before the extension, the name begins with `document`.
    """
    plain = "".join(char for char in name.replace("\\", "/") if char.isprintable())
    path = PurePosixPath(PurePosixPath(plain).name)
    if not path.suffix:
        path = PurePosixPath(f"document{path.name}")
    return f"{path.stem[:MAX_NAME_CHARS]}.{language}{written_extension(path)}"


class DocumentTranslator:
    """Translates documents, and keeps the translations for a limited time."""

    def __init__(
        self,
        translator: Translator,
        quota: Quota,
        settings: Settings,
        folder: str,
        batches: set[RequestContext],
    ) -> None:
        # Contexts of the parts that are being translated; their models are not unloaded.
        self.batches = batches
        self.translator = translator
        self.quota = quota
        self.settings = settings
        self.store = DocumentStore(folder)
        self.reader = DocumentReader(settings.max_file_bytes, keeps_fuzzy=settings.keep_fuzzy)
        self.num_open = self.open_bytes = 0  # of the documents that are being translated
        self.timer: asyncio.TimerHandle | None = None
        # Threads of the reader's answers, too, let the event loop run often.
        sys.setswitchinterval(SWITCH_SECONDS)
        # The event loop itself holds only weak references to tasks.
        self.background: set[asyncio.Task[None]] = set()

    async def open(
        self, name: str, data: Content, source: str | None, target: str, context: RequestContext
    ) -> DocumentJob:
        """Reads a document and returns its job. The caller must run the job.

        Raises:
            DocumentError: The document cannot be read.
        """
        # An unknown extension is refused first, because the other errors suggest another try.
        format_of(name)
        context.timeout_seconds = self.settings.file_timeout_seconds
        if self.num_open >= self.settings.max_files:
            found = f"the number of documents being translated is {self.num_open}"
            raise _overloaded(found, "raise REGARD_MAX_FILES")
        self.num_open += 1
        size = 0
        try:
            num_bytes, _ = await asyncio.to_thread(self.store.remove_expired)
            if num_bytes > (limit := KEPT_DOCUMENTS * self.settings.max_file_bytes):
                found = f"the kept translations have more than {limit} bytes"
                raise _overloaded(found, "lower REGARD_FILE_RETENTION_SECONDS")
            document = await self._in_time(context, self.reader.read(name, data))
            size = len(data) + 2 * document.num_bytes + BYTES_OF_A_TEXT * len(document.texts)
            self.open_bytes += size
            if size < self.open_bytes > (limit := OPEN_DOCUMENTS * self.settings.max_file_bytes):
                found = (
                    f"the documents that are being translated would take more than {limit} bytes"
                )
                raise _overloaded(found, "raise REGARD_MAX_FILE_BYTES")
            await self.quota.check(context.account, document.num_chars)
            expires = time.time() + self.settings.file_timeout_seconds + RETRY_SECONDS
            state = DocumentState(
                translated_name(name, target),
                document.num_chars,
                expires,
                skipped=document.skipped,
            )
            self._keep(state)
        except BaseException:
            self.num_open -= 1
            self.open_bytes -= size
            raise
        context.num_inputs = len(document.texts)
        return DocumentJob(name, data, document, size, source, target, context, state)

    async def run(self, job: DocumentJob) -> None:
        state = job.state
        try:
            async with self.quota.spent(job.context.account, state.characters):
                await self._translate(job)
                state.status, state.remaining_seconds = "done", None
                state.expires = time.time() + self.settings.file_retention_seconds
                await asyncio.to_thread(self.store.finish, state, job.data)
            self._sweep_at(state.expires)
        except ServiceError as error:
            self._fail(state, error.joined)
            raise
        except asyncio.CancelledError:
            self.store.remove(state.id)
            raise
        except Exception as error:
            logger.error("a document failed: %s", fault(error))
            self._fail(state, "the server failed; its log has the reason")
            raise
        finally:
            self.num_open -= 1
            self.open_bytes -= job.size
            job.document.texts.clear()  # the error of a TaskGroup may still refer to the job
            del job.data  # a thread that still copies it keeps it open

    def _keep(self, state: DocumentState) -> None:
        self._save(state)
        self._sweep_at(state.expires)

    async def remove_expired(self) -> None:
        """Removes the expired documents now, and each other one when it expires.

        A process also calls this method when it starts: it may replace a process that has ended.
        """
        _, expires = await asyncio.to_thread(self.store.remove_expired)
        if expires is not None:
            self._sweep_at(expires)

    def _sweep_at(self, expires: float) -> None:
        """Calls `remove_expired` a second after a document expires, unless it is called sooner."""
        loop = asyncio.get_running_loop()
        when = loop.time() + max(0, expires - time.time()) + 1
        if self.timer is not None:
            if loop.time() < self.timer.when() <= when:
                return
            self.timer.cancel()
        self.timer = loop.call_at(when, lambda: self.in_background(self.remove_expired()))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    def close(self) -> None:
        self.reader.close()
        if self.timer is not None:
            self.timer.cancel()

    def _save(self, state: DocumentState) -> None:
        with suppress(FileNotFoundError):  # A server that stops may have removed the folder.
            self.store.save(state)

    def _fail(self, state: DocumentState, reason: str) -> None:
        state.status, state.error, state.remaining_seconds = "error", reason, None
        state.expires = time.time() + self.settings.file_retention_seconds
        self._keep(state)

    async def _translate(self, job: DocumentJob) -> None:
        job.state.status = "translating"
        self._save(job.state)
        source = await self._detect(job) if job.source is None else job.source
        if job.languages_differ and source == job.target:
            raise InvalidRequestError(
                "Source and target language are equal.",
                details=f"the document is in {source}; send another target, or the right source",
            )
        # With the target language as source, the texts stay as they are.
        job.source = source or job.target
        # A text usually has more characters than tokens, so a batch rarely exceeds
        # `max_pending_tokens`.
        batch_chars = min(BATCH_CHARS, self.settings.max_pending_tokens)
        known, waiting = await asyncio.to_thread(_batches, job.document.texts, batch_chars)
        if self.translator.reads_context:
            job.neighbors = await asyncio.to_thread(Neighbors, job.document.texts)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(BATCHES_AT_ONCE, len(waiting))):
                    group.create_task(self._translate_batches(job, waiting, known))
        except BaseException as error:
            # The tracebacks of a TaskGroup refer to themselves, so they outlive their error.
            known.clear()
            waiting.clear()
            raise (error.exceptions[0] if isinstance(error, ExceptionGroup) else error) from None
        translations = (known[text] or "" for text in job.document.texts)
        write = self.reader.write(job.name, job.data, translations, job.target)
        try:
            await self._in_time(job.context, write)
        except DocumentTooLargeError as error:
            raise RequestTooLargeError(str(error)) from None
        except DocumentError as error:
            raise InvalidRequestError(str(error)) from None

    async def _in_time(self, context: RequestContext, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(context.deadline - time.perf_counter()):
                return await work
        except TimeoutError:
            raise self._late(context) from None

    def _late(self, context: RequestContext) -> DeadlineExceededError:
        limit = context.timeout_seconds
        given = context.client_seconds or limit
        name = "X-Request-Timeout-Ms" if given < limit else "REGARD_FILE_TIMEOUT_SECONDS"
        return DeadlineExceededError(
            f"the document was not translated in {min(given, limit):g} s; split it, or raise {name}"
        )

    async def _detect(self, job: DocumentJob) -> str | None:
        """Returns the language of a document; None if no language is detected."""
        sample = job.document.sample
        sources = self.translator.catalog.sources(job.target)
        found = self.translator.detection.detect_one(sample, sources)
        return found[0].language if found[0].confidence else None

    async def _translate_batches(
        self, job: DocumentJob, waiting: deque[list[str]], known: dict[str, str | None]
    ) -> None:
        while waiting:
            texts = waiting.popleft()
            try:
                translations = await self._translate_batch(job, texts)
            except (InvalidRequestError, RequestTooLargeError) as error:
                first = [*known].index(texts[0]) + 1
                place = f"texts {first} to {first + len(texts) - 1} of {len(known)} of the document"
                error.details = f"{error.details}; {place}".removeprefix("; ")
                raise
            known.update(zip(texts, translations, strict=True))
            job.num_done += len(texts)
            job.state.progress = round(job.num_done / len(known), 3)
            elapsed = time.perf_counter() - job.context.started
            remaining = len(known) - job.num_done
            job.state.remaining_seconds = 1 + int(elapsed * remaining / job.num_done)
            self._save(job.state)

    async def _translate_batch(self, job: DocumentJob, texts: list[str]) -> list[str]:
        request = TranslationRequest(
            texts,
            job.source,
            job.target,
            GREEDY,
            is_html=job.document.is_html,
            split_lines=not job.document.is_html,
            is_bulk=True,
            terms=job.terms,
            neighbors=job.neighbors,
        )
        while True:
            context = RequestContext(
                job.context.request_id,
                job.context.started,
                address=job.context.address,
                account=job.context.account,
                timeout_seconds=job.context.timeout_seconds,
                client_seconds=job.context.client_seconds,
            )
            self.batches.add(context)
            try:
                results = await self.translator.translate(request, context)
            except OverloadedError as error:
                pause = error.retry_after_seconds or RETRY_SECONDS
                if time.perf_counter() + pause > job.context.deadline:
                    raise
                context.release()  # other requests may be admitted meanwhile
                await asyncio.sleep(pause)
            except DeadlineExceededError:
                raise self._late(job.context) from None
            else:
                whole = job.context
                whole.model = context.model
                whole.num_cut = Counter(whole.num_cut) + Counter(context.num_cut)
                whole.rejected = Counter(whole.rejected) + Counter(context.rejected)
                return [result.text for result in results]
            finally:
                self.batches.discard(context)
                context.release()


def _batches(
    texts: Sequence[str], batch_chars: int
) -> tuple[dict[str, str | None], deque[list[str]]]:
    """Returns the different texts, which have no translations yet, and their batches."""
    known: dict[str, str | None] = {}
    for text in texts:  # unlike `dict.fromkeys`, a loop lets the event loop run meanwhile
        known[text] = None
    return known, deque(batches(known, map(len, known), batch_chars))


def _overloaded(found: str, way_out: str) -> OverloadedError:
    message = f"{found}, which is the limit; try again later, or {way_out}"
    return OverloadedError(message, RETRY_SECONDS, "requests")
