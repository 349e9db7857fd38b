"""Translation quality as a client gets it: a file through `POST /translate`, then sacreBLEU."""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx

from service.bench.client import BenchError

BATCH_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True)
class Scores:
    """Corpus scores against the reference, both 0 to 100."""

    bleu: float
    chrf: float


@dataclass(frozen=True)
class QualityReport:
    """What one run over a file gave; the last two are None where no file was compared.

    Attributes:
        signatures: sacreBLEU's, of BLEU and of chrF; scores compare only under the same ones.
        compared: scores of the other system's file.
        equal: how many of its sentences are the same as ours.
    """

    pair: str
    sentences: int
    seconds: float
    sentences_per_second: float
    scores: Scores
    signatures: tuple[str, str]
    compared: Scores | None
    equal: int | None


class Scorer:
    """sacreBLEU's BLEU (13a) and chrF against one reference.

    Raises:
        BenchError: sacrebleu, an optional extra, is not installed.
    """

    def __init__(self, references: Sequence[str]) -> None:
        try:
            from sacrebleu import BLEU, CHRF
        except ImportError as error:
            raise BenchError("scoring needs sacrebleu: pip install 'regard[bench]'") from error
        self._references = [references]
        self._bleu, self._chrf = BLEU(tokenize="13a"), CHRF()

    def score(self, translations: Sequence[str]) -> Scores:
        """Score translations that stand in the order of the references."""
        bleu = self._bleu.corpus_score(translations, self._references)
        chrf = self._chrf.corpus_score(translations, self._references)
        return Scores(bleu=bleu.score, chrf=chrf.score)

    def report(
        self, pair: str, translations: Sequence[str], seconds: float, others: Sequence[str] | None
    ) -> QualityReport:
        """Score our translations and, where given, another system's `others`."""
        return QualityReport(
            pair=pair,
            sentences=len(translations),
            seconds=seconds,
            sentences_per_second=len(translations) / seconds,
            scores=self.score(translations),
            signatures=(str(self._bleu.get_signature()), str(self._chrf.get_signature())),
            compared=self.score(others) if others else None,
            equal=sum(map(str.__eq__, translations, others)) if others else None,
        )


def split_pair(pair: str) -> tuple[str, str]:
    """Split `en-pt` (or `en-zh-Hans`) into source and target language.

    Raises:
        BenchError: one of the two is missing.
    """
    source, _, target = pair.partition("-")
    if not source or not target:
        raise BenchError(f"pair {pair!r} is no SOURCE-TARGET; give it as en-pt")
    return source, target


def read_lines(path: Path) -> list[str]:
    r"""Read one sentence a line. `\n` and `\r\n` alone end a line, as for sacreBLEU itself.

    Raises:
        BenchError: the file is empty or not UTF-8.
    """
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BenchError(f"{path} is not UTF-8 ({error}); convert it first") from error
    if not text.strip():
        raise BenchError(f"{path} is empty; it needs one sentence a line")
    return text.removesuffix("\n").split("\n")


def read_parallel(source: Path, other: Path) -> list[str]:
    """Read `other`, line n of which belongs to line n of `source`.

    Raises:
        BenchError: they have not the same number of lines, or one cannot be read.
    """
    wanted, lines = len(read_lines(source)), read_lines(other)
    if len(lines) != wanted:
        raise BenchError(
            f"{source} has {wanted} lines but {other} has {len(lines)}; "
            "line n of one must belong to line n of the other"
        )
    return lines


def translate(
    url: str, pair: str, sentences: Sequence[str], batch_size: int, num_clients: int
) -> list[str]:
    """Translate all sentences by lists of `batch_size`, `num_clients` requests at a time.

    Raises:
        BenchError: a request failed, or its reply has not one translation for each text.
    """
    source, target = split_pair(pair)
    starts = range(0, len(sentences), batch_size)
    # trust_env: a proxy of the environment is not to be measured.
    with (
        httpx.Client(base_url=url, timeout=BATCH_TIMEOUT_SECONDS, trust_env=False) as client,
        ThreadPoolExecutor(num_clients) as pool,
    ):
        batches = pool.map(
            lambda at: _translate_batch(client, source, target, sentences[at : at + batch_size]),
            starts,
        )
        return list(itertools.chain.from_iterable(batches))


def _translate_batch(
    client: httpx.Client, source: str, target: str, batch: Sequence[str]
) -> list[str]:
    where = f"{client.base_url}translate"
    try:
        reply = client.post("translate", json={"q": batch, "source": source, "target": target})
        translations = reply.json()["translatedText"] if reply.is_success else None
    except httpx.HTTPError as error:
        raise BenchError(f"{where}: {error}; is the server running?") from error
    except (ValueError, LookupError, TypeError):  # the body is shown below
        translations = None
    if not isinstance(translations, list) or len(translations) != len(batch):
        raise BenchError(
            f"{where} answered {reply.status_code} to {len(batch)} texts without as many "
            f"translations: {reply.text[:500]}"
        )
    return translations
