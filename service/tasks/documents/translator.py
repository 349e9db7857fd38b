"""The document task: read a document, translate its texts, write it, keep the translation.

A document is translated in batches of texts, several batches at a time. Each batch is admitted
separately. A long document therefore takes no more room in the queue than a few requests do.
"""

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress

from model.sequence import DecodingOptions
from service.documents.base import Document
from service.documents.formats import format_of, read_document
from service.documents.store import DocumentState, DocumentStore
from service.errors import DeadlineExceededError, OverloadedError, ServiceError, fault
from service.settings import Settings
from service.state.quota import Quota
from service.tasks.context import RequestContext
from service.tasks.documents.job import DocumentJob, batches_of, translated_name, words_of
from service.tasks.translation.translator import TranslationRequest, Translator

logger = logging.getLogger("regard.documents")

BATCH_CHARS = 16_000
"""Largest number of characters in a batch, unless the batch is one longer text."""

BATCHES_AT_ONCE = 4
"""Number of batches of one document that are translated at the same time."""

SAMPLE_TEXTS = 100
SAMPLE_CHARS = 4000
"""SAMPLE_TEXTS and SAMPLE_CHARS limit the sample from which a document's language is detected."""

KEPT_DOCUMENTS = 16
"""Limit on the total size of the kept translations, as a multiple of REGARD_MAX_FILE_BYTES.

While the total is above the limit, further documents are refused.
"""

RETRY_SECONDS = 5
GREEDY = DecodingOptions()


class DocumentTranslator:
    """Translates documents, and keeps the translations for a limited time.

    Args:
        translator: Translates the texts.
        quota: Counts the characters of the texts.
        settings: Limits.
        folder: Folder of the kept documents.

    Attributes:
        num_open: Number of documents that are being translated.
        reading: Lock that is held while a document is read.
        background: Tasks that run jobs for which no request waits. The set is needed because the
            event loop holds only weak references to tasks.
    """

    def __init__(
        self, translator: Translator, quota: Quota, settings: Settings, folder: str
    ) -> None:
        self.translator = translator
        self.quota = quota
        self.settings = settings
        self.store = DocumentStore(folder)
        self.num_open = 0
        self.reading = asyncio.Lock()
        self.background: set[asyncio.Task[None]] = set()

    async def open(
        self, name: str, data: bytes, source: str | None, target: str, context: RequestContext
    ) -> DocumentJob:
        """Reads a document and returns its job. The caller must run the job.

        Raises:
            DocumentError: The document cannot be read.
            OverloadedError: Too many documents are being translated, or the kept translations take
                too many bytes.
            QuotaExceededError: The API key has too few characters left this month.
        """
        # An unknown extension is refused before `_check_room`, whose error suggests another try.
        format_of(name)
        self._check_room()
        self.num_open += 1
        try:
            async with self.reading:  # One document at a time, because reading takes much memory.
                document, num_chars = await asyncio.to_thread(_read, name, data)
            await self.quota.check(context.account, num_chars)
            expires = time.time() + self.settings.file_timeout_seconds + RETRY_SECONDS
            state = DocumentState(translated_name(name, target), num_chars, expires)
            self._keep(state)
        except BaseException:
            self.num_open -= 1
            raise
        texts = document.texts()
        context.num_inputs = len(texts)
        return DocumentJob(document, texts, source, target, context, state)

    async def run(self, job: DocumentJob) -> None:
        """Translates a document, and keeps the translation.

        Raises:
            ServiceError: A text could not be translated, the time limit was exceeded, or the API
                key has too few characters left this month.
        """
        state = job.state
        try:
            async with self.quota.spent(job.context.account, state.characters):
                content = await self._translate(job)
                state.status, state.remaining_seconds = "done", None
                state.expires = time.time() + self.settings.file_retention_seconds
                await asyncio.to_thread(self.store.finish, state, content)
            self._remove_later(state)
        except ServiceError as error:
            self._fail(state, f"{error.message}; {error.details}" if error.details else str(error))
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

    def _check_room(self) -> None:
        settings = self.settings
        self.store.remove_expired()
        if self.num_open >= settings.max_files:
            raise OverloadedError(
                f"{self.num_open} documents are being translated, which is the limit; try again "
                "later, or raise REGARD_MAX_FILES",
                RETRY_SECONDS,
                "requests",
            )
        limit = KEPT_DOCUMENTS * settings.max_file_bytes
        if self.store.num_bytes() > limit:
            raise OverloadedError(
                f"the kept translations have more than {limit} bytes, which is the limit; try "
                "again later, or lower REGARD_FILE_RETENTION_SECONDS",
                RETRY_SECONDS,
                "requests",
            )

    def _keep(self, state: DocumentState) -> None:
        """Saves a state, and schedules the removal of the document after the state has expired."""
        self._save(state)
        self._remove_later(state)

    def remove_all_later(self) -> None:
        """Schedules the removal of all kept documents.

        A process calls this method when it starts, because it may replace a process that has ended
        and had scheduled some of these removals.
        """
        for state in self.store.states():
            self._remove_later(state)

    def _remove_later(self, state: DocumentState) -> None:
        delay = state.expires - time.time() + 1
        asyncio.get_running_loop().call_later(delay, self.store.remove_expired)

    def _save(self, state: DocumentState) -> None:
        with suppress(FileNotFoundError):  # A server that stops may have removed the folder.
            self.store.save(state)

    def _fail(self, state: DocumentState, reason: str) -> None:
        state.status, state.error, state.remaining_seconds = "error", reason, None
        state.expires = time.time() + self.settings.file_retention_seconds
        self._keep(state)

    async def _translate(self, job: DocumentJob) -> bytes:
        job.state.status = "translating"
        self._save(job.state)
        if job.source is None:
            job.source = await self._detect(job)
        known: dict[str, str | None] = dict.fromkeys(job.texts)
        waiting = deque(batches_of(list(known), self._batch_chars))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(BATCHES_AT_ONCE, len(waiting))):
                    group.create_task(self._translate_batches(job, waiting, known))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        translations = [known[text] or "" for text in job.texts]
        return await asyncio.to_thread(job.document.write, translations, job.target)

    @property
    def _batch_chars(self) -> int:
        # A text usually has more characters than tokens, so a batch rarely exceeds
        # `max_pending_tokens`.
        return min(BATCH_CHARS, self.settings.max_pending_tokens)

    async def _detect(self, job: DocumentJob) -> str:
        """Returns the language of a document. If none is detected, returns the target language.

        With the target language as source, the texts stay as they are.
        """
        texts = job.texts[:: len(job.texts) // SAMPLE_TEXTS + 1]
        sample = "\n".join(words_of(job.document, texts))[:SAMPLE_CHARS]
        sources = self.translator.catalog.sources(job.target)
        found = self.translator.detection.detect_one(sample, sources)
        return found[0].language if found[0].confidence else job.target

    async def _translate_batches(
        self, job: DocumentJob, waiting: deque[list[str]], known: dict[str, str | None]
    ) -> None:
        """Takes batches from `waiting`, and translates them, until `waiting` is empty."""
        while waiting:
            texts = waiting.popleft()
            known.update(zip(texts, await self._translate_batch(job, texts), strict=True))
            self._report(job, sum(text is not None for text in known.values()), len(known))

    def _report(self, job: DocumentJob, done: int, total: int) -> None:
        """Saves an estimate of the remaining time, from the share of texts that are done."""
        elapsed = time.perf_counter() - job.context.started
        job.state.remaining_seconds = 1 + int(elapsed * (total - done) / done)
        self._save(job.state)

    async def _translate_batch(self, job: DocumentJob, texts: list[str]) -> list[str]:
        request = TranslationRequest(
            texts,
            job.source,
            job.target,
            GREEDY,
            is_html=job.document.is_html,
            is_bulk=True,
            terms=job.terms,
        )
        limit = self.settings.file_timeout_seconds
        deadline = job.context.deadline(limit)
        while True:
            context = RequestContext(
                job.context.request_id,
                job.context.started,
                address=job.context.address,
                account=job.context.account,
                timeout_seconds=limit,
                client_seconds=job.context.client_seconds,
            )
            try:
                results = await self.translator.translate(request, context)
            except OverloadedError as error:
                pause = error.retry_after_seconds or RETRY_SECONDS
                if time.perf_counter() + pause > deadline:
                    raise
                context.release()  # other requests may be admitted meanwhile
                await asyncio.sleep(pause)
            except DeadlineExceededError:
                given = job.context.client_seconds or limit
                name = "X-Request-Timeout-Ms" if given < limit else "REGARD_FILE_TIMEOUT_SECONDS"
                raise DeadlineExceededError(
                    f"the document was not translated in {min(given, limit):g} s; split it, or "
                    f"raise {name}"
                ) from None
            else:
                job.context.model = context.model
                for name, count in context.num_cut.items():
                    job.context.num_cut[name] = job.context.num_cut.get(name, 0) + count
                for labels, count in context.rejected.items():
                    total = job.context.rejected.get(labels, 0) + count
                    job.context.rejected[labels] = total
                return [result.text for result in results]
            finally:
                context.release()


def _read(name: str, data: bytes) -> tuple[Document, int]:
    """Reads a document, and returns it with the number of characters of its words."""
    document = read_document(name, data)
    return document, sum(map(len, words_of(document, document.texts())))
