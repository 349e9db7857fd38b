"""Translation quality by sacreBLEU: BLEU (13a) and chrF."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.bench.client import BenchError


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
    """Scores translations against one reference, line n against line n.

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

    def report(
        self, pair: str, translations: Sequence[str], seconds: float, others: Sequence[str] | None
    ) -> QualityReport:
        """Score our translations and, where given, another system's `others`."""
        return QualityReport(
            pair=pair,
            sentences=len(translations),
            seconds=seconds,
            sentences_per_second=len(translations) / seconds,
            scores=self._score(translations),
            signatures=(str(self._bleu.get_signature()), str(self._chrf.get_signature())),
            compared=self._score(others) if others else None,
            equal=sum(map(str.__eq__, translations, others)) if others else None,
        )

    def _score(self, translations: Sequence[str]) -> Scores:
        bleu = self._bleu.corpus_score(translations, self._references)
        chrf = self._chrf.corpus_score(translations, self._references)
        return Scores(bleu=bleu.score, chrf=chrf.score)
