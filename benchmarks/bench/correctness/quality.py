"""Measures translation quality with sacreBLEU: BLEU (13a) and chrF."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bench.client import BenchError


@dataclass(frozen=True)
class Scores:
    """Corpus scores of the translations against the reference, from 0 to 100."""

    bleu: float
    chrf: float


@dataclass(frozen=True)
class QualityReport:
    """Figures of one run over a file."""

    pair: str  # source and target language, such as `en-pt`
    sentences: int
    seconds: float  # duration of the run
    sentences_per_second: float  # rate of the run
    scores: Scores  # scores of the server's translations
    # sacreBLEU's signatures of BLEU and chrF; only scores with equal signatures can be compared
    signatures: tuple[str, str]
    # scores of another system's translations; None if no such translations were given
    compared: Scores | None
    # number of lines to which both systems give exactly the same translation; None if no
    # translations of another system were given
    equal: int | None


class Scorer:
    """Compares line n of the translations with line n of the reference."""

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
        """Scores the server's translations, and another system's translations if there are any."""
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

    def score(self, translations: Sequence[str]) -> Scores:
        bleu = self._bleu.corpus_score(translations, self._references)
        chrf = self._chrf.corpus_score(translations, self._references)
        return Scores(bleu=bleu.score, chrf=chrf.score)
